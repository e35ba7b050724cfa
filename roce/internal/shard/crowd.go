package shard

import "sync/atomic"

// crowd collects the answers of goroutines that the shard's goroutine has woken together. Each
// handles what came; most post an answer and wait again. Sent one by one, each answer is a system
// call and a datagram. So the answers leave together when the shard's goroutine runs again: after
// those it has woken, or at once on another processor.
//
// Answers of fewer than crowdSize goroutines do not wait: they leave by the rules of coalescer.
type crowd struct {
	woken atomic.Int32 // since the goroutine let others run
	out   atomic.Bool  // they run, and the goroutine is to run again
	left  atomic.Bool  // something was left to the goroutine
}

// woke counts a goroutine that was woken.
func (c *crowd) woke() { c.woken.Add(1) }

// goes begins the time in which the woken goroutines run.
func (c *crowd) goes() {
	if c.woken.Load() != 0 && c.woken.Swap(0) >= crowdSize {
		c.out.Store(true)
	}
}

// returns ends that time. It reports whether there is something to send.
func (c *crowd) returns() bool {
	if !c.out.Load() {
		return false
	}
	c.out.Store(false)
	return c.left.Swap(false)
}

// leave leaves a post to the goroutine. It returns false if the goroutine is not about to run.
func (c *crowd) leave() bool {
	if !c.out.Load() {
		return false
	}
	c.left.Store(true)
	// If the goroutine has returned meanwhile, it may not have seen left.
	return c.out.Load()
}
