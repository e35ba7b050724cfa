package cm

import "math"

// listenAgainNs is the time between two tries of a request that nobody listens for.
const listenAgainNs = 20e6

// awaitListener has a request that was refused because nobody listens sent again in a while, if the
// owner wants that: Request.ListenNs. The peer keeps nothing of what it has refused, so that the
// same message is a new request to it.
func (c *Conn) awaitListener(now int64) bool {
	if now >= c.listenEndNs {
		return false
	}
	if c.state == MRAReqRcvd {
		c.setState(ReqSent)
	}
	c.tries = 0 // it may be lost again
	c.a.setTimer(c, now+listenAgainNs)
	return true
}

// listenUntil is when a time that begins now is over, however long it is.
func listenUntil(now, ns int64) int64 { return now + min(ns, math.MaxInt64-now) }
