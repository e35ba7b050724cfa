package shard

import "sync/atomic"

// crowd notes when the goroutine of a shard has woken several others, and lets them run: each will
// handle what came, most will post an answer, and then wait again. The answers leave
// together, when the goroutine runs again, which is after those that it has woken, or on
// another processor at once. One by one, each is a system call and a datagram.
//
// Of fewer than crowdSize none waits for another: they leave by the rules of coalescer.
type crowd struct {
	woken atomic.Int32 // since the goroutine let others run
	out   atomic.Bool  // they run, and the goroutine is to run again
	left  atomic.Bool  // something was left to the goroutine
}

// woke counts one that was woken.
func (c *crowd) woke() { c.woken.Add(1) }

// goes begins the time in which they run. It reports whether there are any.
func (c *crowd) goes() bool {
	if c.woken.Load() == 0 {
		return false
	}
	if c.woken.Swap(0) >= crowdSize {
		c.out.Store(true)
	}
	return true
}

// returns ends it. It reports whether there is something to send.
func (c *crowd) returns() bool {
	if !c.out.Load() {
		return false
	}
	c.out.Store(false)
	return c.left.Swap(false)
}

// leave leaves to the goroutine what was posted. It returns false if that is not about to run.
func (c *crowd) leave() bool {
	if !c.out.Load() {
		return false
	}
	c.left.Store(true)
	// If it has returned meanwhile it may not have seen that.
	return c.out.Load()
}
