package transport

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// stream is the memory from which the READ at the head of the answers is sent.
type stream struct {
	open bool
	base uint64 // offset of view's first byte from the request's address
	view mem.View
}

func (s *stream) close() {
	if s.open {
		*s = stream{}
	}
}

// rewound notes that a was moved back. If a is being sent, its key is checked again.
func (q *answerQueue) rewound(a *answer) {
	if a == q.front() {
		q.stream.close()
	}
}

// sendAnswers fills batch with owed packets and returns how many: first the answers in order, then
// the newest ACK, then the NAK. A CNP that is due goes first of all.
func (r *responder) sendAnswers(now int64, batch []TxPacket) int {
	n := 0
	q := &r.out
	for n < len(batch) {
		switch {
		case r.cnp.due:
			r.buildCNP(&batch[n])
			n++
		case q.head != q.tail:
			if r.qp.pacingHoldsAnswer(q.front()) {
				return n // and what is behind it
			}
			n += r.sendAnswer(now, batch[n:])
		case q.ack:
			q.ack = false
			r.buildAck(&batch[n], r.credits(), r.next-1, r.msn)
			n++
		case r.nak.due:
			r.buildNAK(now, &batch[n])
			n++
		default:
			return n
		}
	}
	return n
}

// owesBareAck reports whether the responder owes nothing but an ACK.
func (r *responder) owesBareAck() bool { return r.out.ack && !r.owesMore() }

// owesMore reports whether the responder owes anything other than an ACK.
func (r *responder) owesMore() bool {
	return r.out.head != r.out.tail || r.nak.due || r.cnp.due
}

// sendAnswer sends what it can of the answer at the head of the queue. It may make progress without
// sending, if the memory of a READ is gone.
func (r *responder) sendAnswer(now int64, batch []TxPacket) int {
	q := &r.out
	a := q.front()
	switch a.op {
	case ib.OpRead:
		return r.sendRead(now, a, batch)
	case ib.OpCompareSwap, ib.OpFetchAdd:
		tx := &batch[0]
		r.begin(tx, ib.RCAtomicAck, a.at, 0)
		putAETH(tx.Header[ib.BTHBytes:], r.credits(), a.msn)
		binary.BigEndian.PutUint64(tx.Header[ib.BTHBytes+ib.AETHBytes:], a.value)
		tx.HeaderLen = ib.BTHBytes + ib.AETHBytes + ib.AtomicAckETHBytes
	case ib.OpSend:
		r.buildAck(&batch[0], r.credits(), a.at, a.msn)
	default:
		// ATOMIC WRITE and FLUSH are answered like an empty READ (annex A19).
		tx := &batch[0]
		r.begin(tx, ib.RCReadRespOnly, a.at, 0)
		putAETH(tx.Header[ib.BTHBytes:], r.credits(), a.msn)
		tx.HeaderLen = ib.BTHBytes + ib.AETHBytes
	}
	q.pop()
	return 1
}

// sendRead sends packets of the READ at the head of the queue, directly from registered memory.
func (r *responder) sendRead(now int64, a *answer, batch []TxPacket) int {
	q := &r.out
	s := &q.stream
	mtu := uint64(r.qp.mtu)
	n := 0
	for n < len(batch) {
		off := (a.at - a.first) * mtu
		if !s.open && !r.openStream(a, off) || !s.view.Valid() {
			// Deregistered, invalidated or forbidden since the request was accepted.
			r.readRevoked(now, a)
			return n
		}
		size := min(a.end-off, mtu)
		tx := &batch[n]
		n++
		op := ib.RCReadRespMiddle
		switch {
		case a.cut:
			op = ib.RCReadRespFirst
		case a.at == a.last && a.at == a.start:
			op = ib.RCReadRespOnly
		case a.at == a.last:
			op = ib.RCReadRespLast
		case a.at == a.start:
			op = ib.RCReadRespFirst
		}
		r.begin(tx, op, a.at, int(size))
		tx.HeaderLen = ib.BTHBytes
		if op != ib.RCReadRespMiddle {
			putAETH(tx.Header[ib.BTHBytes:], r.credits(), a.msn)
			tx.HeaderLen += ib.AETHBytes
		}
		if size > 0 {
			from := off - s.base
			tx.Frags[0] = s.view.Bytes[from : from+size : from+size]
			tx.NumFrags = 1
		}
		if a.at == a.last {
			q.pop()
			return n
		}
		a.at++
		if k := int(min(uint64(len(batch)-n), a.last-a.at)); op == ib.RCReadRespMiddle && k > 0 && runsOut {
			from := (a.at-a.first)*mtu - s.base
			putRun(batch[n-1:n+k], s.view.Bytes[from:from+uint64(k)*mtu], psnOf(a.at))
			a.at += uint64(k)
			n += k
		}
	}
	return n
}

// openStream checks rights and key for the rest of the READ, from offset off on.
func (r *responder) openStream(a *answer, off uint64) bool {
	qp := r.qp
	if !r.mayRead() {
		return false
	}
	view, f := qp.e.cfg.Mem.Remote(qp.pd, qp.num, a.rkey, a.va+off, uint32(a.end-off), mem.RemoteRead)
	if f != mem.FaultNone {
		return false
	}
	r.out.stream = stream{open: true, base: off, view: view}
	return true
}

// readRevoked ends a READ that has lost its memory or its rights: it sends NAK remote access error
// with the PSN of the next response. For a first answer that is fatal, as for a key that was bad
// from the start.
func (r *responder) readRevoked(now int64, a *answer) {
	at := a.at
	if a.dup {
		r.out.pop()
		r.refuseDuplicate(ib.NAKRemoteAccess, at)
		return
	}
	r.out.reset()
	r.fail(now, ib.NAKRemoteAccess, at, EventQPAccessError, false)
}

// begin starts a response packet with n payload bytes: it sets its path and BTH.
func (r *responder) begin(tx *TxPacket, op ib.Opcode, seq uint64, n int) {
	qp := r.qp
	tx.Path = &qp.path
	tx.SrcQP = qp.num
	tx.NumFrags = 0
	tx.PayloadLen = uint16(n)
	tx.Pad = uint8(ib.PadFor(n))
	putBTH(&tx.Header, op, false, int(tx.Pad), qp.attr.DestQPN, psnOf(seq), false)
	if r.told {
		tx.Header[8] |= ib.Resv7Selective
	}
}

// buildNAK builds the NAK that is due.
func (r *responder) buildNAK(now int64, tx *TxPacket) {
	k := &r.nak
	k.due = false
	r.buildAck(tx, k.syndrome, k.seq, r.msn)
	if k.syndrome == ib.NAKSequence && r.told {
		r.tellKept(tx)
	}
	r.nakLeft(now)
	e := r.qp.e
	switch {
	case k.syndrome == ib.NAKSequence:
		e.counters.SentSeqNAKs++
	case k.syndrome.Kind() == ib.SyndromeRNR:
		e.counters.SendRNRErr++
	}
	if t := e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{
			Now: now, Kind: TraceNAKSent, QPN: r.qp.num, PSN: psnOf(k.seq), Detail: k.syndrome.String(),
		})
	}
}

// buildAck builds an ACKNOWLEDGE packet.
func (r *responder) buildAck(tx *TxPacket, s ib.Syndrome, seq uint64, msn ib.MSN) {
	r.begin(tx, ib.RCAcknowledge, seq, 0)
	putAETH(tx.Header[ib.BTHBytes:], s, msn)
	tx.HeaderLen = ib.BTHBytes + ib.AETHBytes
}

func putAETH(b []byte, s ib.Syndrome, msn ib.MSN) {
	binary.BigEndian.PutUint32(b, uint32(s)<<24|uint32(msn)&ib.PSNMask)
}
