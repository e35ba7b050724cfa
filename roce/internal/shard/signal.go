package shard

import (
	"sync/atomic"

	"github.com/goroce/goroce/internal/core"
)

// Signal wakes one goroutine at a time; a signal with nobody waiting is kept.
type Signal struct {
	set chan struct{}
	// seat is the shard on which the goroutine that waits for the signal receives meanwhile.
	seat atomic.Pointer[Shard]
	// sleeper waits in place of a goroutine; nil: a goroutine does.
	sleeper core.Sleeper
}

// NewSignal makes a signal.
func NewSignal() *Signal { return &Signal{set: make(chan struct{}, 1)} }

// Set wakes a goroutine. A nil signal, of an object that was never made, wakes none.
func (s *Signal) Set() {
	if s == nil {
		return
	}
	select {
	case s.set <- struct{}{}:
	default:
	}
	s.rouse()
}

// rouse makes a goroutine that receives while it waits look again for its signal: it sleeps in the
// link, and sees no channels there.
func (s *Signal) rouse() {
	// The order matters: that goroutine sets seat before it checks the signal.
	if seat := s.seat.Load(); seat != nil {
		seat.rouse()
	}
}

// C returns the channel for a goroutine that waits for the signal and never receives.
func (s *Signal) C() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.set
}

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
