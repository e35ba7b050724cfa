package rsocket

import (
	"net"
	"time"
)

// SetKeepAlive sets the time between probes; 0 sends none. A probe is an empty
// RDMA WRITE, which the peer's adapter acknowledges without its program taking
// part. Without an answer the connection is broken, with an error that matches
// syscall.ETIMEDOUT.
func (c *Conn) SetKeepAlive(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return opError("set", c.laddr, c.raddr, net.ErrClosed)
	}
	c.keepGap = d
	if c.keep != nil {
		c.keep.Stop()
		c.keep = nil
	}
	if d > 0 {
		c.keep = time.AfterFunc(d, c.probe)
	}
	return nil
}

// probe sends a probe.
func (c *Conn) probe() {
	c.mu.Lock()
	defer c.leave()
	if c.closed {
		return // it was due just then: what look would need is being given back
	}
	c.look() // an application that makes no calls leaves it to us
	if c.err != nil || c.s.byeRecvd || c.keepGap <= 0 {
		return
	}
	if c.s.canControl() {
		c.s.keepAlive(&c.cmsg)
		c.postControl()
	}
	if c.keep != nil {
		c.keep.Reset(c.keepGap)
	}
}
