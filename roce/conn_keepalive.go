package roce

import (
	"context"
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// DefaultKeepAlive is the time between two probes of an idle connection; package net has the same
// default.
const DefaultKeepAlive = 15 * time.Second

// startKeepAlive starts the probes. A simulation that its waiting callers drive has none: its time
// is not that of the timers.
func (c *Conn) startKeepAlive() {
	if c.cfg.KeepAlive > 0 && (c.s.Ticks()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keep = c.s.NewAlarm(c.probe)
		c.keepLater()
	}
}

// keepLater sets the time of the next probe, with some slack, so that the probes of many
// connections leave together. c.mu is held.
func (c *Conn) keepLater() {
	c.keep.Set(c.cfg.KeepAlive, min(c.cfg.KeepAlive/16, time.Second))
}

// probe posts an empty RDMA WRITE. It changes no memory and needs no key (IBTA C9-88: a request for
// no bytes is not checked), and the peer's adapter acknowledges it without its program. If no
// acknowledgement comes, the queue pair fails as with any other request.
func (c *Conn) probe() {
	c.mu.Lock()
	defer c.unlock()
	c.drain(c.polled)
	if c.closed || c.flushed {
		return
	}
	if c.posted == c.loose { // otherwise the outstanding requests are probe enough
		c.nextOp++
		wr := verbs.SendWR{ID: connOp | c.nextOp&(connOp-1), Opcode: verbs.WRWrite,
			Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte{}}
		if c.qp.PostSend(&wr) == nil { // on failure the application's own requests fill the queue
			c.posted++
			c.ops[wr.ID] = &Pending{c: c, posted: 1 + c.loose}
			c.loose = 0
			c.traffic.sent(&wr)
		}
	}
	c.keepLater()
}

// Wait waits until the peer closes the connection, and then returns nil. It serves a side that only
// lends its memory. Messages stay queued. Any other error is that of the context, or of what ended
// the connection.
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
