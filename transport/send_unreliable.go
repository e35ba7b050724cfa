package transport

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// ucClass is the difference between UC and RC opcodes.
const ucClass = ib.UCSendFirst - ib.RCSendFirst

// sendUnreliable sends on UC and UD. A request is complete when its last packet is handed to the
// link (IBTA 9.8.3.2, 9.8.2.2).
func (sq *requester) sendUnreliable(now int64, batch []TxPacket) int {
	q, qp := &sq.q, sq.qp
	n := 0
	for n < len(batch) && q.cur != q.tail {
		w := q.at(q.cur)
		if w.state == wqePosted {
			if qp.state != StateRTS {
				break
			}
			if !sq.beginUnreliable(now, w) {
				break
			}
		}
		if w.npkts != 0 {
			tx := &batch[n]
			tx.SrcQP, tx.NumFrags, tx.Pad, tx.PayloadLen = qp.num, 0, 0, 0
			last := sq.curPkt+1 == w.npkts
			ok := false
			if qp.typ == ib.UC {
				tx.Path = &qp.path
				ok = sq.buildPayload(w, tx, last, ucClass)
			} else {
				ok = sq.buildDatagram(w, tx)
			}
			if !ok {
				sq.lost(now, w)
				break
			}
			n++
			sq.psn = sq.psn.Next()
			sq.end = sq.psn
			sq.curPkt++
			if !last {
				continue
			}
		}
		sq.una = sq.psn
		sq.curPkt = 0
		q.cur++
		sq.retire(now)
		if qp.state != StateRTS {
			break
		}
	}
	sq.una = sq.psn
	if q.head == q.cur && sq.curPkt == 0 {
		sq.checkDrained(now)
	}
	return n
}

// beginUnreliable checks a request about to be sent. It returns false if the request has failed, or
// waits.
func (sq *requester) beginUnreliable(now int64, w *sendWQE) bool {
	op := &sendOps[w.op]
	if op.local {
		return sq.doLocal(now, w)
	}
	if f := sq.tx.load(sq, sq.q.cur, 0); f != 0 {
		return sq.refuse(now, w, WCLocalProtErr, uint32(f))
	}
	w.psn, w.npkts, w.state = sq.psn, 1, wqeBegun
	if sq.qp.typ == ib.UC {
		w.npkts = packetsFor(w.length, sq.qp.mtu)
	}
	return true
}

// buildDatagram builds the packet of a UD SEND.
func (sq *requester) buildDatagram(w *sendWQE, tx *TxPacket) bool {
	qp := sq.qp
	tx.Path = &w.ah.path
	n := int(w.length)
	if n != 0 {
		if !sq.payload(w, tx, 0, n) {
			return false
		}
		tx.PayloadLen = uint16(n)
		tx.Pad = uint8(ib.PadFor(n))
	}
	code := ib.UDSendOnly
	if w.op == WRSendImm {
		code = ib.UDSendOnlyImm
	}
	putBTH(&tx.Header, code, w.flags&SendSolicited != 0, int(tx.Pad), ib.QPN(w.dest), sq.psn, false)
	h := tx.Header[ib.BTHBytes:]
	key := ib.QKey(w.rkey)
	if key&ib.QKeyControlled != 0 {
		key = qp.attr.QKey // IBTA 10.2.5
	}
	binary.BigEndian.PutUint32(h, uint32(key))
	binary.BigEndian.PutUint32(h[4:], uint32(qp.num))
	tx.HeaderLen = ib.BTHBytes + ib.DETHBytes
	if w.op == WRSendImm {
		binary.BigEndian.PutUint32(h[ib.DETHBytes:], w.imm)
		tx.HeaderLen += ib.ImmDtBytes
	}
	return true
}
