package transport

import "github.com/goroce/goroce/ib"

// What has come and what is lost, by the peer's maps, by responses behind a gap, and by time.

// came notes that a packet, or its response, has come. If that is too soon after it was resent, it
// belongs to an earlier transmission, which was not lost, and says nothing about the last one.
func (sq *requester) came(now int64, s *sentPacket) {
	x := sq.miss
	x.landed(s)
	if s.due {
		s.due = false
		x.due--
	}
	if s.order == 0 {
		return
	}
	if !s.twice {
		x.repeats++
	}
	took := now - s.at
	if took < sq.leastRTT()/4 {
		return
	}
	if open := !s.twice && (s.want || !s.had); open && s.want {
		x.again.sampleOf(took)
		x.againAt = now
		x.doubt = 0
	} else if open && sq.rtt.least != 0 {
		sq.rtt.least = min(sq.rtt.least, took)
	}
	if int32(s.order-x.came) > 0 {
		x.came = s.order
		if s.behind.After(x.past) {
			x.past = s.behind
		}
	}
}

// leastRTT returns the shortest round trip seen; 0 if there was none.
func (sq *requester) leastRTT() int64 {
	least := sq.rtt.least
	if sq.miss != nil && sq.miss.again.least != 0 && (least == 0 || sq.miss.again.least < least) {
		least = sq.miss.again.least
	}
	return least
}

// lateNs returns after what time a repeated response counts as lost if others come; 0 if unknown.
// The peer sends it first, but behind what the path has queued, as all round trips show. Repeats of
// repeats are no samples (Karn): one that comes twice doubles the time until the next sample.
func (sq *requester) lateNs() int64 {
	x := sq.miss
	if x.again.smoothed == 0 {
		return 0
	}
	return max(x.again.late(), sq.rtt.late()) << x.doubt
}

// cameTwice notes that the response of psn has come twice. If it was asked for once the network has
// doubled it, which says nothing.
func (sq *requester) cameTwice(psn ib.PSN) {
	if x := sq.miss; x != nil && len(x.ring) > 0 && (x.at(psn).lastResent || x.at(psn).order != 0) {
		sq.forNothing()
	}
}

// forNothing notes that a packet was resent although others had only overtaken it. From now on more
// may overtake it, until enough losses follow (spreadLosses).
func (sq *requester) forNothing() {
	x := sq.miss
	if x == nil || !sq.peerKeeps || sq.probe.sent > 0 || sq.retry.back {
		return
	}
	x.doubt = min(x.doubt+1, maxDoubt)
	if x.repeats == 0 {
		return
	}
	sq.qp.e.counters.SpuriousRepeats++
	x.spread, x.losses = min(2*max(x.spread, maxReorder), maxSpread), 0
	if x.repeats--; x.repeats == 0 {
		sq.win.reopen(x.wasSize)
		x.wasSize = 0
	}
}

// onKeptMap handles a sequence NAK with a map of what the peer has. It returns false if the
// requester must go back as for any other.
func (sq *requester) onKeptMap(now int64, p *ib.Packet) bool {
	r, m := &sq.retry, keptMap(p.Payload)
	if r.rnrWait || sq.una == sq.end {
		return true
	}
	top := m.bits()
	for top > 0 && !m.has(top-1) {
		top--
	}
	if top == 0 || len(m)%4 != 0 || top >= span(p.PSN, sq.end) {
		sq.ignore(now, p, "has what was not sent")
		return true
	}
	if !sq.watchMissing() {
		return false
	}
	r.heard(&sq.qp.attr)
	r.recovering = false
	x := sq.miss
	if sq.psn != sq.end {
		sq.goOn()
	}
	first := x.at(p.PSN)
	first.had, first.want = false, false // whatever earlier maps said
	news, trip := false, false
	psn, at := p.PSN, sq.q.head
	for i := range top {
		psn = psn.Next()
		if s := x.at(psn); m.has(i) && !s.had {
			sq.came(now, s)
			s.had, news = true, true
			// What a READ asks for comes when the missing request has come, and is in flight until
			// then.
			at = sq.requestOf(at, psn)
			if s.want = sq.q.at(at).op.needsResponse() && sq.kept.at(psn) == nil; !s.want {
				sq.arrives()
			}
		}
	}
	if psn = psn.Next(); psn.After(x.newest) {
		x.newest = psn
	}
	if t := &sq.rtt; t.timing && span(sq.una, t.psn) < span(sq.una, sq.end) && x.at(t.psn).had {
		trip = sq.timedCame(now)
	}
	if p.PSN != sq.una {
		sq.missResponses(now, p.PSN) // their requests precede the NAK
	}
	if news {
		x.backoff = 0
		if sq.probe.sent > 0 {
			x.past = sq.end // the probe left long after all others
		}
		sq.probe.sent, sq.probe.due = 0, false
		sq.probe.next()
		sq.probeAnswered()
		sq.armAckTimer(now)
		sq.armProbe(now)
	}
	sq.findMissing(now)
	if news && sq.qp.delayed {
		sq.qp.news(now, trip, false)
	}
	if sq.q.cur != sq.q.tail {
		sq.qp.markReady()
	}
	return true
}

// timedCame takes the answer to the timed packet although one before it is missing, and reports
// whether it is a sample.
func (sq *requester) timedCame(now int64) bool {
	trip := sq.rtt.answered(now, sq.qp.attr.Timeout.Ns())
	sq.probe.update(sq.qp, &sq.rtt)
	return trip
}

// goOn ends going back: from now on the missing packets are known.
func (sq *requester) goOn() {
	q := &sq.q
	for sq.curPkt = 0; q.cur != q.tail; q.cur++ {
		w := q.at(q.cur)
		if w.state == wqePosted || w.state == wqeRefused {
			break
		}
		if n := span(w.psn, sq.end); w.npkts != 0 && n < int(w.npkts) {
			sq.curPkt = uint32(n)
			break
		}
	}
	sq.psn = sq.end
	sq.reads.next = sq.reads.tail
}

// missResponses notes that everything before psn was executed, so that responses not here are
// missing.
func (sq *requester) missResponses(now int64, psn ib.PSN) {
	x, i := sq.miss, sq.q.head
	from := sq.una
	if x.seen.After(from) {
		from = x.seen
	}
	for at := from; at.Before(psn); at = at.Next() {
		if i = sq.requestOf(i, at); i == sq.q.tail {
			return
		}
		s := x.at(at)
		if !s.had {
			sq.came(now, s)
			s.had = true
		}
		s.want = sq.q.at(i).op.needsResponse() && sq.kept.at(at) == nil
	}
	if psn.After(x.seen) {
		x.seen = psn
	}
	if psn.After(x.newest) {
		x.newest = psn
	}
}

// requestOf returns the index of the request that contains psn, which is i or behind; tail if none.
func (sq *requester) requestOf(i uint32, psn ib.PSN) uint32 {
	for q := &sq.q; i != q.tail; i++ {
		if w := q.at(i); w.npkts != 0 && span(w.psn, psn) < int(w.npkts) {
			break
		}
	}
	return i
}

// lostPackets are packets that were found lost together, from the oldest to the newest.
type lostPackets struct {
	n         int
	responses bool   // some of them
	repeats   bool   // some of them
	other     bool   // some are no requests of READs, which are few and do not fill a queue
	at        uint32 // index of the request of the last
	part      ib.PSN // last PSN of the last READ request
}

// add adds a packet, which is due then. The request of a READ is one packet, whatever it asks for.
func (l *lostPackets) add(sq *requester, psn ib.PSN, s *sentPacket) {
	sq.miss.setDue(s)
	l.responses, l.repeats = l.responses || s.want, l.repeats || s.order != 0
	l.at = sq.requestOf(l.at, psn)
	if s.want || l.at == sq.q.tail || sq.q.at(l.at).op != WRRead {
		l.other = true
		l.n++
	} else if part := sq.partOf(psn); part != l.part {
		l.part = part
		l.n++
	}
}

// findMissing marks lost packets as due.
func (sq *requester) findMissing(now int64) {
	x := sq.miss
	fresh, again := false, false // other packets are missing: never resent; resent
	lost, late := lostPackets{at: sq.q.head, part: sq.una.Prev()}, sq.lateNs()
	x.arrived = 0
	freed := 0
	for psn, top := sq.una, x.top(); psn != top; psn = psn.Next() {
		s := x.at(psn)
		if s.due {
			continue
		}
		if s.had && !s.want {
			x.arrived++
			if !s.freed {
				s.freed = true
				freed++
			}
			continue
		}
		newest := x.newest
		if s.want {
			newest = x.seen
		}
		switch {
		case !newest.After(psn):
		case s.order == 0 && (span(psn, newest) > x.spread+1 || !s.want && x.past.After(psn)),
			s.order != 0 && (newest.Diff(s.behind) > x.spread || int32(x.came-s.order) > maxReorder),
			s.order != 0 && s.want && late != 0 && now-s.at > late:
			lost.add(sq, psn, s)
		case s.order == 0:
			fresh = true
		default:
			again = true
		}
	}
	sq.dischargeArrived(freed)
	if x.losses += lost.n; x.losses > spreadLosses {
		x.spread = maxReorder
	}
	x.lost += lost.n
	if x.round && (!x.top().Before(x.cutAt) || now-x.cutNs > 2*max(sq.rtt.smoothed, sq.rtt.last)) {
		sq.endRound(now, lost.responses)
	}
	if x.due != 0 {
		x.next = sq.una
		again = true
		sq.onLost(now, &lost)
		sq.qp.markReady()
	}
	if fresh || again {
		sq.armMissing(now, fresh)
	} else {
		sq.qp.stopTimer(timerMissing)
	}
}

// armMissing sets the timer after which missing packets count as lost if nothing else shows it.
func (sq *requester) armMissing(now int64, fresh bool) {
	ns := sq.repeatNs()
	if fresh && sq.rtt.smoothed != 0 {
		ns = max(sq.rtt.smoothed/4, minReorderNs)
	}
	sq.qp.setTimer(timerMissing, now+min(ns<<sq.miss.backoff, max(ns, maxFarGapNs)))
}

// repeatNs returns how long a resent packet is waited for if nothing else shows that it was lost.
func (sq *requester) repeatNs() int64 {
	if sq.rtt.smoothed == 0 {
		return DefaultLossProbeNs
	}
	return max(2*sq.rtt.smoothed+4*sq.rtt.variance, minRepeatNs)
}

// missingTimeout makes missing packets due although nothing shows that they were lost. The timer
// may have been set for packets that were resent meanwhile, with a READ that they belong to: it has
// to come again.
func (sq *requester) missingTimeout(now int64) {
	if !sq.watching() || sq.retry.rnrWait || sq.psn != sq.end {
		return
	}
	x := sq.miss
	lost, since := lostPackets{at: sq.q.head, part: sq.una.Prev()}, now-sq.repeatNs()
	for _, again := range [...]bool{false, true} {
		for psn, top := sq.una, x.top(); psn != top; psn = psn.Next() {
			// The peer may have a READ, and wait for a request before it.
			if s := x.at(psn); (!s.had || s.want && x.seen.After(psn)) && (s.order != 0) == again &&
				(!again || s.at <= since) {
				lost.add(sq, psn, s)
			}
		}
		if x.due != 0 {
			break
		}
	}
	if x.due == 0 {
		if x.flying > 0 {
			sq.armMissing(now, false)
		}
		return
	}
	x.backoff = min(x.backoff+1, maxProbeBackoff)
	x.next = sq.una
	x.allow = max(x.allow, 1+span(x.cutAt, sq.end))
	sq.onLost(now, &lost)
	sq.armMissing(now, false)
	sq.qp.markReady()
}

// passedMissing follows una as it moves on from from.
func (sq *requester) passedMissing(now int64, from ib.PSN) {
	x := sq.miss
	for psn, left := from, min(span(from, sq.una), len(x.ring)); left > 0; left-- {
		s := x.at(psn)
		sq.came(now, s)
		if !s.had || s.want {
			sq.arrives()
		}
		*s = sentPacket{lastResent: s.order != 0}
		psn = psn.Next()
	}
	if !sq.una.Before(x.top()) {
		sq.unwatch()
		return
	}
	x.backoff = 0
	if x.next.Before(sq.una) {
		x.next = sq.una
	}
	if sq.peerKeeps {
		sq.findMissing(now)
	}
	if x.due != 0 {
		sq.qp.markReady()
	}
}
