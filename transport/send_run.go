package transport

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// This file sends the inner packets of long SENDs, WRITEs and READ responses: MIDDLE ones, which
// differ only in PSN and payload. A run's first packet is built as usual, and the others are
// derived from it. It ends at the last packet of the message, at one that requests an answer, and
// at the end of window, room or a piece of memory. Resent requests do not form runs.

// runsOut is false in tests that send packets one by one.
var runsOut = true

// putRun derives the packets behind batch[0] from it, with PSNs from psn on and pieces of payload.
func putRun(batch []TxPacket, payload []byte, psn ib.PSN) {
	first := &batch[0]
	head, n := binary.BigEndian.Uint64(first.Header[:]), int(first.PayloadLen)
	for i := range batch[1:] {
		tx := &batch[i+1]
		tx.Path, tx.SrcQP = first.Path, first.SrcQP
		tx.HeaderLen, tx.Pad, tx.NumFrags, tx.PayloadLen = ib.BTHBytes, 0, 1, first.PayloadLen
		binary.BigEndian.PutUint64(tx.Header[:], head)
		binary.BigEndian.PutUint32(tx.Header[8:], uint32(psn))
		tx.Header[8] = first.Header[8] & ib.Resv7Selective
		tx.Frags[0] = payload[i*n : (i+1)*n : (i+1)*n]
		psn = psn.Next()
	}
}

// repeat makes the packets that follow batch[0] in w and resemble it, and returns how many.
func (sq *requester) repeat(now int64, w *sendWQE, batch []TxPacket) int {
	first := &batch[0]
	if first.HeaderLen != ib.BTHBytes || first.NumFrags != 1 || sq.curPkt < 2 || sq.psn != sq.end ||
		w.inline || !runsOut || sq.retry.spreadNs != 0 {
		return 0 // the packet behind FIRST or LAST has other headers, or none exists
	}
	if first.Header[8]&ib.Resv7Selective != 0 {
		return 0 // it was resent, or introduces selective repeat
	}
	n, cost := sq.repetitions(w, len(batch)-1)
	if n <= 0 {
		return 0
	}
	mtu := sq.qp.mtu
	off := uint64(sq.curPkt) * uint64(mtu)
	c := &sq.tx.cur
	if c.Pos() != off {
		return 0
	}
	piece := c.Next(n * mtu)
	if n = len(piece) / mtu; n*mtu != len(piece) {
		c.Seek(off + uint64(n*mtu))
	}
	putRun(batch[:n+1], piece, sq.psn)
	if n > 0 && cost > 0 {
		sq.chargeOut(now, n*cost)
	}
	sq.psn = sq.psn.Add(n)
	sq.end = sq.psn
	sq.sinceAck += n
	sq.curPkt += uint32(n)
	return n
}

// repetitions returns how many packets of w, at most n, may be sent now without requesting an
// answer, and what each costs of the peer's room.
func (sq *requester) repetitions(w *sendWQE, n int) (packets, cost int) {
	n = min(n, int(w.npkts-sq.curPkt)-1, // not the last
		sq.askEvery(w)-1-sq.sinceAck, sq.room(w)-1)
	if n <= 0 || !sq.bounded() {
		return n, 0
	}
	f := sq.flight
	cost = f.run.of(headerRoom + sq.qp.mtu)
	if cost <= 0 {
		return n, 0
	}
	return min(n, (f.size/4-1)/cost-sq.sinceAck, f.admitsRun(sq.qp, cost)), cost
}

// admitsRun returns how many packets of this cost the budget admits, by the rule of admits.
func (b *budget) admitsRun(qp *QP, cost int) int {
	switch s := &qp.share; {
	case s.from == b && s.granted > 0:
		return (s.granted + cost - 1) / cost
	case b.head == nil:
		return (b.size - b.used) / cost
	}
	return 0
}
