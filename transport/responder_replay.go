package transport

import (
	"math/bits"

	"github.com/goroce/goroce/ib"
)

// replayStore remembers the newest READs, atomics, ATOMIC WRITEs and FLUSHes,
// in PSN order, for the requester that asks again because the answer was lost.
// A READ is done again from memory; the others must not be, and get the
// saved result (IBTA 9.7.5.1.3 and 9.7.5.1.4).
type replayStore struct {
	ring  []replay // length is a power of two; made at the first use
	count uint64   // ever added
	first uint64   // of these, the oldest that the ring has had
	depth uint8    // max_dest_rd_atomic
	// evicted is the last sequence number of the newest entry that was
	// overwritten, 0 if none was.
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
}

// afford takes n packets from what a READ may be sent again, if that is left.
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

// deepen makes room for a connection that was given a greater depth in SQD. What
// is remembered stays; a lesser depth changes nothing, as more may be outstanding.
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

// size returns how many requests are remembered: twice the depth rounded up to
// a power of two, because rxe rounds its own depth up and may have that many
// outstanding while the answers to as many more are in flight.
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

// have returns how many requests are remembered.
func (s *replayStore) have() uint64 { return min(s.count-s.first, uint64(len(s.ring))) }

// newest returns the newest request, nil if there is none.
func (s *replayStore) newest() *replay {
	if s.count == 0 {
		return nil
	}
	return &s.ring[(s.count-1)&uint64(len(s.ring)-1)]
}

// after returns the oldest remembered request that ends at seq or later, nil
// if there is none: the one that holds seq, or else the next one.
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

// find returns the remembered request that holds seq, nil if there is none.
func (s *replayStore) find(seq uint64) *replay {
	if p := s.after(seq); p != nil && p.first <= seq {
		return p
	}
	return nil
}

// duplicate handles a request that was executed before. Nothing is executed
// again but READs (IBTA 9.7.5.1.3).
func (r *responder) duplicate(now int64, p *ib.Packet, info *ib.OpcodeInfo, seq uint64) {
	r.qp.e.counters.DuplicateRequest++
	if seq < r.base {
		// Older than this connection: a packet of the one before, or a peer with
		// another idea of the first PSN. To acknowledge it would tell the peer that
		// something was done that was not.
		r.drop(now, p, "before first PSN")
		return
	}
	switch info.Op {
	case ib.OpSend, ib.OpWrite:
		r.ackDuplicate(seq)
	case ib.OpRead:
		r.replayRead(now, p, seq)
	default:
		// By PSN and operation alone: rxe sends a retried FLUSH or ATOMIC WRITE
		// with address 0 (Linux 6.2 and later).
		if s := r.store.find(seq); s != nil && s.op == info.Op {
			r.replaySaved(s)
		} else {
			r.drop(now, p, "duplicate not remembered")
		}
	}
}

// ackDuplicate acknowledges a SEND or WRITE packet again, with the newest PSN
// that no READ, atomic, ATOMIC WRITE or FLUSH stands before.
func (r *responder) ackDuplicate(seq uint64) {
	if seq <= r.store.evicted {
		// What came after it is not all remembered: cover itself alone.
		r.ackAgain(seq, r.msn)
		return
	}
	if s := r.store.after(seq); s != nil {
		r.ackAgain(max(seq, s.first-1), (s.msn-1)&ib.PSNMask)
		return
	}
	r.acknowledge()
}

// ackAgain queues an ACK of seq unless the last thing queued is that already.
// If too much is owed, nothing: the peer will ask again.
func (r *responder) ackAgain(seq uint64, msn ib.MSN) {
	q := &r.out
	if q.len() > 0 {
		if a := q.at(q.tail - 1); a.op == ib.OpSend && a.first == seq {
			return
		}
	}
	r.queueAck(seq, msn)
}

// replaySaved answers a duplicate with the saved result, unless the answer to
// the first one has not left yet.
func (r *responder) replaySaved(s *replay) {
	if r.out.full() || r.out.pending(s.first) != nil {
		return
	}
	r.owe(&answer{
		op: s.op, dup: true, msn: s.msn, value: s.value,
		first: s.first, start: s.first, at: s.first, last: s.last,
	})
}

// replayRead does a READ again, or a part of one that starts at a later
// packet. The rights of the QP are looked at again here, the key when the data
// is sent.
func (r *responder) replayRead(now int64, p *ib.Packet, seq uint64) {
	s := r.store.find(seq)
	if s == nil || s.op != ib.OpRead {
		r.drop(now, p, "duplicate not remembered")
		return
	}
	// Within what was asked for before (IBTA 9.7.5.1.3): the address must be the
	// one that belongs to the PSN, and the data must not go past the end.
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
			return // the peer asks again, and hardly so soon
		}
		r.readAt = now + readAgainNs
		last, end = seq, min(end, off+uint64(r.qp.mtu))
	}
	r.owe(&answer{
		op: ib.OpRead, dup: true, cut: cut, rkey: s.rkey, msn: s.msn, va: s.va, end: end,
		first: s.first, start: seq, at: seq, last: last,
	})
}

// mergeRead lets a, which is still being sent, serve a repetition of its READ
// too. What it has not reached yet will come; what it has passed is sent again,
// by going back.
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
		return // the peer asks again when it has what is on its way
	}
	if a.last < last || a.end < end {
		a.last, a.end, a.cut = last, end, false
	}
	if seq < a.at {
		a.start, a.at = seq, seq
		r.out.rewound(a)
	}
}

// mendRead answers a repetition of a READ, or of a part of it, at once, before what is to be sent: a requester that knows
// selective repeat asks for what it is missing, and has, or will get, what is behind it. All of these are answered in the
// order in which they came: by that the requester knows which answer was lost. It reports false if that has to be paid for
// otherwise.
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

// mayRead reports whether the QP still lets its peer READ.
func (r *responder) mayRead() bool { return r.qp.attr.Access.Has(requiredAccess[ib.OpRead]) }

// rightsChanged is told that Modify may have changed what the peer may do. The
// answer that is being sent looks at its rights again. Saved results need none:
// they tell of what was done when it was allowed.
func (r *responder) rightsChanged() { r.out.stream.close() }

// refuseDuplicate answers a repetition that is not allowed any more. It may be a
// stray packet about a request that the peer has long finished, so it does not
// harm the QP.
func (r *responder) refuseDuplicate(s ib.Syndrome, seq uint64) {
	if r.nak.latch == nakNone && !r.nak.due {
		r.sendNAK(s, seq)
	}
}
