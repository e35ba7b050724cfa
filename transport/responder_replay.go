package transport

import (
	"math/bits"

	"github.com/goroce/goroce/ib"
)

// replayStore remembers the newest READs, atomics, ATOMIC WRITEs and FLUSHes in PSN order, for a
// requester that lost an answer. A repeated READ reads memory again. The others must not be
// executed twice, and get the saved result (IBTA 9.7.5.1.3 and 9.7.5.1.4).
type replayStore struct {
	ring  []replay // length is a power of two; made at the first use
	count uint64   // ever added
	first uint64   // number of the oldest that the ring has had
	depth uint8    // max_dest_rd_atomic
	// evicted is the last sequence number of the newest overwritten entry, 0 if there is none.
	evicted uint64
}

// replay is one remembered request.
type replay struct {
	op     ib.Operation
	rkey   ib.RKey
	length uint32
	msn    ib.MSN // after the message
	first  uint64
	last   uint64
	va     uint64
	value  uint64 // atomics: the original value
	again  uint64 // READ: packets sent again so far
	at     int64  // READ: when it came
}

// afford deducts n packets from what a READ may be sent again, if that much is left.
func (p *replay) afford(n uint64) bool {
	if p.again+n > readCopies*(p.last-p.first+1) {
		return false
	}
	p.again += n
	return true
}

func (s *replayStore) init(depth uint8) {
	*s = replayStore{ring: s.ring[:0:0], depth: depth}
}

// deepen makes room for a greater depth set in SQD, and keeps what is remembered. A smaller depth
// changes nothing, as more may be outstanding.
func (s *replayStore) deepen(depth uint8) {
	if depth <= s.depth {
		return
	}
	s.depth = depth
	if old := *s; len(old.ring) != 0 && s.size() != len(old.ring) {
		s.ring = make([]replay, s.size())
		for i := old.count - old.have(); i != old.count; i++ {
			s.ring[i&uint64(len(s.ring)-1)] = old.ring[i&uint64(len(old.ring)-1)]
		}
		s.first = old.count - old.have()
	}
}

// size returns how many requests are remembered: twice the depth, rounded up to a power of two. rxe
// rounds its own depth up, and may have that many outstanding while as many answers are in flight.
func (s *replayStore) size() int {
	n := max(int(s.depth), minReplays/2)
	return 2 << bits.Len(uint(n-1))
}

// add remembers p.
func (s *replayStore) add(p *replay) {
	if len(s.ring) == 0 {
		s.ring = make([]replay, s.size())
	}
	slot := &s.ring[s.count&uint64(len(s.ring)-1)]
	if s.count-s.first >= uint64(len(s.ring)) {
		s.evicted = slot.last
	}
	*slot = *p
	s.count++
}

// have returns how many requests are remembered now.
func (s *replayStore) have() uint64 { return min(s.count-s.first, uint64(len(s.ring))) }

// newest returns the newest request, or nil.
func (s *replayStore) newest() *replay {
	if s.count == 0 {
		return nil
	}
	return &s.ring[(s.count-1)&uint64(len(s.ring)-1)]
}

// after returns the oldest remembered request that ends at seq or later, or nil: the one that
// contains seq, or else the next one.
func (s *replayStore) after(seq uint64) *replay {
	lo, hi := s.count-s.have(), s.count
	for lo < hi {
		mid := lo + (hi-lo)/2
		if s.ring[mid&uint64(len(s.ring)-1)].last < seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == s.count {
		return nil
	}
	return &s.ring[lo&uint64(len(s.ring)-1)]
}

// find returns the remembered request that contains seq, or nil.
func (s *replayStore) find(seq uint64) *replay {
	if p := s.after(seq); p != nil && p.first <= seq {
		return p
	}
	return nil
}

// duplicate handles a request that was executed before. Only READs are executed again (IBTA
// 9.7.5.1.3).
func (r *responder) duplicate(now int64, p *ib.Packet, info *ib.OpcodeInfo, seq uint64) {
	r.qp.e.counters.DuplicateRequest++
	if seq < r.base {
		// It is older than this connection: a packet of the previous one, or from a peer with
		// another first PSN. An ACK would confirm something that was never done.
		r.drop(now, p, "before first PSN")
		return
	}
	switch info.Op {
	case ib.OpSend, ib.OpWrite:
		r.ackDuplicate(p, seq)
	case ib.OpRead:
		r.replayRead(now, p, seq)
	default:
		// PSN and operation identify it: rxe retries FLUSH and ATOMIC WRITE with address 0 (Linux
		// 6.2 and later).
		if s := r.store.find(seq); s != nil && s.op == info.Op {
			r.replaySaved(s)
		} else {
			r.drop(now, p, "duplicate not remembered")
		}
	}
}

// ackDuplicate acknowledges a SEND or WRITE packet again, with the newest PSN before the next READ,
// atomic, ATOMIC WRITE or FLUSH.
func (r *responder) ackDuplicate(p *ib.Packet, seq uint64) {
	if seq <= r.store.evicted {
		// Not all later requests are remembered: cover this packet alone.
		r.ackAgain(seq, r.msn)
		return
	}
	if s := r.store.after(seq); s != nil {
		r.ackAgain(max(seq, s.first-1), (s.msn-1)&ib.PSNMask)
		return
	}
	// Each request for an answer has one of its own: the last was lost, and others may be.
	if !p.AckReq || !r.queueAck(r.next-1, r.msn) {
		r.acknowledge()
	}
}

// ackAgain queues an ACK of seq unless the newest answer is that ACK. If the ring is full it sends
// none: the peer will ask again.
func (r *responder) ackAgain(seq uint64, msn ib.MSN) {
	q := &r.out
	if q.len() > 0 {
		if a := q.at(q.tail - 1); a.op == ib.OpSend && a.first == seq {
			return
		}
	}
	r.queueAck(seq, msn)
}

// replaySaved answers a duplicate with the saved result, unless the first answer has not left yet.
func (r *responder) replaySaved(s *replay) {
	if r.out.full() || r.out.pending(s.first) != nil {
		return
	}
	r.owe(&answer{
		op: s.op, dup: true, msn: s.msn, value: s.value,
		first: s.first, start: s.first, at: s.first, last: s.last,
	})
}

// replayRead executes a READ again, or a part of it that starts at a later packet. It checks the
// QP's rights now; openStream checks the key when the data is sent.
func (r *responder) replayRead(now int64, p *ib.Packet, seq uint64) {
	s := r.store.find(seq)
	if s == nil || s.op != ib.OpRead {
		r.drop(now, p, "duplicate not remembered")
		return
	}
	// It must lie within the original (IBTA 9.7.5.1.3): the address must match the PSN, and the
	// data must not go past the end.
	off := (seq - s.first) * uint64(r.qp.mtu)
	end := off + uint64(p.RETH.Len)
	if s.length > 0 && (p.RETH.RKey != s.rkey || p.RETH.VA != s.va+off || p.RETH.Len == 0) || end > uint64(s.length) {
		r.drop(now, p, "duplicate READ differs")
		return
	}
	if !r.mayRead() {
		r.refuseDuplicate(ib.NAKInvalidRequest, seq)
		return
	}
	if r.cannotAnswer(now, s, seq) {
		return
	}
	if r.told && p.Resv7 != ib.Resv7Selective && now-s.at < minRepeatNs {
		r.drop(now, p, "doubled by the network")
		return
	}
	r.learn(p)
	last := seq + r.readPackets(p.RETH.Len) - 1
	a := r.out.pending(s.first)
	if r.told && (last < s.last || a == nil) && r.mendRead(s, seq, last, end) {
		return
	}
	if a != nil {
		r.mergeRead(s, a, seq, last, end)
		return
	}
	if r.out.full() {
		return
	}
	paid := s.afford(last - seq + 1)
	cut := !paid && last > seq
	if !paid {
		r.qp.e.counters.CutReads++
		if now < r.readAt {
			return // the peer asks again, but hardly so soon
		}
		r.readAt = now + readAgainNs
		last, end = seq, min(end, off+uint64(r.qp.mtu))
	}
	r.owe(&answer{
		op: ib.OpRead, dup: true, cut: cut, rkey: s.rkey, msn: s.msn, va: s.va, end: end,
		first: s.first, start: seq, at: seq, last: last,
	})
}

// mergeRead lets a, an answer still being sent, serve a repetition of its READ as well. What it has
// not reached yet will come; for what it has passed it goes back.
func (r *responder) mergeRead(s *replay, a *answer, seq, last, end uint64) {
	more := uint64(0)
	if last > a.last {
		more = last - a.last
	}
	if seq < a.at {
		more += a.at - seq
	}
	if !s.afford(more) {
		r.qp.e.counters.CutReads++
		return // the peer asks again once it has what is in flight
	}
	if a.last < last || a.end < end {
		a.last, a.end, a.cut = last, end, false
	}
	if seq < a.at {
		a.start, a.at = seq, seq
		r.out.rewound(a)
	}
}

// mendRead answers a repetition of a READ, or of a part, at once, before other answers: a requester
// that knows selective repeat asks only for what it misses. These answers leave in the order of the
// requests, so that the requester can tell which was lost. mendRead returns false if the READ's
// copies are used up or the queue is full.
func (r *responder) mendRead(s *replay, seq, last, end uint64) bool {
	q := &r.out
	for i := q.head; i != q.tail; i++ {
		if a := q.at(i); a.op == ib.OpRead && a.first == s.first && a.at <= seq && last <= a.last {
			return true // it will come
		}
	}
	if q.full() || !s.afford(last-seq+1) {
		return false
	}
	q.pushFront(&answer{
		op: ib.OpRead, dup: true, mends: true, rkey: s.rkey, msn: s.msn, va: s.va, end: end,
		first: s.first, start: seq, at: seq, last: last,
	})
	r.qp.e.counters.AckDeferred++
	r.qp.markReady()
	return true
}

// mayRead reports whether the QP still permits its peer to READ.
func (r *responder) mayRead() bool { return r.qp.attr.Access.Has(requiredAccess[ib.OpRead]) }

// rightsChanged is called after Modify may have changed the peer's rights. The answer being sent
// then checks its rights again. Saved results need no check: they report what was done while it was
// allowed.
func (r *responder) rightsChanged() { r.out.stream.close() }

// refuseDuplicate answers a repetition that is no longer permitted. It may be a stray packet of a
// request that the peer has finished long ago, so the QP stays unharmed.
func (r *responder) refuseDuplicate(s ib.Syndrome, seq uint64) {
	if r.nak.latch == nakNone && !r.nak.due {
		r.sendNAK(s, seq)
	}
}
