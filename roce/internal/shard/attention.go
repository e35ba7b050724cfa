package shard

import "sync/atomic"

// attention records how a program in another language polls, to decide whether the shard's
// goroutine may leave receiving to it.
//
// Such a program reads its completions from memory and calls [Shard.Progress] now and then. It may
// also watch memory that peers write, which we cannot see, or do something else. So it must first
// prove that it polls, by the total time between closely spaced calls. Pauses do not count, since
// the scheduler makes some, but a long one starts the proof anew. The time required doubles when
// packets are found that nobody took, and halves when the program has polled on.
type attention struct {
	last   atomic.Int64 // the last call
	polled atomic.Int64 // the time between calls that followed each other closely, ns
	proof  atomic.Int64 // how long that has to be
}

// called notes a call while the goroutine is at work, and reports whether the goroutine is to give
// way.
func (a *attention) called(now int64) bool {
	switch gap := now - a.last.Swap(now); {
	case gap > int64(patience):
		a.polled.Store(0)
	case gap <= attentionGapNs:
		a.polled.Add(gap)
	}
	return a.polled.Load() >= max(a.proof.Load(), standbyNs)
}

// begin forgets the calls so far, because the goroutine is at work again.
func (a *attention) begin() { a.polled.Store(0) }

// missed notes that packets waited and nobody took them.
func (a *attention) missed() {
	a.proof.Store(min(2*max(a.proof.Load(), standbyNs), missedProofNs))
}

// kept notes that the program has polled for long. A program that never missed a packet has nothing
// to make good.
func (a *attention) kept() {
	if now := a.proof.Load(); now != 0 {
		a.proof.Store(max(now/2, standbyNs))
	}
}
