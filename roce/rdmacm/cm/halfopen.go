package cm

import "github.com/goroce/goroce/ib/mad"

// A half-open connection has been accepted, but its peer has not shown that it knows. The REQ may
// be forged, in the name of a node that never asked. So the REP is repeated rarely until a message
// comes that needs our communication ID.

// beginHalfOpen records when the REP was sent.
func (c *Conn) beginHalfOpen(now int64) {
	end := now
	for i := range c.maxTries {
		end += c.retryWaitNs(i + 1)
	}
	c.heard, c.repNs, c.endNs, c.holdNs = false, now, end, now+maxServiceTimeout.Ns()
}

// watch makes the timer come before the first repetition of the REP, if the listener needs to know
// that the peer is slow.
func (c *Conn) watch(now int64) {
	c.retryAt = c.deadline
	if l := c.listener; l != nil && l.maxUntaken > 0 && c.untaken {
		c.a.setTimer(c, min(now+lateNs, c.retryAt))
	}
}

// quiet reports whether the message to repeat may go to a node that never asked.
func (c *Conn) quiet() bool { return c.state == RepSent && !c.heard }

// quietTries returns how often the REP is sent in all, and later the REJ that takes it back. In a
// flood of forged REQs the addresses that they name get one.
func (c *Conn) quietTries() int {
	if c.rank != proven && c.a.flooded() {
		return 1
	}
	return quietTries
}

// quietTimer returns when to repeat the REP for a peer that was never heard of: quietTries of them
// take as long as all repetitions for another peer. (Linux repeats a REP as often as the REQ says,
// 15 times, to anyone.) A peer whose RTU was lost needs one repetition, and soon; one that missed
// the REP repeats its REQ, and each of these is answered. The last repetition is for a peer that
// was too busy for all that.
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

// giveUp ends a half-open connection whose peer does not answer. The peer may believe that it is
// connected, and a REJ is not acknowledged: it is sent as often as the REP could have been.
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

// tooLate tells the peer that its connection was given up.
func (c *Conn) tooLate() { c.sendREJ(mad.SubjectOther, mad.RejectTimeout, nil) }

// farewell tells the peer once more, if that is due. It returns whether to keep the record.
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
