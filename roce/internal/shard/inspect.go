package shard

import (
	"runtime"

	"github.com/goroce/goroce/roce/link"
)

// This file is for the tests of the packages above, which see the transmit scheduler at
// work on real objects.

// AckDelayed reports whether an acknowledgement is kept back.
func (s *Shard) AckDelayed() bool { return s.ack.delayed() }

// AckDelays returns how many acknowledgements were kept back.
func (s *Shard) AckDelays() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ack.count
}

// ForgetVainDelays lets the next acknowledgement be kept back, whatever earlier delays brought.
func (s *Shard) ForgetVainDelays() {
	s.mu.Lock()
	s.ack.skip = 0
	s.mu.Unlock()
}

// EagerPolls returns how many polls found the goroutine of the shard at work, since it took over.
func (s *Shard) EagerPolls() int { return int(s.keeper.eager.Load()) }

// Limits of the scheduler, for tests that count datagrams.
const (
	Gather        = gather
	CoalesceBytes = coalesceBytes
	RxBatch       = rxBatch
)

// Step lets simulated time pass to the next event, and reports false if there is none. It is only
// for a driven shard.
func (s *Shard) Step() bool { return s.driven.Step() }

// ChangePort acts as a link that reports a state of its interfaces.
func (s *Shard) ChangePort(p link.PortState) { s.portChanged(p) }

// NeverTakeOver keeps the goroutine of the shard from receiving. When it returns, the shard
// receives only while a goroutine polls.
func (s *Shard) NeverTakeOver() {
	s.keeper.off.Store(true)
	s.keeper.mu.Lock() // what has begun to take over has done so
	background := s.Background()
	s.keeper.mu.Unlock()
	for background {
		s.polledIdle()
		runtime.Gosched()
		background = s.Background()
	}
	for s.standby.on.Load() {
		runtime.Gosched()
	}
}

// Receiving runs f while nobody receives.
func (s *Shard) Receiving(f func()) {
	s.rxMu.Lock()
	defer s.rxMu.Unlock()
	f()
}

// Missed acts as if the program had missed a packet while it looked at memory.
func (s *Shard) Missed() { s.linger.missed() }

// Proof returns how long such a program must poll, in ns; 0 if it never missed a packet.
func (s *Shard) Proof() int64 { return s.keeper.attention.proof.Load() }

// NeverProven forgets how long such a program has polled.
func (s *Shard) NeverProven() { s.keeper.attention.begin() }

// NeverMissed forgets that packets were missed.
func (s *Shard) NeverMissed() { s.keeper.attention.proof.Store(0) }

// Lend makes the keeper lend the seat to the goroutine that waits for sig, with the next packet
// that wakes it.
func (s *Shard) Lend(sig *Signal) {
	s.mu.Lock()
	s.lease.last, s.lease.turns = sig, maxBackOff*leaseTurns
	s.mu.Unlock()
}
