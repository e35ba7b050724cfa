package shard

import "sync/atomic"

// coalescer counts messages that the engine has taken and the shard has not sent yet. Messages
// posted one by one then share datagrams and system calls, each of which costs as much as dozens of
// small packets. While the goroutine of an event-driven shard is at work these wait:
//
//   - Those of which others of the queue pair are on their way. That goroutine sends them on its
//     second turn after the last post, about 2 us later. So a message by itself leaves at once, in
//     the call that posts it, and one followed by others waits at most as long as its
//     acknowledgement would.
//   - The answers of a crowd: at least crowdSize goroutines that were woken together. Each handles
//     what came; most post an answer and wait again. The answers leave when the shard's goroutine
//     runs again: after those it has woken, or at once on another processor.
//
// While threads of a program in another language have the seat, the answer of one waits if others
// may come soon: more than crowdSize, or any while few wait. They leave when no more are to come:
// see sendUnlessBusy. A thread may do something else first, and the timer of the lease then sends.
// The more such waits brought nothing, or took longer than half of standbyNs for each message or
// than hoggedNs, the fewer are tried. A few that leave together gain less than such a wait costs,
// so one that pays does not make good all that did not.
//
// A message leaves sooner with whatever else is sent, when there is enough to fill a datagram,
// before a completion queue is found empty or its poster waits (but an answer of a crowd does not
// leave then), and before that goroutine blocks.
type coalescer struct {
	bytes   int           // under the lock of the shard
	since   int64         // when the first one was posted; under the lock
	backOff               // of answers of threads; under the lock
	n       atomic.Uint32 // messages; changed under the lock of the shard
	seen    uint32        // n on the last turn of the goroutine; only it looks
	woken   atomic.Int32  // goroutines, since that one let others run
	crowd   atomic.Bool   // a crowd runs, and that goroutine is to run again
}

// add counts a message to be sent later. It returns false if enough waits to send now.
func (c *coalescer) add(now int64, bytes int) bool {
	c.bytes += bytes
	if c.bytes >= coalesceBytes || c.n.Load()+1 >= gather {
		return false
	}
	if c.n.Add(1) == 1 {
		c.since = now
	}
	return true
}

// joins counts a message that does not wait, and takes along those that do.
func (c *coalescer) joins() {
	if c.n.Load() != 0 {
		c.n.Add(1)
	}
}

// sent notes that nothing waits any more.
func (c *coalescer) sent(now int64) {
	c.bytes = 0
	switch n := c.n.Load(); {
	case n == 0:
		return
	case n == 1 || now-c.since > min(int64(n)*standbyNs/2, hoggedNs):
		c.failed()
	case n <= crowdSize:
		c.penalty /= 2
	default:
		c.paid()
	}
	c.n.Store(0)
}

// waiting reports whether there are messages to be sent.
func (c *coalescer) waiting() bool { return c.n.Load() != 0 }

// quiet reports, on a turn of the goroutine, whether messages wait and none was added since the
// last turn.
func (c *coalescer) quiet() bool {
	n := c.n.Load()
	same := n != 0 && n == c.seen
	c.seen = n
	return same
}

// runs begins the time in which the woken goroutines run.
func (c *coalescer) runs() {
	if c.woken.Load() != 0 && c.woken.Swap(0) >= crowdSize {
		c.crowd.Store(true)
	}
}

// ran ends that time, and reports whether a crowd ran and there are messages to be sent. One that
// is posted before its poster finds the crowd running is among them.
func (c *coalescer) ran() bool { return c.crowd.Load() && c.crowd.Swap(false) && c.waiting() }
