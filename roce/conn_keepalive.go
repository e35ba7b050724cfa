package roce

import (
	"context"
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// DefaultKeepAlive is the time between two probes of an idle connection: that
// of package net.
const DefaultKeepAlive = 15 * time.Second

// startKeepAlive begins to probe. There are no probes in a simulation that is driven by
// those who wait: its time is not that of the timers.
func (c *Conn) startKeepAlive() {
	if c.cfg.KeepAlive > 0 && (c.s.Ticks()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keep = c.s.NewAlarm(c.probe)
		c.keepLater()
	}
}

// keepLater sets the time of the next probe: a little later, so that those of many
// connections are sent together. c.mu is held.
func (c *Conn) keepLater() {
	c.keep.Set(c.cfg.KeepAlive, min(c.cfg.KeepAlive/16, time.Second))
}

// probe writes nothing to the peer's memory: an empty RDMA WRITE needs no key
// (IBTA C9-88: it is not checked for a request for no bytes), and is acknowledged by the
// peer's adapter without its program taking part. If nobody acknowledges, the
// queue pair fails as with any other request.
func (c *Conn) probe() {
	c.mu.Lock()
	defer c.unlock()
	c.drain(c.polled)
	if c.closed || c.flushed {
		return
	}
	if c.posted == 0 { // what is on its way is probe enough
		c.nextOp++
		wr := verbs.SendWR{ID: connOp | c.nextOp&(connOp-1), Opcode: verbs.WRWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte{}}
		if c.qp.PostSend(&wr) == nil { // or the application's own requests are on their way
			c.ops[wr.ID] = &Pending{c: c}
			c.posted++
			c.traffic.sent(&wr)
		}
	}
	c.keepLater()
}

// Wait waits until the peer has closed the connection; then it returns nil. It
// is for a side that has nothing else to do than to lend its memory. Messages
// stay where they are. The error is that of the context, or what else ended the
// connection.
func (c *Conn) Wait(ctx context.Context) error {
	if err := c.begin(ctx, forMessage); err != nil {
		return c.opError("wait", err)
	}
	err := c.wait(ctx, forMessage, func() bool { return false })
	if err == verbs.ErrPeerClosed {
		return nil
	}
	return c.opError("wait", err)
}
