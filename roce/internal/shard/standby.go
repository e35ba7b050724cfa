package shard

import (
	"sync/atomic"
	"time"
)

// standby looks after a shard that a program polls by [Shard.Progress]. Its goroutine looks every
// 50 us at first, then ever more rarely while the program goes on polling. It takes the packets
// that the program leaves, for example while the program watches memory that only the device can
// write. When it has nothing more to do, the timer of the keeper is enough.
type standby struct {
	on    atomic.Bool   // the goroutine exists
	given atomic.Uint32 // how often the goroutine of the shard gave way
}

// standBy starts the goroutine, if there is none. The caller may hold the lock of the shard.
func (s *Shard) standBy() {
	if !s.standby.on.CompareAndSwap(false, true) {
		return
	}
	go func() {
		s.machine.Resumed()
		k := &s.keeper
		k.mu.Lock()
		if k.over {
			k.mu.Unlock()
			return
		}
		k.running.Add(1)
		k.mu.Unlock()
		defer k.running.Done()
		given := s.standby.given.Load()
		s.lookAfter()
		s.standby.on.Store(false)
		if s.standby.given.Load() != given {
			s.standBy() // it was asked for meanwhile
		}
	}()
}

// activity counts what a program has done so far. A program that posts is at work as well: it will
// look for completions when it has posted what it has.
type activity struct{ polls, posts uint32 }

// looks reports whether the program has done something since the last look.
func (a *activity) looks(polls, posts uint32) bool {
	before := *a
	*a = activity{polls, posts}
	return before != *a
}

// notePost counts a call that posts.
func (s *Shard) notePost() {
	if s.foreign.Load() {
		s.keeper.postCalls.Add(1)
	}
}

// lookAfter is standby's goroutine.
func (s *Shard) lookAfter() {
	k := &s.keeper
	var seen activity
	var put putOff
	seen.looks(k.polls.Load(), k.postCalls.Load())
	put.looks(s, int(s.poller.thread.Load()))
	pause, idle := time.Duration(standbyNs), time.Duration(0)
	for {
		s.machine.Nap(pause)
		if s.Closed() || s.Background() || k.off.Load() {
			return
		}
		thread := int(s.poller.thread.Load())
		off := put.looks(s, thread) && s.machine.ThreadReady(thread)
		if seen.looks(k.polls.Load(), k.postCalls.Load()) {
			idle = 0
		} else if off {
			s.receiveForNobody()
		} else if idle += pause; s.receiveForNobody() {
			k.attention.missed()
			s.linger.missed()
			s.takeOver()
			return
		} else if idle >= patience {
			s.takeOver() // it sleeps until something comes
			return
		}
		if pause *= 2; pause > patience {
			if idle == 0 {
				k.attention.kept()
			}
			return // the timer of the keeper goes on
		}
	}
}

// receiveForNobody receives for a program that does not, and reports whether there was a packet or
// an error.
func (s *Shard) receiveForNobody() bool {
	if !s.rxMu.TryLock() {
		return false // the program receives after all
	}
	defer s.rxMu.Unlock()
	s.received = 0
	_, err := s.progress(Never)
	return err != nil || s.received > 0 // the goroutine that takes over meets the error again
}

// ServeForeign notes that a program in another language uses the shard and looks at memory without
// a call.
func (s *Shard) ServeForeign() {
	if s.mode != Driven {
		s.foreign.Store(true)
		if s.Lent() {
			s.takeOver()
		}
	}
}

// Progress is Poll for such a program, when it has found nothing.
func (s *Shard) Progress() {
	k, now := &s.keeper, s.link.Now()
	s.poller.polls(s.machine, now)
	if s.Polled() {
		s.Poll(Always)
		if s.machine.CPUs() == 1 {
			s.GiveWay()
		}
		return
	}
	s.SendPosted()
	if s.mode == Driven {
		return
	}
	if (k.attention.called(now) || s.mode == Polling && k.attention.proof.Load() == 0) && k.wanted.CompareAndSwap(false, true) {
		s.link.Wake()
	}
}
