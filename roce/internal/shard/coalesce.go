package shard

import "sync/atomic"

// coalescer counts messages that the engine has taken and the shard has not sent yet. Messages
// posted one by one then share datagrams and system calls, each of which costs as much as dozens of
// small packets.
//
// A message waits only if others of its queue pair are on their way, and only while the goroutine
// of an event-driven shard is at work. That goroutine sends what waits on its second turn after the
// last post, about 2 us later. A message leaves sooner with whatever else is sent, when there is
// enough to fill a datagram, before a completion queue is found empty (but see crowd), and before
// the goroutine blocks. So a message by itself leaves at once, in the call that posts it, and one
// followed by others waits at most as long as its acknowledgement would.
type coalescer struct {
	bytes int           // under the lock of the shard
	n     atomic.Uint32 // messages; changed under the lock of the shard
	seen  uint32        // n on the last turn of the goroutine; only it looks
}

// add counts a message to be sent later. It returns false if enough waits to send now.
func (c *coalescer) add(bytes int) bool {
	c.bytes += bytes
	if c.bytes >= coalesceBytes || c.n.Load()+1 >= gather {
		return false
	}
	c.n.Add(1)
	return true
}

// leave counts a message that the goroutine sends later, however much waits.
func (c *coalescer) leave() { c.n.Add(1) }

// sent notes that nothing waits any more.
func (c *coalescer) sent() {
	c.bytes = 0
	if c.n.Load() != 0 {
		c.n.Store(0)
	}
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
