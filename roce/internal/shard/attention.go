package shard

import "sync/atomic"

// attention is what is known of a program in another language, which reads its completions from memory, and
// calls [Shard.Progress] now and then. It may also look at memory that peers write, which nobody sees, or do something
// else. So polling has to prove itself before the goroutine of the shard leaves the work to it: calls without
// a gap for a time, which doubles when packets are found that nobody took, and halves when the program has polled on.
type attention struct {
	last  atomic.Int64 // the last call
	since atomic.Int64 // the first of those without a gap
	proof atomic.Int64 // how long there must be none, ns
}

// called notes a call while the goroutine is at work, and reports whether that is to give way.
func (a *attention) called(now int64) bool {
	if now-a.last.Load() > attentionGapNs || a.since.Load() == 0 {
		a.since.Store(now)
	}
	a.last.Store(now)
	return now-a.since.Load() >= max(a.proof.Load(), minProofNs)
}

// begin forgets the calls so far: the goroutine is at work again.
func (a *attention) begin() { a.since.Store(0) }

// missed notes that packets waited and nobody took them.
func (a *attention) missed() { a.proof.Store(min(2*max(a.proof.Load(), minProofNs), maxProofNs)) }

// kept notes that the program has polled for long.
func (a *attention) kept() { a.proof.Store(max(a.proof.Load()/2, minProofNs)) }

// starved notes that the program has no CPU to poll for long.
func (a *attention) starved() { a.proof.Store(maxProofNs) }
