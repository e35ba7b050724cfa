package transport

import "github.com/goroce/goroce/ib"

// readyList lists the QPs that have something to send, in the order of their turns. It is doubly
// linked through the QPs, so it never allocates.
type readyList struct{ head, tail *QP }

// qpLink is a QP's place on the ready list.
type qpLink struct {
	next, prev *QP
	queued     bool
	// requestsFirst lets the send queue go first on the next turn, after responses filled a whole
	// one.
	requestsFirst bool
}

// markReady gives the QP a turn in PollTransmit, unless it already waits for one.
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

// sendTurn sends on the QP's turn.
func (qp *QP) sendTurn(now int64, batch []TxPacket) int {
	if qp.cc != nil {
		return qp.sendPacedTurn(now, batch)
	}
	return qp.takeTurn(now, batch)
}

// takeTurn sends packets of the responder and the requester. Responses go first, since the peer
// waits for them, but hold back requests for a turn at most. A bare ACK goes behind requests: it is
// shorter than any, so it can end the datagram in which they are segments.
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
	batch = batch[n:]
	m := qp.sq.sendRequests(now, batch)
	if qp.resp.unasked && qp.e.cfg.GSO && m > 0 && m < len(batch) &&
		(m == 1 || batch[m-1].UDPPayloadLen() == batch[m-2].UDPPayloadLen()) { // it ends their datagram
		qp.Acknowledge()
		m += qp.resp.sendAnswers(now, batch[m:])
	}
	return n + m
}

// maxBareAcks bounds the queue pairs that OnlyAcks looks at, to as many as a batch can have
// packets.
const maxBareAcks = 128

// OnlyAcks reports whether PollTransmit would send nothing but ACKs of SENDs and WRITEs. These can
// wait a moment: if the application then sends something, they share its datagram.
//
// A QP that has just failed may be on the list with nothing to send.
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
