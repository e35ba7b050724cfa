package shard

import "sync/atomic"

// upcalls are calls that a shard makes without its lock: up to the first shard of the device, whose
// lock comes before its own.
type upcalls struct {
	now     []func() // under the lock: to be made when it is given back
	before  []func() // under rxMu: those that were made last, for the memory
	handles bool     // under the lock: packets are being handled, and calls made afterwards

	// The others wait until all is handled that had come when they were asked for.
	wanted atomic.Bool // there are some in asked
	asked  []func()    // under the lock
	marked []func()    // under rxMu: asked for before the last look at the link began
}

// Upcall has f called soon, without the lock. It is for consequences of a packet; the lock is held.
func (s *Shard) Upcall(f func()) { s.up.now = append(s.up.now, f) }

// Unlocked calls f, which wakes a thread of the program. While packets are handled that is when the
// lock is given back: the thread may run at once, in place of the caller, and its next call wants
// the lock. The lock is held.
func (s *Shard) Unlocked(f func()) {
	if s.up.handles {
		s.Upcall(f)
		return
	}
	f()
}

// AfterArrivals has f called, without locks of the caller, after all packets that had arrived at
// the shard by now are handled. Another shard uses it when it learns of a queue pair of this one:
// the packets of that queue pair may have arrived earlier and still wait in this link. It reports
// false and does nothing in a simulation, where each packet is handled on arrival.
func (s *Shard) AfterArrivals(f func()) bool {
	if s.driven != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up.asked = append(s.up.asked, f)
	s.up.wanted.Store(true)
	if s.blocked {
		s.blocked = false
		s.link.Wake()
	}
	return true
}

// beginUpcalls notes, before a look at the link, which calls wait for that look. rxMu is held.
func (s *Shard) beginUpcalls() {
	if !s.up.wanted.Load() {
		return
	}
	s.mu.Lock()
	s.up.marked = append(s.up.marked, s.up.asked...)
	s.up.asked = nil
	s.up.wanted.Store(false)
	s.mu.Unlock()
	s.marker.Mark() // timers that wait for a mark, too, now wait for this one
}

// makeUpcalls makes the calls that are due. rxMu is held.
func (s *Shard) makeUpcalls(now []func()) {
	for _, f := range now {
		f()
	}
	if now != nil {
		clear(now)
		s.up.before = now[:0]
	}
	if len(s.up.marked) == 0 || !s.marker.CaughtUp() {
		return
	}
	due := s.up.marked
	s.up.marked = nil
	for _, f := range due {
		f()
	}
}

// takeUpcalls returns the calls to make after the caller gives the lock back. The lock is held.
func (s *Shard) takeUpcalls() []func() {
	now := s.up.now
	s.up.now, s.up.before, s.up.handles = s.up.before, nil, false
	return now
}
