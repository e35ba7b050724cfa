package transport

import "github.com/goroce/goroce/ib"

// fatal moves the QP to ERR because of an error and raises ev. What is queued
// is flushed. It does nothing in ERR.
func (qp *QP) fatal(now int64, ev EventType) {
	if qp.state == StateErr || qp.state == StateReset {
		return
	}
	qp.raise(ev)
	qp.enterErr(now)
}

// sqError ends the send queue after the work request at its head failed and
// was completed: an RC QP goes to ERR; UC and UD go to SQE, where the send
// queue is flushed and the receive queue goes on (IBTA 10.3.1.5). No event
// tells of it: the failed completion does.
func (qp *QP) sqError(now int64) {
	if qp.typ == ib.RC || qp.state != StateRTS && qp.state != StateSQD {
		qp.enterErr(now)
		return
	}
	qp.sqDraining = false
	qp.setState(now, StateSQE)
	qp.sq.flush(now)
}

// enterErr moves the QP to ERR and flushes both queues. The responder may go
// on to repeat a fatal NAK, and nothing else (wire format 13.14).
func (qp *QP) enterErr(now int64) {
	if qp.state == StateErr {
		return
	}
	qp.sqDraining = false
	qp.setState(now, StateErr)
	qp.stopTimer(timerAck)
	qp.stopTimer(timerRNR)
	qp.stopTimer(timerNAK)
	qp.sq.flush(now)
	qp.resp.toErr()
	qp.flushRecv()
	if qp.srq != nil {
		// At most one request of the SRQ was with this QP, and it is complete.
		qp.raise(EventLastWQEReached)
	}
}

// Fail moves all QPs to ERR, for a caller that can carry no more packets: what is queued is flushed, and no event
// tells of it but EventLastWQEReached. QP 1 is left alone, as whose work requests are the caller's own.
func (e *Engine) Fail(now int64) {
	e.now = now
	e.QPs(func(qp *QP) bool {
		if qp.num > ib.QPNGSI && qp.state != StateReset {
			qp.enter(now, StateErr)
		}
		return true
	})
}

// flushRecv completes the receive request that was begun, then all that are
// posted, in order. If the CQ is full the rest is dropped: the CQ tells.
func (qp *QP) flushRecv() {
	if w := qp.curRecv; w != nil {
		id := w.id
		qp.recycleRecv(w)
		qp.flushOneRecv(id)
	}
	if qp.srq != nil {
		return
	}
	for w := qp.rq.take(); w != nil; w = qp.rq.take() {
		id := w.id
		qp.rq.recycle(w)
		qp.flushOneRecv(id)
	}
}

func (qp *QP) flushOneRecv(id uint64) {
	qp.recvCQ.push(qp.e, &WC{ID: id, Status: WCFlushErr, Opcode: WCRecv, QPN: qp.num}, false)
}
