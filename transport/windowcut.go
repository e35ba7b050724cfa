package transport

import "math"

// windowCut is what is known since the window last became smaller for want of room.
//
// It tells whether others with packets in the same queue gave way as well, by what the queue does.
// TCP cubic and another window like this one give way at about the same time, so the queue becomes
// short. BBR does not, and neither do many flows of which one has lost: the queue stays long. There
// a flow that gives up half each time ends with nothing, and one with more than its share loses
// more seldom than the others. So a window that meets such rivals gives up less, the smaller it is
// the larger a part, and adds single packets: several at once seldom meet the full queue, and leave
// the loss to smaller windows.
//
// It also bounds how fast the window grows again while no queue is seen: by quarters only up to
// what the path holds without one. Beyond that, several round trips in a row must show none: a flow
// that began while others filled the queue has never seen it empty, takes a shorter queue for none,
// and would get more each time.
type windowCut struct {
	firm     bool  // the others do not give way
	empty    uint8 // round trips in a row without a queue, up to manyEmpty
	holds    int   // packets that the path holds without a queue
	from, to int   // size of the window before, and after
	waitedNs int64 // round trip in the queue before
	leastNs  int64 // shortest round trip since; 0 if there was none
}

// anew notes a reduction, after which others are firm or not. It returns c, or a new one if there
// is none.
func (c *windowCut) anew(e *rttEstimate, firm bool, from, to int) *windowCut {
	low := e.lately()
	if low == 0 {
		return c
	}
	if c == nil {
		c = new(windowCut)
	}
	*c = windowCut{firm: firm, holds: int(int64(from) * e.least / low), from: from, to: to, waitedNs: low}
	return c
}

// rivals reports whether the others do not give way.
func (c *windowCut) rivals() bool { return c != nil && c.firm }

// trip takes a round trip, which shows a queue or none. There may be no c.
func (c *windowCut) trip(ns int64, empty bool) {
	if c == nil {
		return
	}
	if c.leastNs == 0 || ns < c.leastNs {
		c.leastNs = ns
	}
	switch {
	case c.empty == manyEmpty: // the path has become wider
	case empty:
		c.empty++
	default:
		c.empty = 0
	}
}

// mayHold reports whether the path may hold more than n packets without a queue.
func (c *windowCut) mayHold(n int) bool { return c == nil || n < c.holds || c.empty == manyEmpty }

// stay reports whether others have not given way when the window became smaller. The queue of a
// flow that is alone becomes shorter by the part that its window gave up: if it did by three
// quarters of that, there are no rivals worth mention, even where it stays long.
func (c *windowCut) stay(e *rttEstimate) bool {
	if c == nil || c.leastNs <= e.longNs() {
		return false
	}
	return c.waitedNs-c.leastNs < c.waitedNs*int64(c.from-c.to)/int64(c.from)*3/4
}

// concession is what a window of n packets gives up to rivals that do not: half of 9, a quarter of
// 36 and more. The square root lets the larger of two windows give up more, so that they become
// equal, and many small ones as much as they ever did, so that they lose no more.
func concession(n int) int {
	return min(max(int(1.5*math.Sqrt(float64(n))), n/4), n/2)
}
