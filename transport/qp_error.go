package transport

import "github.com/goroce/goroce/ib"

// fatal moves the QP to ERR after an error, raises ev, and flushes both queues. In ERR and RESET it
// does nothing.
func (qp *QP) fatal(now int64, ev EventType) {
	if qp.state == StateErr || qp.state == StateReset {
		return
	}
	qp.raise(ev)
	qp.enterErr(now)
}

// sqError ends the send queue after the request at its head failed and was completed. An RC QP goes
// to ERR. UC and UD QPs go to SQE, which flushes the send queue while the receive queue continues
// (IBTA 10.3.1.5). It raises no event, because the failed completion reports the error.
func (qp *QP) sqError(now int64) {
	if qp.typ == ib.RC || qp.state != StateRTS && qp.state != StateSQD {
		qp.enterErr(now)
		return
	}
	qp.sqDraining = false
	qp.setState(now, StateSQE)
	qp.sq.flush(now)
}

// enterErr moves the QP to ERR and flushes both queues. The responder may go on to repeat a fatal
// NAK, and nothing else (wire format 13.14).
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
		// This QP held at most one request of the SRQ, which is now complete.
		qp.raise(EventLastWQEReached)
	}
}

// Fail moves all QPs to ERR, for a caller that can carry no more packets. It flushes their queues
// and raises no event except EventLastWQEReached. It skips QP 1, whose requests are the caller's
// own.
func (e *Engine) Fail(now int64) {
	e.now = now
	e.QPs(func(qp *QP) bool {
		if qp.num > ib.QPNGSI && qp.state != StateReset {
			qp.enter(now, StateErr)
		}
		return true
	})
}

// flushRecv completes the receive request in progress, then all posted ones, in order. If the CQ is
// full the rest is dropped; the CQ reports that.
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
