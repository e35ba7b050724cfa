package transport

import "github.com/goroce/goroce/ib"

// Selective repeat of a requester: it sends again what is missing, and not what is behind it.
//
// What is missing at the peer, the peer tells, in its sequence NAKs, if it knows selective repeat
// (keptMap). Whether it does is found out without being agreed on: what is sent again has
// ib.Resv7Selective, and a peer that has it in its answers knows. Others ignore the bit. If no
// answer comes at all, the bit is not used again. So a queue pair goes back once before it repeats
// selectively.
//
// What is missing of responses shows by those behind it, which are kept (sq.kept) until their turn.
// A READ is asked for in the part that is missing: of a peer that is not known to know, the first
// such part alone, until it has come, since rdma_rxe forgets what is before the part that it was
// asked for last (docs/rxe.md, row 5).
//
// A packet is lost if enough that were sent after it have come (maxReorder), as RFC 8985 has it for
// TCP, by order and not by time: new packets count up in PSN, those that are sent again in order,
// and each of these has noted where the end was. What that does not find, because nothing else is
// sent, a timer finds (timerMissing).
//
// What a peer says that it has is not sent again, and no more: only what it acknowledges completes.
// If that does not come, the ACK timeout goes back, and everything that was said is forgotten.
type missing struct {
	on      bool
	newest  ib.PSN      // behind the newest request that the peer has
	seen    ib.PSN      // behind the newest response that has come
	order   uint32      // packets that were sent again so far
	came    uint32      // the newest of these that has come
	past    ib.PSN      // what was sent for the first time before this, was sent before one of these that has come
	due     int         // to be sent again now
	flying  int         // sent again, and neither come nor lost
	next    ib.PSN      // the first that is due, or before it
	arrived int         // in [una, top()): the peer has it, and so do we its response
	cutAt   ib.PSN      // end when a round of losses began: the window was made smaller, or need not be
	cutNs   int64       // when that was
	round   bool        // what was sent before cutAt is not all accounted for
	allow   int         // packets that may be sent in the round
	got     int         // packets that have come in the round
	lost    int         // that were lost in it
	wasSize int         // of the window before the round; 0 if that is not to come back
	repeats int         // packets that were sent again since the round began, and have come
	spread  int         // so many may overtake a packet that is not taken to be lost
	losses  int         // since spread was made larger
	again   rttEstimate // of responses that were asked for again, which wait behind no others at the peer
	backoff uint8       // timeouts since there was news
	ring    []sentPacket
}

// sentPacket is what is known of a PSN in [una, end).
type sentPacket struct {
	had    bool   // the peer has the request
	want   bool   // had, and its response is missing
	due    bool   // to be sent, or asked for, again
	order  uint32 // when that was last; 0 for never
	behind ib.PSN // end then
	at     int64  // the time then
	twice  bool   // it was sent again more than once
	flying bool   // it has neither come since, nor was it lost
}

func (x *missing) at(psn ib.PSN) *sentPacket { return &x.ring[int(psn)&(len(x.ring)-1)] }

// top returns the end of what may be known to be missing.
func (x *missing) top() ib.PSN {
	if x.seen.After(x.newest) {
		return x.seen
	}
	return x.newest
}

// watchMissing makes sure that all that is on its way is watched. It reports false if that is too
// much.
func (sq *requester) watchMissing() bool {
	n := span(sq.una, sq.end)
	if n > maxMissing {
		return false
	}
	if sq.miss == nil {
		sq.miss = &missing{}
	}
	x := sq.miss
	if n > len(x.ring) {
		size := max(minKeptSlots, len(x.ring))
		for size < n {
			size *= 2
		}
		old := *x
		x.ring = make([]sentPacket, size)
		for psn, i := sq.una, 0; i < len(old.ring); psn, i = psn.Next(), i+1 {
			*x.at(psn) = *old.at(psn)
		}
	}
	if !x.on {
		*x = missing{on: true, ring: x.ring, again: x.again, spread: max(x.spread, maxReorder), losses: x.losses, newest: sq.una, seen: sq.una, past: sq.una, next: sq.una, cutAt: sq.una}
		if sq.retry.back {
			for psn := sq.una; psn != sq.psn && psn != sq.retry.backEnd; psn = psn.Next() {
				s := x.at(psn)
				x.sentAgain(sq.retry.since, s, sq.end) // or later
				s.twice = true
			}
		}
	}
	return true
}

// watching reports whether something is known to be missing.
func (sq *requester) watching() bool { return sq.miss != nil && sq.miss.on }

// dueAgain reports whether something is to be sent again now.
func (sq *requester) dueAgain() bool {
	return sq.miss != nil && sq.miss.due != 0 && sq.againRoom() > 0
}

// unwatch forgets what is missing: nothing is, or all of it is sent again.
func (sq *requester) unwatch() {
	if x := sq.miss; x != nil && x.on {
		clear(x.ring)
		x.on, x.due, x.flying = false, 0, 0
		sq.qp.stopTimer(timerMissing)
	}
}

// offer tells in a request that is sent again that this side knows selective repeat.
func (sq *requester) offer(tx *TxPacket) {
	if sq.peerKeeps || !sq.offerRefused && sq.qp.e.cfg.Tuning.SelectiveRepeat {
		tx.Header[8] |= ib.Resv7Selective
		sq.offered = true
	}
}

// learn takes from a response whether the peer knows selective repeat.
func (sq *requester) learn(p *ib.Packet) {
	if p.Resv7 == ib.Resv7Selective && !sq.peerKeeps && sq.qp.e.cfg.Tuning.SelectiveRepeat {
		sq.peerKeeps, sq.offered = true, false
	}
}

// landed takes a packet out of those that were sent again and are on their way.
func (x *missing) landed(s *sentPacket) {
	if s.flying {
		s.flying = false
		x.flying--
	}
}

// againRoom returns how many packets may be sent again now. As many as the window has room for are on
// their way: a queue that has lost many at once would lose them again.
func (sq *requester) againRoom() int {
	x := sq.miss
	if !sq.peerKeeps {
		return sq.win.size<<sq.win.long - x.flying
	}
	n := sq.win.size<<sq.win.long - x.inFlight(span(sq.una, sq.end))
	n = x.inRound(n, sq.end)
	if x.flying == 0 {
		return max(n, 1)
	}
	return n
}

// inFlight returns how many of n packets from una on are on their way, as far as is known.
func (x *missing) inFlight(n int) int { return n - x.arrived - x.due }

// roomBehind returns how many packets behind end may be sent now, of which the window admits bound.
// What has come before its turn is not on its way, but the peer keeps no more than so many.
func (sq *requester) roomBehind(bound int) int {
	x, n := sq.miss, span(sq.una, sq.end)
	if !sq.peerKeeps {
		return bound - n
	}
	room := min(bound-x.inFlight(n), max(minKeepAhead, sq.win.max<<sq.win.long)-n)
	return x.inRound(room, sq.end)
}

// inRound returns how many of n packets may be sent: while it is not known how many were lost, no more than have come.
func (x *missing) inRound(n int, end ib.PSN) int {
	if !x.round {
		return n
	}
	return min(n, x.allow-span(x.cutAt, end))
}

// arrives counts a packet that has come.
func (sq *requester) arrives() {
	x := sq.miss
	x.got++
	x.allow++
	if x.inFlight(span(sq.una, sq.end)) < sq.win.size<<sq.win.long {
		x.allow++ // the window opens in a few round trips, and not at once
	}
}

// setDue marks a packet to be sent again.
func (x *missing) setDue(s *sentPacket) {
	x.landed(s)
	if !s.due {
		s.due = true
		x.due++
	}
}

// came notes that a packet, or the response that it asks for, has come. If it was sent again in
// less time before than a round trip takes, what came is what was sent before that: it says nothing
// of what was sent since, and was not lost.
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

// leastRTT returns the shortest round trip that was seen; 0 if none was.
func (sq *requester) leastRTT() int64 {
	least := sq.rtt.least
	if sq.miss != nil && sq.miss.again.least != 0 && (least == 0 || sq.miss.again.least < least) {
		least = sq.miss.again.least
	}
	return least
}

// cameTwice takes notice that a packet, or the response to one, has come that had come before: it
// was sent again for nothing, since others had overtaken it. From now on more may do so, until
// enough were lost that it does not look as if it was the way of this path.
func (sq *requester) cameTwice() {
	x := sq.miss
	if x == nil || x.repeats == 0 || !sq.peerKeeps || sq.probe.sent > 0 || sq.retry.back {
		return
	}
	sq.qp.e.counters.SpuriousRepeats++
	x.spread, x.losses = min(2*max(x.spread, maxReorder), maxSpread), 0
	if x.repeats--; x.repeats == 0 {
		sq.win.reopen(x.wasSize)
		x.wasSize = 0
	}
}

// onKeptMap takes a sequence NAK that tells what the peer has. It reports false if the requester
// has to go back as for any other.
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
	first.had, first.want = false, false // whatever was said before
	news, trip := false, false
	psn := p.PSN
	for i := range top {
		psn = psn.Next()
		if s := x.at(psn); m.has(i) && !s.had {
			sq.came(now, s)
			sq.arrives()
			s.had, news = true, true
		}
	}
	if psn = psn.Next(); psn.After(x.newest) {
		x.newest = psn
	}
	if t := &sq.rtt; t.timing && span(sq.una, t.psn) < span(sq.una, sq.end) && x.at(t.psn).had {
		t.sample(now)
		trip = true
		sq.probe.update(sq.qp, t)
	}
	if p.PSN != sq.una {
		sq.missResponses(now, p.PSN) // which come before a NAK
	}
	if news {
		x.backoff = 0
		if sq.probe.sent > 0 {
			x.past = sq.end // it was sent long after all others
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

// goOn ends going back: from now on what is missing is known.
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

// sentAgain notes that a packet was sent again, when end was where it is.
func (x *missing) sentAgain(now int64, s *sentPacket, end ib.PSN) {
	if s.due {
		s.due = false
		x.due--
	}
	x.order++
	if !s.flying {
		s.flying = true
		x.flying++
	}
	x.allow--
	s.twice = s.order != 0
	s.order, s.behind, s.at = x.order, end, now
}

// missResponses notes that all before psn was executed, so that those responses are missing which
// are not here.
func (sq *requester) missResponses(now int64, psn ib.PSN) {
	x, q := sq.miss, &sq.q
	i, w := q.head, q.at(q.head)
	from := sq.una
	if x.seen.After(from) {
		from = x.seen
	}
	for at := from; at.Before(psn); at = at.Next() {
		for w.npkts == 0 || span(w.psn, at) >= int(w.npkts) {
			if i++; i == q.tail {
				return
			}
			w = q.at(i)
		}
		s := x.at(at)
		if !s.had {
			sq.came(now, s)
			s.had = true
		}
		s.want = w.op.needsResponse() && sq.kept.at(at) == nil
	}
	if psn.After(x.seen) {
		x.seen = psn
	}
	if psn.After(x.newest) {
		x.newest = psn
	}
}

// findMissing makes due what is lost.
func (sq *requester) findMissing(now int64) {
	x := sq.miss
	fresh, again := false, false // there are others, that were never sent again; that were
	responses, repeats, late := false, false, x.again.late()
	x.arrived = 0
	lost := 0
	for psn, top := sq.una, x.top(); psn != top; psn = psn.Next() {
		s := x.at(psn)
		if s.due {
			continue
		}
		if s.had && !s.want {
			x.arrived++
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
			x.setDue(s)
			lost++
			responses, repeats = responses || s.want, repeats || s.order != 0
		case s.order == 0:
			fresh = true
		default:
			again = true
		}
	}
	if x.losses += lost; x.losses > spreadLosses {
		x.spread = maxReorder
	}
	x.lost += lost
	if x.round && (!x.top().Before(x.cutAt) || now-x.cutNs > 2*max(sq.rtt.smoothed, sq.rtt.last)) {
		sq.endRound(now, responses)
	}
	if x.due != 0 {
		x.next = sq.una
		again = true
		sq.onLost(now, lost, responses, repeats)
		sq.qp.markReady()
	}
	if fresh || again {
		sq.armMissing(now, fresh)
	} else {
		sq.qp.stopTimer(timerMissing)
	}
}

// onLost tells the window and congestion control that n packets were lost: once for what is on its
// way at a time, and once in a round trip if what was sent again was lost, too.
func (sq *requester) onLost(now int64, n int, responses, repeats bool) {
	x := sq.miss
	sq.qp.lostPackets(n)
	if n == 0 || sq.una.Before(x.cutAt) && !(repeats && now-x.cutNs > max(sq.rtt.smoothed, sq.againNs())) {
		return
	}
	x.cutAt, x.cutNs, x.wasSize = sq.end, now, sq.win.size
	x.round, x.allow, x.got, x.lost, x.repeats = true, minWindow, x.arrived, n, 0
	x.round = !sq.win.ruled // which is narrow enough
	sq.qp.congestionNAK(now)
	crowded, unknown := sq.crowded(), sq.rtt.smoothed == 0
	if responses {
		crowded, unknown = sq.crowdedBack(), sq.againNs() == 0
	}
	if !crowded {
		sq.win.reopen(sq.win.before)
		sq.win.before = 0
		return
	}
	sq.roomLost(now, responses)
	sq.narrow(unknown)
}

// roomLost tells what is shared with others of a loss.
func (sq *requester) roomLost(now int64, responses bool) {
	if responses {
		sq.readLost(now)
	} else {
		sq.flightLost(now)
	}
}

// endRound is called when all that was on its way has come, or was lost. In between no more was sent
// than came. If much was lost, the path holds no more than came.
func (sq *requester) endRound(now int64, responses bool) {
	x, w := sq.miss, &sq.win
	x.round = false
	if x.lost <= heavyLoss || x.lost < x.got/heavyLoss {
		return
	}
	x.wasSize, w.before = 0, 0
	if most := max(x.got>>w.long, minWindow); most < w.size {
		w.size, w.acked = most, 0
		sq.roomLost(now, responses)
	}
}

// armMissing starts the time after which what is missing is lost if nothing else shows it.
func (sq *requester) armMissing(now int64, fresh bool) {
	t, x := &sq.rtt, sq.miss
	ns := int64(DefaultLossProbeNs)
	switch {
	case t.smoothed == 0:
	case fresh:
		ns = max(t.smoothed/4, minReorderNs)
	default:
		ns = max(2*t.smoothed+4*t.variance, minRepeatNs)
	}
	sq.qp.setTimer(timerMissing, now+min(ns<<x.backoff, max(ns, maxFarGapNs)))
}

// missingTimeout makes due what is missing though nothing shows that it was lost.
func (sq *requester) missingTimeout(now int64) {
	if !sq.watching() || sq.retry.rnrWait || sq.psn != sq.end {
		return
	}
	x := sq.miss
	x.backoff = min(x.backoff+1, maxProbeBackoff)
	responses, repeats := false, false
	for _, again := range [...]bool{false, true} {
		for psn, top := sq.una, x.top(); psn != top; psn = psn.Next() {
			if s := x.at(psn); (!s.had || s.want) && (s.order != 0) == again {
				x.setDue(s)
				responses, repeats = responses || s.want, again
			}
		}
		if x.due != 0 {
			break
		}
	}
	if x.due == 0 {
		return
	}
	x.next = sq.una
	x.allow = max(x.allow, 1+span(x.cutAt, sq.end))
	sq.onLost(now, x.due, responses, repeats)
	sq.armMissing(now, false)
	sq.qp.markReady()
}

// passedMissing follows una, which was at from.
func (sq *requester) passedMissing(now int64, from ib.PSN) {
	x := sq.miss
	for psn, left := from, min(span(from, sq.una), len(x.ring)); left > 0; left-- {
		s := x.at(psn)
		sq.came(now, s)
		if !s.had || s.want {
			sq.arrives()
		}
		*s = sentPacket{}
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
