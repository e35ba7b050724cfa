package transport

import "github.com/goroce/goroce/ib"

// readyList is the QPs that have something to send, in the order of their
// turns: a doubly linked list through the QPs, so that it never allocates.
type readyList struct{ head, tail *QP }

// qpLink is the place of a QP on the ready list.
type qpLink struct {
	next, prev *QP
	queued     bool
	// requestsFirst gives the send queue the first word on the next turn, after
	// responses have filled a whole one.
	requestsFirst bool
}

// markReady gives the QP a turn in PollTransmit; no-op if it waits for one.
func (qp *QP) markReady() {
	if qp.link.queued {
		return
	}
	l := &qp.e.ready
	qp.link.queued = true
	qp.link.next, qp.link.prev = nil, l.tail
	if l.tail != nil {
		l.tail.link.next = qp
	} else {
		l.head = qp
	}
	l.tail = qp
}

// unready takes the QP off the list.
func (qp *QP) unready() {
	if !qp.link.queued {
		return
	}
	l := &qp.e.ready
	next, prev := qp.link.next, qp.link.prev
	if prev != nil {
		prev.link.next = next
	} else {
		l.head = next
	}
	if next != nil {
		next.link.prev = prev
	} else {
		l.tail = prev
	}
	qp.link.next, qp.link.prev, qp.link.queued = nil, nil, false
}

// sendTurn lets the QP send on its turn.
func (qp *QP) sendTurn(now int64, batch []TxPacket) int {
	if qp.cc != nil {
		return qp.sendPacedTurn(now, batch)
	}
	return qp.takeTurn(now, batch)
}

// takeTurn sends what responder and requester have. Responses go first, since the
// peer waits for them, but cannot keep requests away for longer than a turn. An
// ACK alone goes behind requests: it is shorter than any, so that it can be the
// end of the datagram that they are segments of.
func (qp *QP) takeTurn(now int64, batch []TxPacket) int {
	if qp.link.requestsFirst {
		qp.link.requestsFirst = false
		n := qp.sq.sendRequests(now, batch)
		if n < len(batch) {
			n += qp.resp.sendAnswers(now, batch[n:])
		}
		return n
	}
	idle := qp.sq.idle()
	if !idle && qp.resp.owesBareAck() && len(batch) > 1 {
		n := qp.sq.sendRequests(now, batch[:len(batch)-1])
		return n + qp.resp.sendAnswers(now, batch[n:])
	}
	n := qp.resp.sendAnswers(now, batch)
	if n == len(batch) {
		qp.link.requestsFirst = true
		return n
	}
	if idle {
		return n
	}
	return n + qp.sq.sendRequests(now, batch[n:])
}

// maxBareAcks bounds how many queue pairs OnlyAcks looks at: as many as the packets of a batch can be
// of.
const maxBareAcks = 128

// OnlyAcks reports whether PollTransmit would send nothing but ACKs of SENDs and
// WRITEs. They can wait for a moment in which the
// application may have something to send, which then goes in the same datagram.
//
// A QP that has just failed may have a turn, and nothing to send.
func (e *Engine) OnlyAcks() bool {
	i, acks := 0, false
	for qp := e.ready.head; qp != nil; qp = qp.link.next {
		if i++; i > maxBareAcks || qp.typ != ib.RC || qp.hasSendableRequests() || qp.resp.owesMore() {
			return false
		}
		acks = acks || qp.state != StateErr || qp.resp.out.ack
	}
	return acks
}
