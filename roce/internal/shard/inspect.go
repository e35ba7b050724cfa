package shard

import (
	"math"
	"runtime"

	"github.com/goroce/goroce/roce/link"
)

// This file is for the tests of the packages above, which see the transmit scheduler at
// work on real objects.

// AckDelayed reports whether an acknowledgement is kept back.
func (s *Shard) AckDelayed() bool { return s.ack.delayed() }

// AckDelays returns how often one was kept back.
func (s *Shard) AckDelays() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ack.count
}

// ForgetVainDelays has the next acknowledgement be kept back, whatever became of those
// before.
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

// Step lets simulated time pass to the next thing that happens, and reports false if
// nothing will. Only for a shard that is driven.
func (s *Shard) Step() bool { return s.driven.Step() }

// ChangePort has the link tell of its interfaces.
func (s *Shard) ChangePort(p link.PortState) { s.portChanged(p) }

// NeverTakeOver leaves a shard that is meant to be polled to those who poll: when it returns
// nothing is received any more unless somebody does.
func (s *Shard) NeverTakeOver() {
	s.keeper.off.Store(true)
	s.keeper.mu.Lock() // what has begun to take over has done so
	background := s.Background()
	s.keeper.mu.Unlock()
	for background {
		s.pollInVain()
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

// Missed has the shard know a program that looks at memory after its requests are complete.
func (s *Shard) Missed() { s.linger.missed() }

// Held returns how many messages were held for a program in another language, and how many are to
// leave at once since others were held in vain.
func (s *Shard) Held() (held uint64, skip uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sender.holds.Load(), s.hold.skip
}

// Proof returns for how long such a program has to poll, ns; 0 if it has never missed anything.
func (s *Shard) Proof() int64 { return s.keeper.attention.proof.Load() }

// NeverProven forgets how long such a program has polled.
func (s *Shard) NeverProven() { s.keeper.attention.begin() }

// NeverMissed forgets that packets were missed.
func (s *Shard) NeverMissed() { s.keeper.attention.proof.Store(0) }

// Starve has the program starve for ever.
func (s *Shard) Starve() { s.starved.until.Store(math.MaxInt64) }

// Lend has the keeper lend the seat to the goroutine that waits for a signal, with the next packet
// that wakes it.
func (s *Shard) Lend(sig *Signal) {
	s.mu.Lock()
	s.lease.last, s.lease.turns = sig, maxLeaseTurns
	s.mu.Unlock()
}
