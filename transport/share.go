package transport

import (
	"sync"
	"sync/atomic"
)

// A device may have several engines, which share the table of memory, and each may run on a core of
// its own. A CQ or an SRQ is made by one of them, its home. QPs of another engine may use it
// once it is shared: from then on whoever changes it takes its own lock. What is not
// shared costs no lock.

// shared is the part of a CQ or an SRQ that lets several engines use it.
type shared struct {
	on atomic.Bool // never off again
	mu sync.Mutex  // held by whoever changes the object, if it is on
	// users counts the QP work queues that use the object; noUsers once it was destroyed.
	users atomic.Int64
}

const noUsers = -1

// Share lets QPs of other engines use the object. The shell calls it with the locks of the
// home and of the other engine held, before [Engine.CreateQP]. Calling it again does nothing.
func (s *shared) Share() {
	if !s.on.Load() {
		s.on.Store(true)
	}
}

// lock takes the object's lock if it is shared, and says so.
func (s *shared) lock() bool {
	if !s.on.Load() {
		return false
	}
	s.mu.Lock()
	return true
}

// unlock is given what lock returned.
func (s *shared) unlock(locked bool) {
	if locked {
		s.mu.Unlock()
	}
}

// use notes one more user. It fails if the object is destroyed.
func (s *shared) use() bool {
	for {
		n := s.users.Load()
		if n < 0 {
			return false
		}
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave undoes one use.
func (s *shared) leave() { s.users.Add(-1) }

// end destroys the object if it has no users; others get false, and how many there are.
func (s *shared) end() (users int, ok bool) {
	if s.users.CompareAndSwap(0, noUsers) {
		return 0, true
	}
	return int(s.users.Load()), false
}

// destroyed reports whether end has succeeded.
func (s *shared) destroyed() bool { return s.users.Load() < 0 }

// usableBy says why QPs of e cannot use an object whose home is another engine; empty if they can.
func (s *shared) usableBy(e, home *Engine) string {
	switch {
	case s.destroyed():
		return "destroyed"
	case e == home:
		return ""
	case e.cfg.Mem != home.cfg.Mem:
		return "of another device"
	case !s.on.Load():
		return "of another engine, and not shared"
	}
	return ""
}
