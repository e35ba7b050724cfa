package transport

import (
	"cmp"

	"github.com/goroce/goroce/ib"
)

// retryState is what the requester knows of losses. A loss episode begins when it goes back and
// ends when something new is acknowledged or the timer expires. During an episode it ignores
// further signs of the same loss, since each packet sent behind the lost one causes some.
type retryState struct {
	left    uint8 // retries before WCRetryExcErr
	rnrLeft uint8 // RNR retries before WCRNRRetryExcErr, unless for ever

	recovering bool
	rnrWait    bool   // nothing is sent until timerRNR
	rnrPSN     ib.PSN // PSN of the refused request
	newest     ib.PSN // newest response behind a gap since going back
	timeouts   uint32 // since RTS
	since      int64  // when the first packet left after going back
	tripNs     int64  // shortest time from since to progress; 0 if unknown
	back       bool   // una has not reached backEnd since going back
	backEnd    ib.PSN // end when it went back
	backFrom   ib.PSN // una when it went back
	spreadNs   int64  // what is sent again leaves over that time; 0: at once
	spreadAt   int64  // from then on
	all        bool   // what is kept came before everything was requested again
	doubted    bool   // a sign of loss followed the last retry, and the ACK timer decides
	patience   uint8  // retries beyond retry_cnt, for SilenceNs, up to maxPatience
	silentNs   int64  // sum of ACK timeouts while awake, since the peer was heard
	stalledNs  int64  // the same since something new was acknowledged

	tooLong     uint64 // Path.TooLong when the peer last acknowledged something new
	unreachable uint64 // Path.Unreachable then, or at the last ACK timeout
}

// VendorUnreachable is set in WC.VendorErr, with WCRetryExcErr, if the link could not send what was
// last to go: this host has no way to the peer.
const VendorUnreachable uint32 = 1 << 17

// refill restores both counters, at the start and whenever the peer acknowledges something new
// (IBTA 9.7.6.1.4).
func (r *retryState) refill(a *QPAttr) {
	r.left, r.rnrLeft = a.RetryCnt, a.RNRRetry
	r.patience, r.silentNs, r.stalledNs = 0, 0, 0
}

// heard ends a silence of the peer. With SilenceNs it restores all retries: a NAK is no progress,
// but it shows that both sides are awake. A link that comes up late delivers the first NAK when
// nearly all retries, or all, are used up. A packet that never gets through, though later ones do,
// still has only SilenceNs in all.
func (r *retryState) heard(a *QPAttr) {
	if r.silentNs > 0 && r.stalledNs < a.SilenceNs {
		r.left, r.patience = a.RetryCnt, 0
	}
	r.silentNs = 0
}

// onProgress ends the episode after something new was acknowledged. trip reports a measured round
// trip, and late that it may have waited for a missing packet.
func (r *retryState) onProgress(sq *requester, now int64) (trip, late bool) {
	r.refill(&sq.qp.attr)
	sq.answeredWithoutOffer()
	if trip := now - r.since; r.recovering {
		if r.tripNs == 0 || trip < r.tripNs {
			r.tripNs = trip
		}
		if sq.rtt.wentBack(trip, sq.reads.len() != 0) {
			sq.narrow(false)
		}
	}
	r.recovering, r.doubted = false, false
	if r.back && !sq.una.Before(r.backEnd) {
		r.back, r.all = false, false
	}
	r.tooLong, r.unreachable = sq.qp.path.TooLong, sq.qp.path.Unreachable
	if r.rnrWait && sq.una.After(r.rnrPSN) {
		r.rnrWait = false
		sq.qp.stopTimer(timerRNR)
	}
	p := &sq.probe
	if p.sent != 0 || p.due || p.counted {
		p.sent, p.due = 0, p.due && sq.unasked()
		p.next()
		sq.probeAnswered()
	}
	if !sq.rtt.answers(sq.una) {
		return false, false
	}
	if !sq.rtt.twice && sq.watching() {
		sq.rtt.cancel() // it may have waited for a missing packet
		return true, true
	}
	if !sq.rtt.answered(now, sq.qp.attr.Timeout.Ns()) {
		p.update(sq.qp, &sq.rtt)
		return false, false
	}
	w := &sq.win
	if w.cut.trip(sq.rtt.last, sq.rtt.empty); w.size <= w.near {
		w.idle = sq.rtt.empty
	}
	sq.stretchWindow()
	p.backoff = 0
	p.update(sq.qp, &sq.rtt)
	if f := sq.flight; f != nil && sq.bounded() {
		f.onRTT(now, now-sq.rtt.sentAt, sq.farTimeout())
	}
	return true, false
}

// armAckTimer starts the time that the peer has to acknowledge something. A timer of code t may
// expire after 4.096 us x 2^t to four times that (IBTA 9.7.6.1.3).
func (sq *requester) armAckTimer(now int64) {
	if ns := sq.ackWaitNs(); ns != 0 {
		sq.qp.setTimer(timerAck, now+ns)
	}
}

// ackTimeoutNs returns the ACK timeout: longer than the attribute says where round trips are, but
// no more than the specification allows; 0 means without end.
func (sq *requester) ackTimeoutNs() int64 {
	ns := sq.qp.attr.Timeout.Ns()
	if far := sq.rtt.awaits; far > ns {
		return min(far, ns*maxTimeouts)
	}
	return ns
}

// ackWaitNs returns how long to wait now. Beyond retry_cnt it doubles up to askAgainNs.
func (sq *requester) ackWaitNs() int64 {
	ns, r := sq.ackTimeoutNs(), &sq.retry
	switch {
	case r.patience > 0:
		if ns < askAgainNs {
			ns = min(ns<<r.patience, askAgainNs)
		}
		return min(ns, max(sq.qp.attr.SilenceNs-r.silentNs, 1))
	case sq.qp.e.cfg.Tuning.PatientRetries:
		ns = max(ns, sq.qp.attr.Timeout.Ns()<<min(sq.retriesUsed(), 2))
	}
	return ns
}

// maxPatience bounds a shift count: an ACK timeout is at most 2^43 ns.
const maxPatience = 20

// outlasts reports whether the requester retries although no retry is left: the silence is shorter
// than SilenceNs, and nothing shows that asking is useless. A peer that pauses (a stopped process,
// a migrating machine, a link that is down) returns; other means detect one that is gone.
func (sq *requester) outlasts() bool {
	r := &sq.retry
	if r.left != 0 || r.doubted || r.silentNs >= sq.qp.attr.SilenceNs || sq.qp.path.TooLong != r.tooLong {
		return false
	}
	r.patience = min(r.patience+1, maxPatience)
	return true
}

// ackTimeout goes back after nothing was acknowledged within the timeout. Each expiry uses up a
// retry; retry_cnt 7 means seven (IBTA 9.7.6.1.3), while rdma_rxe takes it as for ever.
func (sq *requester) ackTimeout(now int64) {
	if sq.una == sq.end || sq.retry.rnrWait {
		return
	}
	qp := sq.qp
	if qp.timerSet(timerPace) && qp.hasSendableRequests() {
		// Still sending, at a low rate: the packet that requests the answer may not have left.
		sq.armAckTimer(now)
		return
	}
	if sq.psn == sq.una && qp.share.pending() {
		sq.armAckTimer(now) // waiting for room: nothing has left since it went back
		return
	}
	if sq.retry.left == qp.attr.RetryCnt {
		sq.flightLost(now)
	}
	qp.e.counters.Timeouts++
	sq.retry.timeouts++
	waited := sq.ackWaitNs()
	sq.retry.silentNs += waited
	sq.retry.stalledNs += waited
	qp.unanswered()
	if t := qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceTimeout, QPN: qp.num, PSN: sq.una})
	}
	vendor := uint32(0)
	if sq.retry.doubted {
		vendor = uint32(ib.NAKSequence)
	}
	if u := qp.path.Unreachable; u != sq.retry.unreachable {
		sq.retry.unreachable = u
		vendor |= VendorUnreachable
	}
	if !sq.outlasts() && !sq.useRetry(now, vendor) {
		return
	}
	if qp.cc != nil {
		qp.cc.ctl.OnTimeout(now)
	}
	sq.win.onTimeout()
	sq.forgetPeer()
	if sq.retriesUsed() >= probeAnew || sq.cause.lossy() {
		sq.probe.sent = 0
		sq.probe.next()
	}
	sq.goBack(now) // otherwise probes sent so far still count
	// A NAK from now on is about what is sent from now on.
	sq.retry.recovering = false
}

// impliedNAK goes back because a response to psn shows that the response to the request at head was
// lost (IBTA 9.7.5.1.2). Responses already in flight show the same loss, in PSN order. When that
// order starts over, at least two round trips after going back, these answer the repetition, and
// the missing one was lost again. A wire that reorders starts the order over at once: without the
// least time, one READ was requested six times in half a microsecond and used up its retries. The
// time doubles with each retry, because a slow responder may still be answering an earlier
// repetition, and each new request makes it start over.
func (sq *requester) impliedNAK(now int64, psn ib.PSN) {
	r := &sq.retry
	if sq.una == sq.end || r.rnrWait {
		return
	}
	r.heard(&sq.qp.attr)
	r.all = false
	old := psn.After(r.newest) || now-r.since < max(minRepeatNs, 2*sq.rtt.smoothed)<<sq.retriesUsed()
	asked := sq.watching() && !sq.peerKeeps
	if asked {
		// For a part, which was also lost if a later request's response has come.
		s := sq.miss.at(sq.una)
		old = s.order == 0 || old && psn.Before(s.behind)
	}
	if (r.recovering || asked) && old {
		if psn.After(r.newest) {
			r.newest = psn
		}
		return
	}
	sq.qp.e.counters.ImpliedNAKs++
	if sq.waitsOnDoubt() {
		return // responses may be late ones, of before an early ACK timeout
	}
	if !sq.useRetry(now, 0) {
		return
	}
	sq.qp.congestionNAK(now)
	if sq.crowded() {
		sq.readLost(now)
		sq.narrow(sq.againNs() == 0)
	}
	if sq.retriesUsed() > 0 || !sq.askForGap(now) {
		sq.goBack(now) // a request for the gap alone did not help, or is impossible
	}
	r.newest = psn
}

// crowded reports whether a request may have been lost for want of room. Without a queue on the way
// it was not, and a smaller window, which opens slowly, would only waste the path. Where everything
// is sent again it is not known how many were lost, and one round trip that is not short will do,
// or that of a window which has grown much since: a window that overflows the queue is sent for
// nothing.
func (sq *requester) crowded() bool {
	e := &sq.rtt
	back := !sq.peerKeeps && (!e.short || sq.win.size > int(e.window)*3/2)
	return !sq.win.ruled && (sq.qp.e.cfg.Tuning.GoBackN || back || sq.cause.crowded(e))
}

// againNs returns how long responses to repeated requests take; 0 if unknown.
func (sq *requester) againNs() int64 {
	if sq.miss == nil {
		return 0
	}
	return sq.miss.again.smoothed
}

// closeForLoss reduces window and room after a request was lost. What is sent again leaves over a
// round trip; if the queue is full, when it has become shorter.
func (sq *requester) closeForLoss(now int64) {
	sq.cause.count(&sq.rtt, 0, 1)
	full := sq.crowded()
	if full {
		sq.flightLost(now)
		sq.narrow(sq.rtt.smoothed == 0)
	}
	if sq.qp.cc == nil {
		ns := sq.rtt.smoothed
		if sq.retry.spreadNs, sq.retry.spreadAt = ns, now; !full {
			sq.retry.spreadAt -= ns >> spreadShift
		}
	}
}

// narrow reduces the window after a loss. If the path or the peer is still unknown, it remembers
// the size before: see onLost.
func (sq *requester) narrow(unknown bool) {
	w := &sq.win
	if unknown || !sq.peerKeeps {
		w.suspect()
	} else {
		w.convict()
	}
	w.onLoss(&sq.rtt)
	sq.trips.forget()
}

// onNAK handles a NAK of p.PSN. If reached, everything before p.PSN has been acknowledged.
func (sq *requester) onNAK(now int64, p *ib.Packet, reached bool) {
	qp := sq.qp
	s := p.AETH.Syndrome
	if t := qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceNAKReceived, QPN: qp.num, PSN: p.PSN, Detail: s.String()})
	}
	if s == ib.NAKSequence {
		qp.e.counters.RcvdSeqErr++
		if len(p.Payload) == 0 || !sq.peerKeeps || !sq.onKeptMap(now, p) {
			sq.onSequenceNAK(now)
		}
		return
	}
	if !reached {
		// The failed request is behind a READ or atomic whose response was lost; request that
		// first.
		sq.impliedNAK(now, p.PSN)
		return
	}
	status := WCBadRespErr
	switch s {
	case ib.NAKInvalidRequest:
		status = WCRemoteInvReqErr
	case ib.NAKRemoteAccess:
		status = WCRemoteAccessErr
	case ib.NAKRemoteOperation:
		status = WCRemoteOpErr
	case ib.NAKInvalidRDRequest:
		status = WCRemoteInvRDReqErr
	}
	sq.failHead(now, status, uint32(s))
}

// onSequenceNAK goes back to una, which the peer misses, or to the READ before it. It ignores a NAK
// that follows an RNR NAK: to rdma_rxe the packets behind the refused request are a gap (wire
// format 5.7), and the wait must not be cut short (13.4).
//
// A NAK never ends the queue pair: when no retry is left, resent packets get the rest of the ACK
// timeout to arrive. A responder repeats the NAK of a gap after milliseconds, so a network, a busy
// machine or a forger could otherwise end a queue pair in a fraction of the time that its timeout
// and retries stand for.
func (sq *requester) onSequenceNAK(now int64) {
	r := &sq.retry
	if r.rnrWait || sq.una == sq.end {
		return
	}
	r.heard(&sq.qp.attr)
	if r.recovering && (sq.psn == sq.una || now-r.since < sq.episodeNs()) {
		return // also if nothing has left since: it cannot be lost again
	}
	if sq.waitsOnDoubt() {
		return
	}
	if !sq.useRetry(now, uint32(ib.NAKSequence)) {
		return
	}
	sq.qp.congestionNAK(now)
	sq.closeForLoss(now)
	sq.goBack(now)
}

// waitsOnDoubt reports whether a sign of loss came when no retry is left, and the ACK timeout still
// runs: it decides, as what was sent again may yet be answered.
func (sq *requester) waitsOnDoubt() bool {
	r := &sq.retry
	if r.left != 0 || sq.qp.attr.RetryCnt == 0 || !sq.qp.timerSet(timerAck) {
		return false
	}
	r.doubted = true
	return true
}

// episodeNs returns how long after going back a sequence NAK without progress is about the same
// loss. A responder NAKs a gap once, and again a round trip later if the resent packets still start
// behind the gap. Others repeat the NAK after some milliseconds; where a round trip takes that
// long, the next answer must be overdue. If most windows lose a packet there is no round trip,
// because resent packets give no sample; then the shortest time from going back to progress serves.
func (sq *requester) episodeNs() int64 {
	ns := cmp.Or(sq.rtt.smoothed, sq.retry.tripNs)
	switch {
	case ns == 0:
		return minEpisodeNs
	case ns < minEpisodeNs:
		return ns - ns/4
	}
	return max(sq.rtt.late(), ns+ns/4)
}

// useRetry takes one retry. If none is left, or another is useless, it fails the request at head
// and returns false.
func (sq *requester) useRetry(now int64, vendor uint32) bool {
	if sq.failTooLong(now) {
		return false
	}
	if sq.retry.left == 0 {
		sq.qp.e.counters.RetryExceededErr++
		sq.failHead(now, WCRetryExcErr, vendor|sq.suspectMTU())
		return false
	}
	sq.retry.left--
	return true
}

// retriesUsed returns how many retries, beyond the first, were used since something new was
// acknowledged.
func (sq *requester) retriesUsed() uint8 {
	n := sq.qp.attr.RetryCnt
	return max(n, sq.retry.left+1) - (sq.retry.left + 1)
}

// goBack begins a loss episode: it resends everything from una on.
func (sq *requester) goBack(now int64) {
	sq.qp.e.counters.CompleterRetryErr++
	sq.qp.lostPackets(1)
	r := &sq.retry
	if !r.recovering {
		r.recovering, r.newest = true, sq.una
	}
	r.since, sq.rtt.nextWindow = now, int32(sq.win.size)
	sq.rewind()
	sq.armAckTimer(now)
	sq.qp.markReady()
}

// spreads reports whether the next packet must wait after going back, and sets a timer then. What
// was sent behind the loss is still on its way, and brings no answers that would space what is sent
// again: at once, that would overflow the queue. So it leaves over a round trip, in parts, until
// answers to it come.
func (sq *requester) spreads(now int64) bool {
	r := &sq.retry
	took := now - r.spreadAt
	if took >= r.spreadNs || sq.una != r.backFrom {
		r.spreadNs = 0
		return false
	}
	if int64(span(r.backFrom, sq.psn)) < max(int64(sq.win.size)*took/r.spreadNs, minWindow) {
		return false
	}
	sq.qp.setTimer(timerPace, now+max(r.spreadNs>>spreadShift, 1))
	return true
}

// rewind makes una the next packet to send.
func (sq *requester) rewind() {
	q := &sq.q
	sq.unwatch()
	sq.dischargeAll()
	sq.retry.back, sq.retry.backFrom, sq.retry.backEnd = true, sq.una, sq.end
	sq.retry.all = sq.kept.n != 0
	sq.psn = sq.una
	q.cur, sq.curPkt = q.head, 0
	if q.head != q.tail {
		if w := q.at(q.head); w.state == wqeBegun {
			sq.curPkt = uint32(span(w.psn, sq.una))
		}
	}
	sq.reads.next = sq.reads.head
	sq.hasAsked()
	sq.rtt.again()
	sq.stopProbe()
}
