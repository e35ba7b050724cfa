package transport

import "github.com/goroce/goroce/ib"

// How much may be in flight while packets are missing, and how losses change that.

// againRoom returns how many packets may be resent now. The window bounds those in flight: a queue
// that has just lost many packets would lose them again.
func (sq *requester) againRoom() int {
	x := sq.miss
	if !sq.peerKeeps {
		return sq.win.size - x.flying
	}
	n := sq.win.size - x.inFlight(span(sq.una, sq.end))
	n = x.inRound(n, sq.end)
	if x.flying == 0 {
		return max(n, 1)
	}
	return n
}

// inFlight returns how many packets are believed in flight.
func (sq *requester) inFlight() int {
	n := span(sq.una, sq.end)
	if sq.watching() {
		return sq.miss.inFlight(n)
	}
	return n
}

// inFlight returns how many of n packets from una on are believed in flight.
func (x *missing) inFlight(n int) int { return n - x.arrived - x.due }

// roomBehind returns how many packets behind end may be sent now, for a window of bound. Early
// arrivals are not in flight, but the peer keeps only a limited number of them.
func (sq *requester) roomBehind(bound int) int {
	x, n := sq.miss, span(sq.una, sq.end)
	if !sq.peerKeeps {
		return bound - n
	}
	room := min(bound-x.inFlight(n), max(minKeepAhead, sq.win.max)-n)
	return x.inRound(room, sq.end)
}

// inRound returns how many of n packets the round permits: for now no more than came.
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
	sq.cause.ahead(&sq.rtt)
	if x.inFlight(span(sq.una, sq.end)) < sq.win.size {
		x.allow++ // the window opens in a few round trips, not at once
	}
}

// onLost tells the window and congestion control of lost packets: once per set of packets in
// flight, and once per round trip if resent packets were lost as well.
func (sq *requester) onLost(now int64, lost *lostPackets) {
	x, n := sq.miss, lost.n
	sq.qp.lostPackets(n)
	sq.cause.count(&sq.rtt, 0, n)
	switch {
	case n == 0:
		return
	case sq.una.Before(x.cutAt) && !(lost.repeats && now-x.cutNs > max(sq.rtt.smoothed, sq.againNs())):
		// Of a large window the first lost packets come long before the others, which say more.
		if x.round && !x.cut && sq.win.size > sq.win.near && sq.lackedRoom(now, lost) {
			sq.cutForRoom(now, lost)
		}
		return
	}
	x.cutAt, x.cutNs, x.wasSize = sq.end, now, sq.win.size
	// Packets that have come since the last transmission make room for as many.
	x.allow = max(minWindow, sq.left-x.inFlight(span(sq.una, sq.end))-x.due)
	x.got, x.lost, x.repeats = x.arrived, n, 0
	x.round = !sq.win.ruled // which limits enough by itself
	x.cut, x.full = false, sq.reads.len() == 0
	sq.qp.congestionNAK(now)
	if !sq.lackedRoom(now, lost) {
		sq.win.acquit()
		return
	}
	sq.cutForRoom(now, lost)
}

// lackedRoom reports whether lost packets lacked room. Responses wait for each other at the peer,
// but not one that was asked for again: that shows whether there is a queue.
func (sq *requester) lackedRoom(now int64, lost *lostPackets) bool {
	x := sq.miss
	noQueue := now-x.againAt < 2*sq.rtt.smoothed && x.again.last < sq.leastRTT()*5/4
	if (lost.responses && noQueue || !lost.other) && !sq.cause.lately.over(heavyLoss) {
		return false
	}
	return sq.crowded()
}

// cutForRoom reduces the window, once in a round.
func (sq *requester) cutForRoom(now int64, lost *lostPackets) {
	x := sq.miss
	x.cut, x.full = true, true
	if sq.win.starting() {
		sq.cause.forget() // it has filled the queue by itself
	}
	sq.roomLost(now, lost.responses)
	sq.narrow(sq.rtt.smoothed == 0)
}

// roomLost reports a loss to the budget that is shared with other QPs.
func (sq *requester) roomLost(now int64, responses bool) {
	if responses {
		sq.readLost(now)
	} else {
		sq.flightLost(now)
	}
}

// endRound ends a round: everything in flight has come or was lost, and no more was sent than came.
// If much was lost, the path holds no more than came; of READs only if room was lacking.
func (sq *requester) endRound(now int64, responses bool) {
	x, w := sq.miss, &sq.win
	x.round = false
	if x.lost <= heavyLoss || x.lost < x.got/heavyLoss || !x.full && !sq.cause.lately.over(heavyLoss) {
		return
	}
	x.wasSize = 0
	w.convict()
	if most := max(x.got, minWindow<<w.long); most < w.size {
		w.size, w.acked, w.idle = most, 0, false
		sq.trips.forget()
		sq.roomLost(now, responses)
	}
}

// dischargeArrived gives back the charge of n early packets: they take no room until their turn.
func (sq *requester) dischargeArrived(n int) {
	x := sq.miss
	if n > 0 && sq.out+sq.in != 0 {
		sq.discharge(n, span(sq.una, sq.psn)-x.freed)
	}
	x.freed += n
}

// dischargePassed gives back the charge of the packets acknowledged from one PSN up to una.
func (sq *requester) dischargePassed(from ib.PSN) {
	x, n, charged := sq.miss, 0, span(from, sq.psn)-sq.miss.freed
	for psn, left := from, min(span(from, sq.una), len(x.ring)); left > 0; left-- {
		if x.at(psn).freed {
			x.freed--
		} else {
			n++
		}
		psn = psn.Next()
	}
	if sq.una == sq.end {
		n = charged
	}
	sq.discharge(n, charged)
}
