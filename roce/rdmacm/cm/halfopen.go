package cm

import "github.com/goroce/goroce/ib/mad"

// A half-open connection: accepted, and its peer has not shown that it knows. The
// REQ can have come from anybody, in the name of somebody who never asked. So the
// REP is repeated seldom until something has come that needs our communication ID.

// beginHalfOpen notes when the REP was sent.
func (c *Conn) beginHalfOpen(now int64) {
	end := now
	for i := range c.maxTries {
		end += c.retryWaitNs(i + 1)
	}
	c.heard, c.repNs, c.endNs, c.holdNs = false, now, end, now+maxServiceTimeout.Ns()
}

// watch makes the timer come sooner than for the first repetition of the REP, if it matters to
// the listener that the peer is slow.
func (c *Conn) watch(now int64) {
	c.retryAt = c.deadline
	if l := c.listener; l != nil && l.maxUntaken > 0 && c.untaken {
		c.a.setTimer(c, min(now+lateNs, c.retryAt))
	}
}

// quiet reports whether what is repeated may go to somebody who never asked.
func (c *Conn) quiet() bool { return c.state == RepSent && !c.heard }

// quietTries returns how often the REP is sent in all, and in its place the REJ that takes it back.
// In a flood of forged REQs the addresses that they name get one.
func (c *Conn) quietTries() int {
	if c.rank != proven && c.a.flooded() {
		return 1
	}
	return quietTries
}

// quietTimer returns when the REP is repeated for a peer that was never heard of:
// quietTries of them take as long as all that another peer gets. (Linux repeats a REP
// as often as the REQ says, 15 times, to anybody.) A peer whose RTU was lost needs one,
// and soon; one that had no REP repeats its REQ, and each of these is answered. The
// last one is for a peer that was too busy for all that.
func (c *Conn) quietTimer(now int64) int64 {
	switch {
	case c.tries >= c.quietTries():
		return max(c.endNs, now)
	case c.tries == quietTries-1:
		return max(now+(c.endNs-now)/2, now)
	}
	return now + c.retryWaitNs(c.tries)
}

// triesLeft reports whether the message to repeat may be sent again.
func (c *Conn) triesLeft() bool {
	if c.quiet() {
		return c.tries < min(c.quietTries(), c.maxTries)
	}
	return c.tries < c.maxTries
}

// giveUp ends a half-open connection whose peer does not answer. The peer may believe that
// it is connected, and nobody acknowledges a REJ: it is told as often as the REP could
// have been sent.
func (c *Conn) giveUp(now int64) {
	c.farewells = max(c.quietTries()-c.tries, 0)
	c.endNs = now + c.timewaitNs
	c.tooLate()
	c.a.emit(c, Event{Type: EventUnreachable})
	c.enterTimewait(now)
	if c.farewells > 0 {
		c.a.setTimer(c, min(now+c.retryNs, c.endNs))
	}
}

// tooLate tells the peer of a connection that was given up.
func (c *Conn) tooLate() { c.sendREJ(mad.SubjectOther, mad.RejectTimeout, nil, nil) }

// farewell tells the peer once more, as long as that is to be done. It reports whether
// the connection is still to be remembered.
func (c *Conn) farewell(now int64) bool {
	if c.state != Timewait || c.farewells == 0 || now >= c.endNs {
		return false
	}
	c.farewells--
	c.tooLate()
	if c.farewells == 0 {
		c.a.setTimer(c, c.endNs)
	} else {
		c.a.setTimer(c, min(now+c.retryNs, c.endNs))
	}
	return true
}
