package shard

import (
	"container/heap"
	"sync"
	"time"
)

// Alarm calls a function at a set time on the clock of a shard, which is virtual on a simulated
// network. Alarms are entries of a heap, so thousands of them cost one timer.
//
// The function is called without locks, one at a time with those of other alarms of the shard. It
// must not wait or close the shard. In a simulation the goroutine that lets time pass calls it; on
// other networks a goroutine that lives for the calls does. When the shard closes, all alarms that
// are set go off, since waiting for them has become pointless. The zero Alarm cannot be set.
type Alarm struct {
	s     *Shard
	f     func()
	at    int64
	seq   uint64
	index int // place in the heap; -1: not set
}

// NewAlarm makes an alarm for f. The alarm is not set.
func (s *Shard) NewAlarm(f func()) *Alarm {
	if f == nil {
		f = func() {}
	}
	return &Alarm{s: s, f: f, index: -1}
}

// Set makes the alarm go off once, after delay, in place of any earlier setting. It may be late by
// up to slack: alarms with the same slack go off together, which is cheaper than one after the
// other. On a closed shard Set does nothing and reports false.
func (a *Alarm) Set(delay, slack time.Duration) bool {
	if a == nil || a.s == nil {
		return false
	}
	const longest time.Duration = 1 << 60 // 36 years
	at := a.s.link.Now() + int64(min(delay, longest))
	if s := int64(min(slack, longest)); s > 0 {
		at += s - 1
		at -= at % s
	}
	c := &a.s.alarms
	c.mu.Lock()
	if c.shut {
		c.mu.Unlock()
		return false
	}
	c.remove(a)
	c.seq++
	a.at, a.seq = at, c.seq
	heap.Push(&c.heap, a)
	first := c.heap[0] == a
	c.mu.Unlock()
	if first {
		a.s.armAlarms()
	}
	return true
}

// Ring makes the alarm go off now. The lock of the shard may be held.
func (a *Alarm) Ring() {
	if a == nil || a.s == nil {
		return
	}
	c := &a.s.alarms
	c.mu.Lock()
	if c.shut {
		c.mu.Unlock()
		return
	}
	c.remove(a)
	c.seq++
	a.at, a.seq = a.s.link.Now(), c.seq
	heap.Push(&c.heap, a)
	c.mu.Unlock()
	if a.s.driven == nil { // a simulation looks at its timers after each step
		a.s.armAlarms()
	}
}

// Now returns the time on the clock of the shard, since an arbitrary start.
func (a *Alarm) Now() time.Duration {
	if a == nil || a.s == nil {
		return 0
	}
	return time.Duration(a.s.link.Now())
}

// Stop cancels the alarm. The function may be running, or about to.
func (a *Alarm) Stop() {
	if a == nil || a.s == nil {
		return
	}
	c := &a.s.alarms
	c.mu.Lock()
	first := a.index == 0
	c.remove(a)
	c.mu.Unlock()
	if first && a.s.driven != nil {
		a.s.armAlarms() // time must not pass for it
	}
}

// alarmClock holds the alarms of a shard.
type alarmClock struct {
	mu    sync.Mutex
	heap  alarmHeap
	seq   uint64
	shut  bool
	timer *time.Timer // of a shard that is not driven
	timed int64       // when it fires; 0: it does not

	running sync.Mutex // held while functions are called
}

// next returns when the first alarm goes off.
func (c *alarmClock) next() (at int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heap) == 0 {
		return 0, false
	}
	return c.heap[0].at, true
}

// armAlarms sets the timer for the first alarm.
func (s *Shard) armAlarms() {
	if s.driven != nil {
		s.mu.Lock()
		if !s.shut {
			s.noteTimers()
		}
		s.mu.Unlock()
		return
	}
	c := &s.alarms
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut || len(c.heap) == 0 || c.timed != 0 && c.timed <= c.heap[0].at {
		return
	}
	c.timed = c.heap[0].at
	left := time.Duration(max(c.timed-s.link.Now(), 0))
	if c.timer == nil {
		c.timer = time.AfterFunc(left, s.runAlarms)
	} else {
		c.timer.Reset(left)
	}
}

// runAlarms calls the functions of the alarms that are due.
func (s *Shard) runAlarms() {
	s.machine.Resumed()
	c := &s.alarms
	c.running.Lock()
	c.mu.Lock()
	c.timed = 0
	for now := s.link.Now(); len(c.heap) > 0 && (c.shut || c.heap[0].at <= now); {
		a := c.heap[0]
		c.remove(a)
		c.mu.Unlock()
		a.f()
		c.mu.Lock()
	}
	more := len(c.heap) > 0
	c.mu.Unlock()
	c.running.Unlock()
	if more || s.driven != nil {
		s.armAlarms()
	}
}

// alarmDue reports whether the first alarm is due.
func (s *Shard) alarmDue() bool {
	at, ok := s.alarms.next()
	return ok && at <= s.link.Now()
}

// endAlarms lets all alarms go off, since the shard is closed. Except in a simulation, the caller
// may hold locks that the functions want.
func (s *Shard) endAlarms() {
	c := &s.alarms
	c.mu.Lock()
	c.shut = true
	if c.timer != nil {
		c.timer.Stop()
	}
	any := len(c.heap) > 0
	c.mu.Unlock()
	switch {
	case !any:
	case s.driven != nil:
		s.runAlarms()
	default:
		go s.runAlarms()
	}
}

// alarmHeap implements heap.Interface. It orders alarms by time, then by the order in which they
// were set.
type alarmHeap []*Alarm

func (h alarmHeap) Len() int { return len(h) }

func (h alarmHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *alarmHeap) Push(x any) {
	a := x.(*Alarm)
	a.index = len(*h)
	*h = append(*h, a)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.index = -1
	return a
}

// remove takes an alarm out of the heap, if it is there. The lock is held.
func (c *alarmClock) remove(a *Alarm) {
	if a.index >= 0 {
		heap.Remove(&c.heap, a.index)
	}
}
