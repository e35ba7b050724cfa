package transport

import (
	"sync"
	"sync/atomic"
)

// A device may have several engines, each on its own core, which share the table of memory. One
// engine makes a CQ or SRQ and is its home. QPs of another engine may use it after Share; from then
// on every change takes the object's own lock. Unshared objects cost no lock.

// shared is the part of a CQ or an SRQ that lets several engines use it.
type shared struct {
	on atomic.Bool // never off again
	mu sync.Mutex  // held during changes to the object, if on
	// users counts the QP work queues that use the object; noUsers after it was destroyed.
	users atomic.Int64
}

const noUsers = -1

// Share lets QPs of other engines use the object. The shell calls it before [Engine.CreateQP], with
// the locks of the home and the other engine held. Further calls do nothing.
func (s *shared) Share() {
	if !s.on.Load() {
		s.on.Store(true)
	}
}

// lock takes the object's lock if it is shared, and reports whether it did.
func (s *shared) lock() bool {
	if !s.on.Load() {
		return false
	}
	s.mu.Lock()
	return true
}

// unlock releases the lock if locked, which is the result of lock.
func (s *shared) unlock(locked bool) {
	if locked {
		s.mu.Unlock()
	}
}

// use adds a user. It returns false if the object is destroyed.
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

// leave removes a user.
func (s *shared) leave() { s.users.Add(-1) }

// end destroys the object if it has no users. Otherwise it returns their number and false.
func (s *shared) end() (users int, ok bool) {
	if s.users.CompareAndSwap(0, noUsers) {
		return 0, true
	}
	return int(s.users.Load()), false
}

// destroyed reports whether end has succeeded.
func (s *shared) destroyed() bool { return s.users.Load() < 0 }

// usableBy says why QPs of e cannot use an object of home; it returns "" if they can.
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
