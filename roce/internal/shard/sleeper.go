package shard

import "github.com/goroce/goroce/internal/core"

// This file lends the seat to a thread of a program in another language, or to several. It sleeps
// until a descriptor can be read, in whatever call: see lease. That descriptor stands for the
// sockets, too, while the thread has the seat. So a packet wakes the thread, and its next call
// receives.
//
// The shard cannot see whether the thread sleeps there or does something else. So a lease ends when
// the thread has not looked for a period, and an idle process has no ticks. The lease was a mistake
// only if something had come and the thread was not about to get a CPU.

// SleeperSignal returns a signal that wakes nobody and says for whom packets are; nil if by is nil.
// was, an earlier one, is returned if it is for the same. From then on the shard takes the waiters
// for threads, which the kernel runs, and not for goroutines.
func (s *Shard) SleeperSignal(was *Signal, by core.Sleeper) *Signal {
	if !s.threads.Load() {
		s.threads.Store(true)
	}
	switch {
	case by == nil:
		return nil
	case was != nil && was.sleeper == by:
		return was
	}
	return &Signal{sleeper: by}
}

// LentTo reports whether the thread of such a signal has the seat.
func (s *Shard) LentTo(sig *Signal) bool {
	heir := s.heir.Load()
	return sig != nil && sig.sleeper != nil && heir.same(sig)
}

// same reports whether one thread waits for both signals.
func (s *Signal) same(t *Signal) bool {
	if s == t || s == nil || t == nil || s.sleeper == nil || t.sleeper == nil {
		return s == t
	}
	thread := s.sleeper.Thread()
	return s.sleeper == t.sleeper || thread != 0 && thread == t.sleeper.Thread()
}

// ofThread reports whether a thread of a program in another language waits for the signal.
func (s *Signal) ofThread() bool { return s != nil && s.sleeper != nil }

// returns reports whether such a thread goes back to its program to wait, which may go on posting.
func (s *Signal) returns() bool { return s.ofThread() && !s.sleeper.Inside() }

// inside reports whether such threads wait in a call that receives.
func (s *Signal) inside() bool { return s.ofThread() && s.sleeper.Inside() }

// mayReceive reports whether the goroutine or thread that waits for a signal can have the seat. A
// thread then sleeps on the sockets already. rxMu and the lock are held.
func (s *Shard) mayReceive(sig *Signal) bool {
	if sig.sleeper == nil {
		return !s.foreign.Load()
	}
	if s.pollable != nil && sig.sleeper.Watch(s, s.pollable.Descriptors()) {
		return true
	}
	s.lease.against()
	s.lease.mistake()
	return false
}

// forget has a thread that waits for the signal sleep on the sockets no longer.
func (s *Signal) forget(l core.Lender) {
	if s.ofThread() {
		s.sleeper.Forget(l)
	}
}

// dismiss takes the seat from a thread that sleeps, since the shard ends.
func (s *Shard) dismiss() {
	s.seatMu.Lock()
	there := s.seat.sleeper() != nil
	s.seatMu.Unlock()
	if there {
		s.revoke()
	}
}

// sleeper returns the thread that has the seat, if one does.
func (v *seat) sleeper() core.Sleeper {
	if v.heir == nil {
		return nil
	}
	return v.heir.sleeper
}

// outlasts has a lease of such a thread outlast a tick if something waits for a thread that is off
// its CPU: the keeper would not run earlier.
func (k *keeper) outlasts(t tick, off bool) tick {
	switch {
	case t != tickTakeOver:
		k.outlasted = 0
	case off && k.outlasted < int(sliceNs/leasePeriod):
		k.outlasted++
		return tickAgain
	}
	return t
}

// Glance receives for the thread that has the seat until nothing is left, so that what comes later
// is an edge of the descriptor. It implements [core.Lender].
func (s *Shard) Glance() {
	if !s.enter() {
		return
	}
	defer s.rxMu.Unlock()
	s.keeper.polls.Add(1)
	s.endPolledAckDelay()
	err := error(nil)
	for looks := 0; err == nil; looks++ {
		if looks == glanceLooks { // a stream, which the keeper receives beside the program
			s.mu.Lock()
			s.lease.against()
			s.mu.Unlock()
			s.leaseOver = true
			break
		}
		s.received = 0
		if _, err = s.progress(s.expectReply); s.received == 0 {
			break
		}
	}
	if err != nil || s.leaseOver || s.link.Blocked() {
		s.takeOver() // it meets the error again
	}
}

// enter begins to receive for the thread that has the seat, and takes rxMu; false if it has lost
// the seat.
func (s *Shard) enter() bool {
	for tries := 1; !s.rxMu.TryLock(); tries++ {
		if heir := s.heir.Load(); heir == nil || heir.inside() {
			return false // the receiver wakes the thread
		}
		if s.machine.Gosched(); tries%PollYield == 0 {
			s.machine.Nap(standbyNs)
		}
	}
	if !s.Lent() || s.Closed() {
		s.rxMu.Unlock()
		return false
	}
	s.pollable.Attend()
	return true
}

// Await receives as sit does, but leaves the sleep to the thread. It implements [core.Lender].
func (s *Shard) Await(done func() bool, slept bool) {
	if !s.enter() {
		return
	}
	defer s.rxMu.Unlock()
	s.sendUnlessBusy()
	now := s.link.Now()
	s.pace.lent = true
	if slept {
		s.pace.woke(now)
	} else {
		s.pace.begin(now)
	}
	for look := slept || s.pace.looks(s.spin) || s.pace.shares(s.spin) && s.shareCPU(); look &&
		s.Lent() && !s.Closed(); {
		if s.machine.CPUs() == 1 { // else other threads of the runtime run goroutines that are ready
			s.letRun(now)
		}
		s.keeper.polls.Add(1)
		busy, err := s.progress(s.expectReply)
		began := now
		now = s.link.Now()
		if err != nil || s.leaseOver || s.link.Blocked() {
			s.takeOver() // it meets the error again
			return
		}
		if s.received < rxBatch && done() { // what is left of a full batch wakes nobody
			s.pace.looked(now, busy, s.received, s.spin)
			return
		}
		look = s.lookAgain(now, busy)
		s.sendUnlessBusy()
		if look && !busy {
			s.pause(now, now-began)
		}
	}
}

// pause waits after a look for as long as the look took: each look takes the lock of the socket,
// which the peer wants. The pause is short if the look lost its CPU, and so took long for that.
func (s *Shard) pause(now, took int64) {
	for reads := 0; reads < minLooks && s.link.Now()-now < took; reads++ {
	}
}

// Recall takes the seat back. It implements [core.Lender].
func (s *Shard) Recall() { s.takeOver() }

// UnattendedBy is Unattended, unless the thread that waits for a signal receives.
func (s *Shard) UnattendedBy(sig *Signal) {
	if heir := s.heir.Load(); heir == nil || heir.sleeper == nil || !heir.same(sig) {
		s.Unattended()
	}
}
