package rsocket

import (
	"net"
	"time"
)

// SetKeepAlive sets the time after which an idle connection is probed, in place of
// [Config.KeepAlive]; 0 and negative send no probes. A probe is an empty RDMA WRITE, which the
// peer's adapter acknowledges without its program taking part. Without an answer the connection
// breaks, and Read and Write return an error that matches syscall.ETIMEDOUT.
//
// Probes are up to a sixteenth of the time late, at most 1 s, so that those of many connections are
// sent together.
func (c connCore) SetKeepAlive(d time.Duration) error {
	if !c.valid() {
		return errInvalid
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return opError("set", c.laddr, c.raddr, net.ErrClosed)
	}
	c.keepGap = min(max(d, 0), maxKeepAlive)
	c.heard = c.alarm.Now()
	c.alarm.Stop()
	c.rearm(c.keepGap)
	return nil
}

// rearm sets the alarm for the next probe. mu is held.
func (c *Conn) rearm(after time.Duration) {
	if c.keepGap > 0 {
		c.alarm.Set(after, min(c.keepGap/16, time.Second))
	}
}

// rang is called by the alarm of the connection.
func (c *Conn) rang() {
	c.mu.Lock()
	orphan := c.orphan
	c.mu.Unlock()
	if orphan {
		c.lingers()
	} else {
		c.probe()
	}
}

// probe sends a probe if the peer has been silent for long enough and nothing is on its way, which
// would be a probe as well.
func (c *Conn) probe() {
	c.mu.Lock()
	defer c.leave()
	if c.closed {
		return // it was just due: the objects that look needs are being freed
	}
	c.look() // an idle application leaves it to us
	if c.err != nil || c.s.over() || c.keepGap <= 0 {
		return
	}
	left := c.heard + c.keepGap - c.alarm.Now()
	if left <= 0 {
		left = c.keepGap
		c.shrinkSend()
		if !c.s.awaited() {
			posted := c.wmu.TryLock()
			c.s.keepAlive(posted, &c.cmsg)
			c.postControl()
			if posted {
				c.wmu.Unlock()
			}
		}
	}
	c.rearm(left)
}
