package cm

import "math"

// listenAgainNs is the time between two tries of a request while nothing listens for it.
const listenAgainNs = 20e6

// awaitListener schedules another try of a request that was refused because nothing listens, if the
// owner wants that: Request.ListenNs. The peer keeps no record of a refused request, so the same
// message is a new request to it.
func (c *Conn) awaitListener(now int64) bool {
	if now >= c.listenEndNs {
		return false
	}
	if c.state == MRAReqRcvd {
		c.setState(ReqSent)
	}
	c.tries = 0 // it may get lost again
	c.a.setTimer(c, now+listenAgainNs)
	return true
}

// listenUntil returns the end of a period that begins now, without overflow.
func listenUntil(now, ns int64) int64 { return now + min(ns, math.MaxInt64-now) }
