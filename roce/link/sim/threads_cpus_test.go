package sim

import (
	"cmp"
	"math"
	"slices"
)

// This file models CPUs, the kernel's scheduler, and Go's.
//
// A thread runs as long as it has work, until it sleeps, its slice has ended while others wait that
// have had less, another is woken that has had much less, or its process has used up its quota. Of
// the waiting threads the one that has had least is next. A thread that has slept counts as having
// had at most a slice less than the others.
//
// A thread of a process runs a goroutine, and has one of the processors of Go's runtime
// (GOMAXPROCS). When the goroutine waits, the thread takes the next one, and sleeps when there is
// none. In a system call it keeps its processor until goroutines have waited for one for a while.

// cpu is one CPU.
type cpu struct {
	index int
	th    *thread // the running thread; nil: none
	since int64   // when it began
	idle  int64   // since when the CPU is idle
}

// doing is what a thread does with its CPU.
type doing uint8

const (
	runs     doing = iota // a goroutine
	owes                  // pays for a goroutine that has gone
	fetches               // was woken to take a goroutine from the queue
	searches              // looks for a goroutine
	returns               // from a system call
)

// thread is a thread of a process.
type thread struct {
	p      *Process
	id     int
	cpu    *cpu // on which it runs
	has    bool // has a processor of Go's runtime
	mode   doing
	task   *task
	need   int64 // time until it is done
	skip   int64 // part of need that is not its own CPU time
	vtime  int64 // CPU time for fairness
	since  int64 // when its goroutine began
	called int64 // when it went to sleep in a system call
}

// goSlice is how long a goroutine runs while others wait.
const goSlice = 10_000_000

// account accounts for the time up to now.
func (d *threads) account(now int64) {
	dt := now - d.seen
	if dt <= 0 {
		return
	}
	for _, m := range d.machines {
		for _, p := range m.procs {
			for _, h := range p.links {
				if h.waits() && p.could() {
					h.waited += dt
					h.longest = max(h.longest, h.waited)
				}
			}
		}
		for _, c := range m.cpus {
			th := c.th
			if th == nil {
				continue
			}
			th.need -= dt
			th.vtime += dt
			skip := min(th.skip, dt)
			th.skip -= skip
			th.p.ran += dt - skip
			th.p.had += dt
		}
		m.refill(now)
	}
	d.seen = now
}

// waits reports whether untaken packets are there.
func (h *hosted) waits() bool {
	h.l.f.lock()
	defer h.l.f.mu.Unlock()
	return len(h.l.inbox) > 0 && !h.l.closed
}

// could reports whether the process has what it needs to receive: a CPU, a processor, and some
// quota.
func (p *Process) could() bool {
	if p.throttled {
		return false
	}
	idle := false
	for _, c := range p.m.cpus {
		switch th := c.th; {
		case th == nil:
			idle = idle || p.may(c)
		case th.p == p && !(th.task != nil && th.task.app):
			return true
		}
	}
	return idle && (p.free > 0 || len(p.inCall) > 0)
}

// refill begins a new period of quotas.
func (m *Machine) refill(now int64) {
	for _, p := range m.procs {
		if p.c.Quota == 0 {
			continue
		}
		if period := now / quotaPeriod; period != p.period {
			p.period = period
			p.had, p.throttled = 0, false
		}
		if p.had >= int64(p.c.Quota) {
			p.throttled = true
		}
	}
}

// becomesReady makes a goroutine runnable. waker is the thread that woke it, or nil.
func (d *threads) becomesReady(t *task, waker *thread) {
	p := t.p
	for _, th := range p.searching() {
		th.begin(t, d.seen)
		return
	}
	byOwn := waker != nil && waker.p == p && waker.has
	if byOwn {
		p.queue = slices.Insert(p.queue, 0, t)
	} else {
		p.queue = append(p.queue, t)
	}
	cost := p.fetches()
	if byOwn {
		waker.need += cost
	}
}

// searching returns the thread that looks for goroutines, if any.
func (p *Process) searching() []*thread {
	for _, c := range p.m.cpus {
		if th := c.th; th != nil && th.p == p && th.mode == searches {
			return []*thread{th}
		}
	}
	return nil
}

// fetches wakes a thread for the queue, if there is a processor for it and no thread is on its way.
// It returns the cost.
func (p *Process) fetches() int64 {
	switch {
	case p.fetch != nil || len(p.queue) == 0:
		return 0
	case p.free == 0:
		p.retakeLater()
		return 0
	}
	p.free--
	th := p.spare()
	th.has, th.mode, th.need = true, fetches, 0
	p.fetch = th
	th.wants()
	return int64(p.m.c.WakeCall)
}

// spare returns a thread without work.
func (p *Process) spare() *thread {
	if n := len(p.idle); n > 0 {
		th := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return th
	}
	p.m.ids++
	return &thread{p: p, id: p.m.ids}
}

// retakeLater schedules that processors of threads in system calls are taken away.
func (p *Process) retakeLater() {
	if len(p.inCall) == 0 {
		return
	}
	th := p.inCall[0]
	called := th.called
	p.d.after(max(called+int64(p.m.c.Retake)-p.d.seen, 1), func() {
		if len(p.queue) == 0 || th.called != called || !slices.Contains(p.inCall, th) {
			return
		}
		p.gives(th)
		p.fetches()
	})
}

// gives takes the processor from a thread.
func (p *Process) gives(th *thread) {
	th.has = false
	p.free++
	if i := slices.Index(p.inCall, th); i >= 0 {
		p.inCall = slices.Delete(p.inCall, i, i+1)
	}
}

// begin makes a thread run a goroutine.
func (th *thread) begin(t *task, now int64) {
	th.mode, th.task, th.since = runs, t, now
	th.need = int64(th.p.m.c.Goroutine) + t.work
	t.th = th
}

// takes makes a thread take the next goroutine.
func (th *thread) takes(now int64) {
	p := th.p
	if p.fetch == th {
		p.fetch = nil
	}
	if len(p.queue) == 0 {
		th.mode, th.task, th.need = searches, nil, int64(p.m.c.Search)
		return
	}
	t := p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	th.begin(t, now)
	th.need += p.fetches()
}

// finishes handles a thread that is done, on its CPU. It returns a goroutine that is to go on.
func (th *thread) finishes(now int64) *task {
	p, t := th.p, th.task
	switch th.mode {
	case owes, fetches:
		th.takes(now)
		return nil
	case searches:
		if len(p.queue) > 0 {
			th.takes(now)
			return nil
		}
		th.leaves(now)
		p.gives(th)
		p.idle = append(p.idle, th)
		return nil
	case returns:
		if !th.has && p.free == 0 {
			t.th, th.task = nil, nil
			p.queue = append(p.queue, t)
			th.leaves(now)
			p.idle = append(p.idle, th)
			p.retakeLater()
			return nil
		}
		if !th.has {
			p.free--
			th.has = true
		}
		if i := slices.Index(p.inCall, th); i >= 0 {
			p.inCall = slices.Delete(p.inCall, i, i+1)
		}
		th.mode, th.since, t.kind = runs, now, works
		return t
	}
	kind := t.kind
	t.kind = works
	switch {
	case kind == letsRun && len(p.queue) > 0:
		th.queues(now)
		return nil
	case kind == yields && p.m.contended(th):
		// Behind those that wait, but by a slice at most: with more, those of a process that its
		// quota stops most of the time would have to catch up with all that others have had.
		th.vtime = max(th.vtime, min(p.m.most()+1, th.vtime+int64(p.m.c.Slice)))
		c := th.cpu
		th.leaves(now)
		th.wants()
		p.m.fill(c, now)
		return nil
	case kind == blocks && !t.here():
		th.leaves(now)
		th.called = now
		p.inCall = append(p.inCall, th)
		p.d.asleep = append(p.d.asleep, t)
		if t.until != 0 {
			until := t.until
			p.d.after(max(until-now, 1), func() {
				if i := slices.Index(p.d.asleep, t); i >= 0 && t.until == until && th.called == now {
					p.d.asleep = slices.Delete(p.d.asleep, i, i+1)
					p.d.leavesCall(t)
				}
			})
		}
		p.fetches()
		return nil
	}
	return t
}

// queues puts the goroutine of a thread behind the others.
func (th *thread) queues(now int64) {
	t := th.task
	t.work = max(th.need, 0)
	t.th = nil
	th.p.queue = append(th.p.queue, t)
	th.takes(now)
}

// leavesCall ends the system call of a goroutine.
func (d *threads) leavesCall(t *task) {
	t.th.mode, t.th.need = returns, 0
	t.th.wants()
}

// wants makes a woken thread wait for a CPU.
func (th *thread) wants() {
	m := th.p.m
	th.vtime = max(th.vtime, m.fair-int64(m.c.Slice))
	m.ready = append(m.ready, th)
}

// leaves takes a thread off its CPU.
func (th *thread) leaves(now int64) {
	c := th.cpu
	th.cpu, c.th, c.idle = nil, nil, now
}

// putOff takes a thread off its CPU that would go on.
func (th *thread) putOff(now int64) {
	th.leaves(now)
	th.p.m.ready = append(th.p.m.ready, th)
}

// dispatch decides which threads run on the CPUs.
func (m *Machine) dispatch(now int64) {
	for _, c := range m.cpus {
		th := c.th
		if th == nil {
			continue
		}
		p := th.p
		switch {
		case p.throttled:
			th.putOff(now)
		case th.mode == runs && len(p.queue) > 0 && now-th.since >= goSlice && th.need > 0:
			th.queues(now)
		}
	}
	m.age()
	for _, c := range m.cpus {
		if c.th == nil {
			m.fill(c, now)
		}
	}
	if len(m.ready) == 0 {
		return
	}
	for _, c := range m.cpus {
		th := c.th
		if th == nil {
			continue
		}
		best := m.best(c)
		switch {
		case best == nil:
		case th.vtime-best.vtime > int64(m.c.Preempt), now-c.since >= int64(m.c.Slice) && best.vtime < th.vtime:
			th.putOff(now)
			m.fill(c, now)
		}
	}
}

// age updates fair.
func (m *Machine) age() {
	least := int64(math.MaxInt64)
	for _, c := range m.cpus {
		if c.th != nil {
			least = min(least, c.th.vtime)
		}
	}
	for _, th := range m.ready {
		least = min(least, th.vtime)
	}
	if least != math.MaxInt64 {
		m.fair = max(m.fair, least)
	}
}

// best returns the next thread for a CPU.
func (m *Machine) best(c *cpu) (best *thread) {
	for _, th := range m.ready {
		if th.p.may(c) && !th.p.throttled && (best == nil || th.vtime < best.vtime) {
			best = th
		}
	}
	return best
}

// fill makes the next thread run on a CPU.
func (m *Machine) fill(c *cpu, now int64) {
	th := m.best(c)
	if th == nil {
		return
	}
	m.ready = slices.DeleteFunc(m.ready, func(o *thread) bool { return o == th })
	th.cpu = c
	c.th, c.since = th, now
	if c.idle < now {
		th.need += int64(m.c.Wakeup)
		th.skip = int64(float64(m.c.Wakeup) * (1 - m.c.WakeShare))
		return
	}
	th.need += int64(m.c.Switch)
}

// contended reports whether others wait for the CPU of a thread.
func (m *Machine) contended(th *thread) bool { return m.best(th.cpu) != nil }

// most returns the most CPU time that a waiting thread has had.
func (m *Machine) most() int64 {
	return slices.MaxFunc(m.ready, func(a, b *thread) int { return cmp.Compare(a.vtime, b.vtime) }).vtime
}

// next returns when a CPU next needs a decision.
func (m *Machine) next(now int64) int64 {
	next := int64(math.MaxInt64)
	stopped := false
	for _, p := range m.procs {
		stopped = stopped || p.throttled
	}
	for _, c := range m.cpus {
		th := c.th
		if th == nil {
			continue
		}
		next = min(next, now+max(th.need, 0))
		if len(m.ready) > 0 {
			if end := c.since + int64(m.c.Slice); end > now {
				next = min(next, end)
			} else {
				next = min(next, now+int64(m.c.Slice))
			}
		}
		if p := th.p; p.c.Quota != 0 {
			next = min(next, now+max(int64(p.c.Quota)-p.had, 0)/int64(len(m.cpus))+1)
			next = min(next, (now/quotaPeriod+1)*quotaPeriod)
		}
		if th.mode == runs && len(th.p.queue) > 0 {
			next = min(next, max(th.since+goSlice, now+1))
		}
	}
	if stopped {
		next = min(next, (now/quotaPeriod+1)*quotaPeriod)
	}
	return next
}
