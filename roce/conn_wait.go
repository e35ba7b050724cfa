package roce

import (
	"context"
	"io"
	"slices"
)

// IDs of the work requests of a Conn. What the application posts itself stays
// below 1<<62.
const (
	connOp   uint64 = 1 << 62 // send requests: number of the Pending
	connRecv uint64 = 1 << 63 // receives: index of the buffer
)

// begin returns an error if a call that takes a context has nothing to begin with.
func (c *Conn) begin(ctx context.Context) error {
	if c.d.unmade() {
		return errZero
	}
	return ctx.Err()
}

// wait returns when ready, which is called with c.mu held, reports true, or
// with the error that makes waiting useless. One of the goroutines that wait, the leader, sleeps on the completion queue; the
// others sleep until it has taken something in or leaves.
func (c *Conn) wait(ctx context.Context, ready func() bool) error {
	if c.d.unmade() {
		return errZero
	}
	c.d.turn()
	c.mu.Lock()
	defer c.mu.Unlock()
	var own signal
	for tries := 0; ; tries++ {
		c.drain()
		if c.closed {
			return ErrClosed
		}
		if ready() {
			return nil
		}
		if c.flushed {
			return c.why()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.leading {
			if own == nil {
				own = newSignal()
			}
			c.followers = append(c.followers, own)
			c.mu.Unlock()
			err := c.d.pause(ctx, own, tries)
			c.mu.Lock()
			i := slices.Index(c.followers, own)
			c.followers = slices.Delete(c.followers, i, i+1)
			if err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		if err := c.lead(ctx, tries); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// lead sleeps on the completion queue. c.mu is held, but for the sleep.
func (c *Conn) lead(ctx context.Context, tries int) error {
	cq := c.cq
	c.leading = true
	cq.waiters.Add(1)
	if c.d.mode != modePolling {
		cq.arm(false)
	}
	var err error
	if !c.drain() {
		c.mu.Unlock()
		err = c.d.pause(ctx, cq.notify, tries)
		c.mu.Lock()
	}
	cq.waiters.Add(-1)
	c.leading = false
	if len(c.followers) > 0 { // one of them leads now
		c.followers[0].set()
	}
	return err
}

// wake makes all that wait look again. c.mu is held.
func (c *Conn) wake() {
	for _, s := range c.followers {
		s.set()
	}
}

// drain takes in all completions and reports whether there were any. c.mu is
// held.
func (c *Conn) drain() bool {
	any := c.drainCQ()
	for e := c.ch.Poll(); e != nil; e = c.ch.Poll() {
		if e.Type == CMDisconnected || e.Type == CMRejected || e.Type == CMUnreachable {
			c.peerGone, c.flushed = true, true
			any = true
			// What completed before the end may have done so since we looked.
			c.drainCQ()
		}
	}
	if any {
		c.wake()
	}
	return any
}

// drainCQ is drain for the completion queue.
func (c *Conn) drainCQ() bool {
	any := false
	for {
		n, err := c.cq.Poll(c.wcs)
		if n == 0 || err != nil {
			return any
		}
		any = true
		for i := range c.wcs[:n] {
			c.complete(&c.wcs[i])
		}
	}
}

// complete routes one completion.
func (c *Conn) complete(wc *WC) {
	switch {
	case wc.Status == WCSuccess:
	case wc.Status == WCFlushErr:
		c.flushed = true
	default:
		c.flushed = true
		if c.failure == nil {
			c.failure = WCError(wc)
		}
	}
	switch {
	case wc.ID&connRecv != 0:
		if wc.Status == WCSuccess {
			c.inbox = append(c.inbox, Message{
				c: c, index: int(wc.ID &^ connRecv), n: int(wc.ByteLen), Imm: wc.Imm,
				HasImm: wc.Flags&WCWithImm != 0, Written: wc.Opcode == WCRecvWriteImm,
			})
		}
	case wc.ID&connOp != 0:
		p := c.ops[wc.ID]
		if p == nil {
			return
		}
		delete(c.ops, wc.ID)
		c.posted--
		p.finish(wc)
	default:
		c.raw = append(c.raw, *wc)
	}
}

// why returns what ended the connection. c.mu is held.
func (c *Conn) why() error {
	if c.failure != nil {
		return c.failure
	}
	if !c.peerGone {
		// Work requests are flushed before the event is queued, but not before the
		// lock is released under which both happens.
		c.mu.Unlock()
		c.d.mu.Lock()
		over := c.id.state == idOver
		c.d.mu.Unlock()
		c.mu.Lock()
		c.peerGone = c.peerGone || over
	}
	if c.peerGone {
		return ErrPeerClosed
	}
	if c.d.isClosed() {
		return c.d.closedErr()
	}
	return &StatusError{WC{Status: WCFlushErr, QPN: c.qp.num}}
}

// Completion waits for the completion of a work request that the application
// posted to the queue pair itself. At most as many as fit the queue may be
// left waiting.
func (c *Conn) Completion(ctx context.Context) (WC, error) {
	var wc WC
	if err := c.begin(ctx); err != nil {
		return wc, c.opError("completion", err)
	}
	err := c.wait(ctx, func() bool {
		if len(c.raw) == 0 {
			return false
		}
		wc = c.raw[0]
		c.raw = append(c.raw[:0], c.raw[1:]...)
		return true
	})
	return wc, c.opError("completion", err)
}

// endOfMessages turns the end of the connection into io.EOF if it was the
// peer's wish.
func endOfMessages(err error) error {
	if err == ErrPeerClosed {
		return io.EOF
	}
	return err
}
