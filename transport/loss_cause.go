package transport

// lossCause tells losses for want of room, which a smaller window avoids, from those that the path
// has anyway, for which it would only leave the path idle. Queues drop packets when they are full,
// and then round trips are long. So a loss while they are short has another cause, unless there are
// very many. If the path loses as large a part while they are short, so have those while they are
// long.
type lossCause struct {
	lately tally
	calm   tally // while round trips were short
	age    int   // packets since calm was halved
	early  int   // packets counted that are behind a missing one
}

// tally counts packets; older ones count less.
type tally struct{ came, lost int }

func (t *tally) halve() { t.came, t.lost = t.came/2, t.lost/2 }

// over reports whether more than one in part was lost, of enough packets to tell.
func (t *tally) over(part int) bool {
	n := t.came + t.lost
	return n >= lossSample && t.lost*part > n
}

// count takes packets that came, and packets that were lost.
func (c *lossCause) count(e *rttEstimate, came, lost int) {
	if c.lately.came += came; c.lately.came+c.lately.lost > 2*lossSample {
		c.lately.halve()
	}
	if c.age += came; c.age > calmPackets {
		c.age = 0
		c.calm.halve()
	}
	c.lately.lost += lost
	if e.short {
		c.calm.came += came
		c.calm.lost += lost
	}
}

// lossy reports whether packets were lost lately.
func (c *lossCause) lossy() bool { return c.lately.lost+c.calm.lost > 0 }

// ahead counts a packet that came although one before it is missing.
func (c *lossCause) ahead(e *rttEstimate) {
	c.early++
	c.count(e, 1, 0)
}

// acked counts n packets that were acknowledged, except for those that were counted when they came.
func (c *lossCause) acked(e *rttEstimate, n int) {
	known := min(n, c.early)
	c.early -= known
	c.count(e, n-known, 0)
}

// forget begins anew. Packets counted early are still early: their acknowledgement is to come.
func (c *lossCause) forget() { *c = lossCause{early: c.early} }

// crowded reports whether the last packets that were lost lacked room.
func (c *lossCause) crowded(e *rttEstimate) bool {
	l, calm := &c.lately, &c.calm
	switch {
	case e.smoothed == 0 || l.over(heavyLoss):
		return true
	case e.short:
		return false
	case l.over(fullLoss):
		return true
	case calm.came >= calmSample: // one loss in the calm more than there were: few say little
		return e.waits && l.lost*(calm.came+calm.lost) > calmTimes*(calm.lost+1)*(l.came+l.lost)
	}
	return e.waits
}
