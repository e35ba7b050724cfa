package transport

import (
	"cmp"

	"github.com/goroce/goroce/ib"
)

// retryState is what the requester knows of losses. A loss episode begins when
// it goes back and ends when something new is acknowledged, or the timer
// expires. In an episode further signs of the same loss are ignored: packets
// that were sent behind the lost one each cause some.
type retryState struct {
	left    uint8 // retries before WCRetryExcErr
	rnrLeft uint8 // before WCRNRRetryExcErr, unless for ever

	recovering bool
	rnrWait    bool   // nothing is sent until timerRNR
	rnrPSN     ib.PSN // of the request that was not taken
	newest     ib.PSN // of the responses behind a gap since the requester went back
	timeouts   uint32 // since RTS
	since      int64  // when the first packet left then
	tripNs     int64  // the shortest time from then to progress; 0 if that is not known
	back       bool   // una has not reached backEnd since
	backEnd    ib.PSN // end then
	doubted    bool   // a sequence NAK came after the last retry had left, and the ACK timer decides
	patience   uint8  // retries beyond retry_cnt, for SilenceNs; they count to maxPatience
	silentNs   int64  // since the peer was heard: the sum of the ACK timeouts, in which this side was awake
	stalledNs  int64  // the same since something new was acknowledged

	tooLong uint64 // Path.TooLong when the peer last acknowledged something new
}

// refill restores both counters: at the start, and whenever the peer
// acknowledges something new (IBTA 9.7.6.1.4).
func (r *retryState) refill(a *QPAttr) {
	r.left, r.rnrLeft = a.RetryCnt, a.RNRRetry
	r.patience, r.silentNs, r.stalledNs = 0, 0, 0
}

// heard ends a silence of the peer. With SilenceNs there are all retries again: a NAK is no
// progress, but what comes next is between two that are awake. A link that comes up between two
// packets has the first NAK come when silence has taken nearly all, or the last one. What never
// gets through, though what is sent behind it does, has no more than SilenceNs in all.
func (r *retryState) heard(a *QPAttr) {
	if r.silentNs > 0 && r.stalledNs < a.SilenceNs {
		r.left, r.patience = a.RetryCnt, 0
	}
	r.silentNs = 0
}

// onProgress ends the episode: something new was acknowledged. It reports whether a round trip was measured, and
// whether that may have waited for what was missing.
func (r *retryState) onProgress(sq *requester, now int64) (trip, late bool) {
	r.refill(&sq.qp.attr)
	if trip := now - r.since; r.recovering && (r.tripNs == 0 || trip < r.tripNs) {
		r.tripNs = trip
	}
	r.recovering, r.doubted = false, false
	if r.back && !sq.una.Before(r.backEnd) {
		r.back = false
	}
	r.tooLong = sq.qp.path.TooLong
	if r.rnrWait && sq.una.After(r.rnrPSN) {
		r.rnrWait = false
		sq.qp.stopTimer(timerRNR)
	}
	p := &sq.probe
	if p.sent != 0 || p.due || p.counted {
		p.sent, p.due = 0, false
		p.next()
		sq.probeAnswered()
	}
	if sq.watching() && sq.rtt.answers(sq.una) {
		sq.rtt.cancel() // it may have waited for what was missing
		return true, true
	}
	if sq.rtt.answers(sq.una) {
		sq.rtt.sample(now)
		p.backoff = 0
		p.update(sq.qp, &sq.rtt)
		if f := sq.flight; f != nil && sq.bounded() {
			f.onRTT(now, now-sq.rtt.sentAt, sq.qp.farTimeout())
		}
		return true, false
	}
	return false, false
}

// armAckTimer starts the time that the peer has to acknowledge something. A timer of code t may
// expire after 4.096 us x 2^t to four times that (IBTA 9.7.6.1.3).
func (sq *requester) armAckTimer(now int64) {
	if ns := sq.ackWaitNs(); ns != 0 {
		sq.qp.setTimer(timerAck, now+ns)
	}
}

// ackWaitNs is that time; 0 is without end. Beyond retry_cnt it doubles up to askAgainNs.
func (sq *requester) ackWaitNs() int64 {
	ns, r := sq.qp.attr.Timeout.Ns(), &sq.retry
	switch {
	case r.patience > 0:
		if ns < askAgainNs {
			ns = min(ns<<r.patience, askAgainNs)
		}
		return min(ns, max(sq.qp.attr.SilenceNs-r.silentNs, 1))
	case sq.qp.e.cfg.Tuning.PatientRetries:
		ns <<= min(sq.retriesUsed(), 2)
	}
	return ns
}

// maxPatience bounds what a shift may be: an ACK timeout is at most 2^43 ns.
const maxPatience = 20

// outlasts reports whether the requester goes on asking though no retry is left: SilenceNs of
// silence are not over, and nothing says that to ask is of no use. A peer that stands still (a
// process that was stopped, a machine that migrates, a link that is down) is there again
// afterwards; one that is gone is found otherwise.
func (sq *requester) outlasts() bool {
	r := &sq.retry
	if r.left != 0 || r.doubted || r.silentNs >= sq.qp.attr.SilenceNs || sq.qp.path.TooLong != r.tooLong {
		return false
	}
	r.patience = min(r.patience+1, maxPatience)
	return true
}

// ackTimeout goes back after nothing was acknowledged for the timeout. Each
// expiry uses up a retry; retry_cnt 7 is seven (IBTA 9.7.6.1.3; rdma_rxe takes
// it for ever).
func (sq *requester) ackTimeout(now int64) {
	if sq.una == sq.end || sq.retry.rnrWait {
		return
	}
	qp := sq.qp
	if qp.timerSet(timerPace) && qp.hasSendableRequests() {
		// Still sending, at a low rate: what asks for the answer may not have left.
		sq.armAckTimer(now)
		return
	}
	if sq.psn == sq.una && qp.share.pending() {
		sq.armAckTimer(now) // it waits for room: nothing has left since it went back
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
	if !sq.outlasts() && !sq.useRetry(now, vendor) {
		return
	}
	if qp.cc != nil {
		qp.cc.ctl.OnTimeout(now)
	}
	sq.win.onTimeout()
	sq.offerRefused = sq.offered && !sq.peerKeeps
	sq.peerKeeps, sq.offered = false, false
	sq.goBack(now) // and no more probes than there were
	// A NAK from now on is about what is sent now.
	sq.retry.recovering = false
}

// impliedNAK goes back after a response to psn showed that the one to the
// request at head was lost (IBTA 9.7.5.1.2). Whatever else was sent before
// still arrives and shows the same, in the order of its PSNs. When that order
// starts over, two round trips after going back or later, these are responses
// to the repetition, and the one that is missing was lost again. A wire that
// reorders starts the order over at once: without the least time a READ was
// asked for six times in half a microsecond, and its retries were gone. The time
// doubles with each retry: a responder that sends slowly may be sending again what it
// was asked for before, and each request makes it begin anew.
func (sq *requester) impliedNAK(now int64, psn ib.PSN) {
	r := &sq.retry
	if sq.una == sq.end || r.rnrWait {
		return
	}
	r.heard(&sq.qp.attr)
	old := psn.After(r.newest) || now-r.since < max(minRepeatNs, 2*sq.rtt.smoothed)<<sq.retriesUsed()
	asked := sq.watching() && !sq.peerKeeps
	if asked {
		// For a part. It was also lost if what was asked for later has come.
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
	if !sq.useRetry(now, 0) {
		return
	}
	sq.qp.congestionNAK(now)
	if sq.crowdedBack() {
		sq.readLost(now)
		sq.narrow(sq.againNs() == 0)
	}
	if sq.retriesUsed() > 0 || !sq.askForGap(now) {
		sq.goBack(now) // what is asked for by itself does not come, or cannot be
	}
	r.newest = psn
}

// crowded reports whether a request may have been lost for want of room. If nothing waits on the way
// it was not, and a smaller window would only make less of the path; it opens again slowly.
func (sq *requester) crowded() bool {
	return !sq.win.ruled && (sq.qp.e.cfg.Tuning.GoBackN || sq.rtt.full(sq.rtt.last, sq.rtt.least))
}

// crowdedBack is that for a response. How long others take, which wait at the peer behind each
// other, says nothing: those do that are asked for again.
func (sq *requester) crowdedBack() bool {
	return !sq.win.ruled && (sq.qp.e.cfg.Tuning.GoBackN || sq.miss == nil || sq.miss.again.full(sq.againNs(), sq.leastRTT()))
}

// againNs returns how long responses take that are asked for again; 0 if that is not known.
func (sq *requester) againNs() int64 {
	if sq.miss == nil {
		return 0
	}
	return sq.miss.again.smoothed
}

// closeForLoss makes window and room smaller after a request was lost.
func (sq *requester) closeForLoss(now int64) {
	if sq.crowded() {
		sq.flightLost(now)
		sq.narrow(sq.rtt.smoothed == 0)
	}
}

// narrow makes the window smaller after a loss. If that is because nothing is known yet of the way,
// or the peer, what it was before is remembered: see onLost.
func (sq *requester) narrow(unknown bool) {
	w := &sq.win
	if unknown || !sq.peerKeeps {
		w.before = max(w.before, w.size)
	} else {
		w.before = 0
	}
	if sq.peerKeeps {
		w.onLossOfFew()
	} else {
		w.onLoss()
	}
}

// onNAK takes a NAK of p.PSN, before which everything has been acknowledged if
// reached.
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
		// The request that failed is behind a READ or atomic whose response was
		// lost; that has to be asked for again first.
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

// onSequenceNAK goes back to una, which is what the peer misses, or the READ
// before it. One that follows an RNR NAK is part of that: what was sent behind
// the refused request is a gap to rdma_rxe (wire format 5.7), and the wait is
// not to be cut short (13.4).
//
// A NAK does not take the last word: when no retry is left, what was sent again has the
// rest of the ACK timeout to arrive. A responder repeats the NAK of a gap after
// milliseconds, so a network, a busy machine or a forger could otherwise end a queue pair
// in a fraction of the time that its timeout and retries stand for.
func (sq *requester) onSequenceNAK(now int64) {
	r := &sq.retry
	if r.rnrWait || sq.una == sq.end {
		return
	}
	r.heard(&sq.qp.attr)
	if r.recovering && (sq.psn == sq.una || now-r.since < sq.episodeNs()) {
		return // also if nothing has left since: it cannot have been lost again
	}
	if r.left == 0 && sq.qp.attr.RetryCnt != 0 && sq.qp.timerSet(timerAck) {
		r.doubted = true
		return
	}
	if !sq.useRetry(now, uint32(ib.NAKSequence)) {
		return
	}
	sq.qp.congestionNAK(now)
	sq.closeForLoss(now)
	sq.goBack(now)
}

// episodeNs is how long after going back a sequence NAK that shows no progress is taken to be about the same loss. A
// responder tells of a gap once, and again if what it gets begins anew behind that, which takes a round trip. Others tell
// of it again some milliseconds later: where a round trip takes as long, the next answer has to be overdue. Where most
// windows lose a packet no round trip is measured, since packets that were sent again are no samples; then it is the least
// time that going back has taken to bring something.
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

// onRNR waits as long as the RNR NAK of p.PSN asks for, then goes on from una.
// reached is false if the response to a READ or atomic before it was lost:
// that comes first.
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
	// The peer is there, and the transport retries are for peers that are not.
	// Without this a slow receiver behind a lossy network would fail: lost RNR
	// NAKs use up retries, and nothing is acknowledged that would restore them.
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

// useRetry takes one retry; without one left, or if another would be of no use, the
// request at head fails.
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

// retriesUsed returns how many retries the requester has gone through since something
// new was acknowledged, beyond the first.
func (sq *requester) retriesUsed() uint8 {
	n := sq.qp.attr.RetryCnt
	return max(n, sq.retry.left+1) - (sq.retry.left + 1)
}

// goBack begins a loss episode: everything from una on is sent again.
func (sq *requester) goBack(now int64) {
	sq.qp.e.counters.CompleterRetryErr++
	sq.qp.lostPackets(1)
	r := &sq.retry
	if !r.recovering {
		r.recovering, r.newest = true, sq.una
	}
	r.since = now
	sq.rewind()
	sq.armAckTimer(now)
	sq.qp.markReady()
}

// rewind makes una the next packet to send.
func (sq *requester) rewind() {
	q := &sq.q
	sq.unwatch()
	sq.dischargeAll()
	sq.retry.back, sq.retry.backEnd = true, sq.end
	sq.psn = sq.una
	q.cur, sq.curPkt = q.head, 0
	if q.head != q.tail {
		if w := q.at(q.head); w.state == wqeBegun {
			sq.curPkt = uint32(span(w.psn, sq.una))
		}
	}
	sq.reads.next = sq.reads.head
	sq.sinceAck = 0
	sq.rtt.cancel()
	sq.stopProbe()
}
