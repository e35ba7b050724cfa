package shard

import "sync/atomic"

// attention is what is known of a program in another language, which reads its completions from
// memory, and calls [Shard.Progress] now and then. It may also look at memory that peers write,
// which nobody sees, or do something else. So polling has to prove itself before the goroutine of
// the shard leaves the work to it, by the time that it has taken so far: pauses do not count, since
// the scheduler makes some, but a long one begins anew. That time doubles when packets are found
// that nobody took, and halves when the program has polled on.
type attention struct {
	last   atomic.Int64 // the last call
	polled atomic.Int64 // the time between calls that followed each other closely, ns
	proof  atomic.Int64 // how long that has to be
}

// called notes a call while the goroutine is at work, and reports whether that is to give way.
func (a *attention) called(now int64) bool {
	switch gap := now - a.last.Swap(now); {
	case gap > int64(patience):
		a.polled.Store(0)
	case gap <= attentionGapNs:
		a.polled.Add(gap)
	}
	return a.polled.Load() >= max(a.proof.Load(), standbyNs)
}

// begin forgets the calls so far: the goroutine is at work again.
func (a *attention) begin() { a.polled.Store(0) }

// missed notes that packets waited and nobody took them.
func (a *attention) missed() {
	a.proof.Store(max(min(2*max(a.proof.Load(), standbyNs), missedProofNs), a.proof.Load()))
}

// kept notes that the program has polled for long. A program that has never missed anything
// has nothing to make good.
func (a *attention) kept() {
	if now := a.proof.Load(); now != 0 {
		a.proof.Store(max(now/2, standbyNs))
	}
}

// starved notes that the program has no CPU to poll for long.
func (a *attention) starved() { a.proof.Store(starvedProofNs) }
