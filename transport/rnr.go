package transport

import "github.com/goroce/goroce/ib"

// Waits that a peer without a receive request asks for.

// onRNR waits as long as the RNR NAK of p.PSN demands, then continues from una. If not reached, the
// response to an earlier READ or atomic was lost, and that comes first.
func (sq *requester) onRNR(now int64, p *ib.Packet, reached bool) {
	qp := sq.qp
	r := &sq.retry
	qp.e.counters.RcvdRNRErr++
	if sq.una == sq.end || r.rnrWait {
		return // nothing outstanding any more, or a duplicate
	}
	if !reached {
		sq.impliedNAK(now, p.PSN)
		return
	}
	if qp.attr.RNRRetry != RNRRetryForever {
		if r.rnrLeft == 0 {
			qp.e.counters.RetryRNRExceededErr++
			sq.failHead(now, WCRNRRetryExcErr, uint32(p.AETH.Syndrome))
			return
		}
		r.rnrLeft--
	}
	// The peer is alive, and transport retries are for peers that are not. Otherwise a slow
	// receiver behind a lossy network would fail: lost RNR NAKs use up retries, and no
	// acknowledgement restores them.
	r.heard(&qp.attr)
	r.left, r.doubted = qp.attr.RetryCnt, false
	code := p.AETH.Syndrome.RNRCode()
	if t := qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceRNRWait, QPN: qp.num, PSN: p.PSN, Detail: p.AETH.Syndrome.String()})
	}
	r.rnrWait, r.rnrPSN = true, p.PSN
	sq.rewind()
	qp.stopTimer(timerAck)
	qp.setTimer(timerRNR, now+code.Ns())
}

// rnrExpired ends the wait after an RNR NAK.
func (sq *requester) rnrExpired(now int64) {
	if !sq.retry.rnrWait {
		return
	}
	sq.retry.rnrWait = false
	sq.qp.markReady()
}
