package transport

import "github.com/goroce/goroce/ib"

// probeState is the tail loss probe, as in RFC 8985 for TCP. When the last packet is lost nothing
// later shows the gap, and the ACK timeout is a thousand round trips. So the last packet is sent
// again after a few round trips without an answer. If only that packet, or its answer, was lost,
// this repairs it; otherwise the probe draws a NAK, which tells what is missing. A second probe
// resends the oldest unanswered packet: rdma_rxe sends one NAK per gap, which may be lost, and no
// more until that packet comes (wire format 5.2). After that only the ACK timeout remains.
//
// A probe uses up no retry, because it concludes nothing. It replaces a packet that has left, so
// the window has room. It waits for the QP's rate as others do, and is not sent while an RNR NAK
// makes the QP wait. An engine limits unanswered probes: if a receiver falls behind, thousands of
// QPs must not add to its work.
type probeState struct {
	due     bool  // to be sent on the next turn
	sent    uint8 // since something new was acknowledged
	extra   uint8 // of these, in addition to maxProbes
	counted bool  // in Engine.probing
	backoff uint8 // doublings of waitNs since the last sample (Karn)
	waitNs  int64 // time without an answer before a probe; 0: no probes
	limitNs int64 // limit of waitNs and its doublings; 0: no probes wanted
	nextNs  int64 // waitNs with its doublings; 0: no more probes
}

// configure applies the attributes of the QP.
func (p *probeState) configure(qp *QP, rtt *rttEstimate) {
	p.limitNs = qp.attr.Timeout.Ns() / 2
	if qp.e.cfg.Tuning.LossProbe < 0 {
		p.limitNs = 0
	}
	p.update(qp, rtt)
}

// update computes waitNs after a sample. Twice the round trip plus four times its variance leaves
// room for a peer that coalesces ACKs, which the samples show. If that exceeds half of the ACK
// timeout, a probe is useless.
//
// Before the first sample, the round trip of other QPs to the same address serves as one. If there
// is none either, the wait is a quarter of the ACK timeout, which is set for the slowest
// conceivable peer: often somebody waits for the first operation.
func (p *probeState) update(qp *QP, rtt *rttEstimate) {
	least := int64(qp.e.cfg.Tuning.LossProbe)
	if least == 0 {
		least = DefaultLossProbeNs
	}
	ns := rtt.awaits
	if ns == 0 {
		ns = p.limitNs / 2
		if f := qp.sq.flight; f != nil && f.rttNs != 0 {
			ns = 4 * f.rttNs // the variance of a first sample is half of it
		}
	}
	p.waitNs = 0
	if ns = max(least, ns); ns <= p.limitNs {
		p.waitNs = ns
	}
	p.next()
}

// next computes nextNs after one of its inputs has changed.
func (p *probeState) next() {
	p.nextNs = 0
	if p.sent < maxProbes+p.extra {
		p.nextNs = min(p.waitNs<<p.backoff, p.limitNs)
	}
}

// armProbe restarts the time without an answer, after progress.
func (sq *requester) armProbe(now int64) {
	if ns := sq.probe.nextNs; ns != 0 {
		sq.qp.setTimer(timerProbe, now+ns)
		return
	}
	sq.qp.stopTimer(timerProbe) // it may still run
}

// armTimers starts the probe timer after sending. If again is set, or the ACK timer does not run,
// it starts that as well.
func (sq *requester) armTimers(now int64, again bool) {
	t, ns := &sq.qp.timers, sq.probe.nextNs
	again = again || !sq.qp.timerSet(timerAck)
	if ns == 0 {
		sq.qp.stopTimer(timerProbe)
		if again {
			sq.armAckTimer(now)
		}
		return
	}
	t.at[timerProbe] = now + ns
	t.set |= 1 << timerProbe
	if again { // later than the probe, which is within half of it
		t.at[timerAck] = now + sq.qp.attr.Timeout.Ns()
		t.set |= 1 << timerAck
	}
	sq.qp.timersSet(now + ns)
}

// stopProbe ends the wait: nothing is unanswered, or something else asks.
func (sq *requester) stopProbe() {
	sq.probe.due = false
	sq.qp.stopTimer(timerProbe)
	sq.probeAnswered()
}

// probeAnswered gives back the place among the engine's probes.
func (sq *requester) probeAnswered() {
	if sq.probe.counted {
		sq.probe.counted = false
		sq.qp.e.probing--
	}
}

// probeTimeout makes a probe due.
func (sq *requester) probeTimeout(now int64) {
	qp, p := sq.qp, &sq.probe
	switch {
	case sq.una == sq.end:
		return
	case sq.psn == sq.una || qp.timerSet(timerPace) && qp.hasSendableRequests():
		sq.armProbe(now) // still sending
		return
	case sq.unasked():
		sq.patience.late()
		p.due = true
		qp.markReady()
		return
	case p.sent >= maxProbes+p.extra:
		return
	case !p.counted && qp.e.probing >= maxProbing:
		qp.setTimer(timerProbe, now+probeRetry*p.waitNs)
		return
	case !p.counted:
		p.counted = true
		qp.e.probing++
	}
	if p.due = true; p.sent > 0 {
		qp.unanswered()
	}
	qp.markReady()
}

// sendProbe builds the due probe, which requests an answer: the newest packet sent or, the second
// time, the oldest unanswered one. It returns the number of its packets.
//
// Where packets are lost, a few in a row may be, and READ requests are few and go alone: a burst
// takes all of them, and the probes. So requests for its last packets follow, one each.
func (sq *requester) sendProbe(now int64, batch []TxPacket) (n int) {
	p := &sq.probe
	p.due = false
	if sq.psn == sq.una {
		return 0
	}
	psn, lossy := sq.psn.Prev(), sq.peerKeeps && sq.cause.lossy()
	asks := sq.unasked()
	if !asks {
		if p.sent > 0 {
			psn = sq.una
		} else if p.extra = 0; lossy {
			p.extra = lossyProbes
		}
		if p.sent++; p.sent > p.extra {
			p.backoff = min(p.backoff+1, maxProbeBackoff)
		}
		p.next()
	}
	sq.rtt.again()
	sq.armProbe(now)
	if sq.buildAgain(now, psn, 0, &batch[0]) {
		n = 1
	}
	if asks {
		sq.hasAsked()
		return n
	}
	for lossy && n > 0 && n < min(len(batch), probeReads) && sq.buildAgain(now, sq.psn.Prev(), n, &batch[n]) {
		n++
	}
	return n
}

// buildAgain builds the packet of a PSN that was sent before, without moving sq. For a READ it
// requests all that is missing, as after going back: rdma_rxe forgets what precedes a repeated READ
// (wire format 5.6), so a request for the end would rule out one for the rest. If back is not 0 it
// requests one packet of a READ, the last but back-1, which is not the first.
func (sq *requester) buildAgain(now int64, psn ib.PSN, back int, tx *TxPacket) bool {
	cur, curPkt, next, sinceAck, read := sq.q.cur, sq.curPkt, sq.psn, sq.sinceAck, sq.reads.next
	asks := sq.unasked()
	ok := sq.moveTo(psn, back) && sq.rebuild(back > 0, tx)
	if c, why := &sq.qp.e.counters, "ask"; ok {
		if !asks {
			why = "probe"
			c.LossProbes++
		}
		c.RetransmittedPkts++
		sq.sentAgainPkts(now, sq.psn, why)
	}
	sq.q.cur, sq.curPkt, sq.psn, sq.sinceAck, sq.reads.next = cur, curPkt, next, sinceAck, read
	return ok
}

// moveTo moves to the packet of psn, in [una, psn); in a READ to the first of its request that is
// missing, or to the last but back-1.
func (sq *requester) moveTo(psn ib.PSN, back int) bool {
	q, r := &sq.q, &sq.reads
	i := q.head
	if psn != sq.una {
		// The packet before the next to send.
		if i = q.cur; sq.curPkt == 0 {
			for i--; i != q.head && q.at(i).npkts == 0; i-- { // local operations
			}
		}
	}
	w := q.at(i)
	if w.state != wqeBegun || span(w.psn, psn) >= int(w.npkts) {
		return false
	}
	if sendOps[w.op].waits {
		if r.next = r.head; psn != sq.una {
			for ; r.next != r.tail && r.at(r.next).Before(psn); r.next++ {
			}
		}
		if r.next == r.tail {
			return false
		}
		// The request that contains psn begins behind the previous request.
		first := w.psn
		if r.next != r.head && r.at(r.next-1).Diff(w.psn) >= 0 {
			first = r.at(r.next - 1).Next()
		}
		if sq.una.After(first) {
			first = sq.una
		}
		if back == 0 {
			psn = first
		} else if psn = psn.Add(1 - back); !psn.After(first) || sq.kept.at(psn) != nil {
			return false // a request for the first would pass for the whole
		}
	} else if back != 0 {
		return false
	}
	q.cur, sq.curPkt, sq.psn = i, uint32(span(w.psn, psn)), psn
	return true
}

// rebuild builds the packet at psn. Memory that was taken away is no error here: the ACK timeout
// finds it.
func (sq *requester) rebuild(one bool, tx *TxPacket) bool {
	w := sq.q.at(sq.q.cur)
	if w.op == WRRead && w.length == 0 {
		return false // rdma_rxe versions differ on repeated empty READs (wire format 5.6)
	}
	n := int(sq.readPart(w))
	for i := 1; sq.peerKeeps && i < n; i++ {
		if one || sq.kept.at(sq.psn.Add(i)) != nil {
			n = i
		}
	}
	return sq.remake(w, tx, n)
}

// remake builds the packet at psn again; for a READ, the request for n packets.
func (sq *requester) remake(w *sendWQE, tx *TxPacket, n int) bool {
	tx.Path, tx.SrcQP = &sq.qp.path, sq.qp.num
	tx.NumFrags, tx.Pad, tx.PayloadLen = 0, 0, 0
	switch {
	case w.op == WRRead:
		sq.buildRead(w, tx, uint32(n))
	case sendOps[w.op].waits:
		if sq.buildWaiting(w, tx) == 0 {
			return false
		}
	default:
		if !sq.buildPayload(w, tx, sq.curPkt+1 == w.npkts, 0) {
			return false
		}
		tx.Header[8] |= 0x80
	}
	sq.offer(tx)
	return true
}

// sentAgainPkts counts and traces a resent packet.
func (sq *requester) sentAgainPkts(now int64, psn ib.PSN, why string) {
	sq.sentAgain++
	if t := sq.qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceRetransmit, QPN: sq.qp.num, PSN: psn, Detail: why})
	}
}
