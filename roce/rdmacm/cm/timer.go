package cm

// timerHeap orders the connections that wait for a point in time.
type timerHeap []*Conn

// setTimer sets the timer of c, in place of an earlier setting.
func (a *Agent) setTimer(c *Conn, at int64) {
	c.deadline = at
	if c.heapIndex < 0 {
		c.heapIndex = len(a.timers)
		a.timers = append(a.timers, c)
	}
	a.timers.fix(c.heapIndex)
}

// stopTimer stops the timer of c.
func (a *Agent) stopTimer(c *Conn) {
	i := c.heapIndex
	if i < 0 {
		return
	}
	last := len(a.timers) - 1
	a.timers.swap(i, last)
	a.timers[last] = nil
	a.timers = a.timers[:last]
	c.heapIndex = -1
	if i < last {
		a.timers.fix(i)
	}
}

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h timerHeap) fix(i int) {
	for i > 0 && h[i].deadline < h[(i-1)/2].deadline {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(h) && h[child].deadline < h[least].deadline {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

// NextTimeout returns when HandleTimeout has something to do; ok is false if there is nothing to
// wait for.
func (a *Agent) NextTimeout() (int64, bool) {
	at, ok := a.roomAt()
	if len(a.timers) > 0 && (!ok || a.timers[0].deadline < at) {
		at, ok = a.timers[0].deadline, true
	}
	if look, set := a.lookAt(); set && (!ok || look < at) {
		at, ok = look, true
	}
	return at, ok
}

// HandleTimeout does what is due at now.
func (a *Agent) HandleTimeout(now int64) {
	a.clock = now
	for len(a.timers) > 0 && a.timers[0].deadline <= now {
		c := a.timers[0]
		a.stopTimer(c)
		c.expire(now)
	}
	a.makeRoom(now)
	a.look(now)
}
