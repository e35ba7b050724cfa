package shard

// contest finds out whether waits end sooner if the goroutine that receives looks at the link before it sleeps, or if
// it sleeps at once. Where CPUs are free a look saves the wake-up of an idle CPU. Where the other end, or somebody else, waits
// for this CPU, the look keeps it from them. What is so here nobody can know: so now and then some waits go the other way, and if most of them
// are shorter than is usual, that is the way from then on. The more of these trials fail in succession, the rarer they are, unless
// waits have become longer.
type contest struct {
	sleeps bool  // the way so far
	trial  int   // waits left of a trial of the other way
	won    int   // of those of the trial
	usual  int64 // half of the waits are longer
	least  int64 // what usual was at least since the last trial
	ended  int64 // when that ended
	pause  int64 // from then to the next
}

// looks reports whether to look before the next sleep.
func (c *contest) looks() bool { return c.sleeps == (c.trial > 0) }

// most is how long such a look may take: one of a trial has failed when a sleep would have ended.
func (c *contest) most(ns int64) int64 {
	if c.sleeps {
		return min(ns, c.bar())
	}
	return ns
}

// bar is what a wait of a trial is to be shorter than.
func (c *contest) bar() int64 {
	if c.sleeps {
		return c.usual - c.usual/8 // a look costs a CPU
	}
	return c.usual
}

// waited notes how long a wait took.
func (c *contest) waited(now, ns int64) {
	ns = min(ns, longWaitNs)
	if c.trial > 0 {
		c.tried(now, ns)
		return
	}
	if step := c.usual/16 + 1; ns > c.usual {
		c.usual = min(c.usual+step, longWaitNs)
	} else if ns < c.usual {
		c.usual -= step
	}
	c.least = min(c.least, c.usual)
	c.pause = max(c.pause, trialPauseNs)
	since := now - c.ended
	if since >= c.pause || since >= trialPauseNs && c.usual > 4*c.least {
		c.trial, c.won = trialWaits, 0
	}
}

// tried is waited for one of a trial.
func (c *contest) tried(now, ns int64) {
	if ns < c.bar() {
		c.won++
	}
	if c.trial--; c.trial > 0 {
		return
	}
	if c.won >= trialWins {
		c.sleeps = !c.sleeps
		c.pause = trialPauseNs
	} else {
		c.pause = min(2*c.pause, maxTrialPauseNs)
	}
	c.ended, c.least = now, c.usual
}
