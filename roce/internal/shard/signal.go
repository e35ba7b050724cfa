package shard

import "sync/atomic"

// Signal wakes one goroutine at a time; a signal with nobody waiting is kept.
type Signal struct {
	set chan struct{}
	// leads is the shard that the goroutine which waits for the signal receives for.
	leads atomic.Pointer[Shard]
}

// NewSignal makes a signal.
func NewSignal() *Signal { return &Signal{set: make(chan struct{}, 1)} }

// Set wakes a goroutine. That of an object that nobody made is nil, and wakes none.
func (s *Signal) Set() {
	if s == nil {
		return
	}
	select {
	case s.set <- struct{}{}:
	default:
	}
	s.Rouse()
}

// Rouse has the goroutine that waits for the signal look again why it waits, if it receives meanwhile: it sees no channels then.
func (s *Signal) Rouse() {
	// In this order: who leads says so before it looks whether the signal is set, or its context over.
	if l := s.leads.Load(); l != nil {
		l.rouse()
	}
}

// C is for who waits for the signal and never receives for itself.
func (s *Signal) C() <-chan struct{} { return s.set }

// isSet reports whether the next wait for the signal returns at once.
func (s *Signal) isSet() bool { return len(s.set) != 0 }

// take takes the signal, if it is set.
func (s *Signal) take() bool {
	select {
	case <-s.set:
		return true
	default:
		return false
	}
}
