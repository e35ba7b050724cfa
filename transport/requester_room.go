package transport

// This file says whether there is room for another packet: in the window, and in the depth of READs
// and atomics.

// fits reports whether window and READ depth have room for the next packet of w.
func (sq *requester) fits(w *sendWQE) bool {
	room := sq.room(w)
	if room <= 0 {
		return false
	}
	op := &sendOps[w.op]
	if op.consumes && sq.curPkt == 0 && sq.una != sq.psn && sq.credit.lacks(w.number) {
		return false // it was sent before, and now has no credit
	}
	if !op.waits || sq.psn != sq.end {
		return true
	}
	if sq.reads.len() >= sq.depth() {
		return false
	}
	// A READ brings as many packets as the window has room for. The next request waits for room for
	// the rest of the READ, or for a part of the window, so that it is not a tiny one. That is half
	// where the window is the largest. Elsewhere it is an eighth: a long path would be idle
	// meanwhile, and a queue has no room for half a window at once.
	shift := farShift
	if win := &sq.win; win.size == win.max && !win.ruled && sq.rtt.least < farNs {
		shift = nearShift
	}
	left := int(w.npkts - sq.curPkt)
	return left <= room || room<<shift >= sq.win.bound(w) || room >= maxReadPart
}

// stretch returns how many times as much as on a short path may be in flight: see window.
func (sq *requester) stretch() uint8 {
	if !sq.peerKeeps {
		return 1
	}
	return uint8(min(max(sq.rtt.least/farNs, 1), maxStretch))
}

// stretchWindow follows stretch, after one of its inputs has changed.
func (sq *requester) stretchWindow() {
	if n := sq.stretch(); n != sq.win.stretch {
		sq.win.stretch = n
		sq.win.limit(sq.qp)
	}
}

// noteRoom notes, as una has moved on, whether a large window has room to grow.
func (sq *requester) noteRoom(now int64) {
	w := &sq.win
	switch {
	case sq.trips == nil:
	case w.size <= w.near:
		sq.trips.forget() // it is no longer large, and their PSNs would come round again
	case sq.trips.answered(now, sq.una, sq.rtt.emptyNs())*8/7 >= w.size:
		w.idle = true
	}
}

// depth returns how many READs and atomics may be outstanding. While a response is missing, those
// behind it count although theirs have come. A peer that knows selective repeat remembers twice as
// many as it has agreed to (replayStore.size), so that as many are under way as before the loss.
func (sq *requester) depth() int {
	n := int(sq.qp.attr.MaxRdAtomic)
	if sq.peerKeeps && sq.watching() {
		return 2 * n
	}
	return n
}

// room returns how many packets of w the window admits now.
func (sq *requester) room(w *sendWQE) int {
	bound := sq.bound(w)
	if sq.watching() {
		return sq.roomBehind(bound)
	}
	return bound - span(sq.una, sq.psn)
}

// bound returns how many packets may be in flight when one of w leaves. A short message behind long
// ones does not wait until as few are left as if all of them were short.
func (sq *requester) bound(w *sendWQE) int {
	n := sq.win.bound(w)
	if w.length < longBytes && sq.longEnd.After(sq.una) && !sq.longEnd.After(sq.psn) {
		return min(n+span(sq.una, sq.longEnd), sq.win.size)
	}
	return n
}
