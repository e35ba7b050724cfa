package roce

import (
	"context"
	"io"
	"slices"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// IDs of the work requests of a Conn. The application's own requests stay below 1<<62.
const (
	connOp   uint64 = 1 << 62 // send requests: the number of the Pending
	connRecv uint64 = 1 << 63 // receives: the index of the buffer
)

// begin returns an error if a call must not begin: the context or the deadline is over already.
func (c *Conn) begin(ctx context.Context, what waitFor) error {
	if c.s == nil {
		return access.ErrZero
	}
	return c.outOfTime(ctx, what)
}

// outOfTime returns an error if the context or the deadline is over.
func (c *Conn) outOfTime(ctx context.Context, what waitFor) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.deadlines[what].passed.Load() {
		return access.DeadlineError{}
	}
	return nil
}

// wait returns nil once ready, called with c.mu held, reports true, or else the error that makes
// waiting useless. One of the waiting goroutines, the leader, sleeps on the completion queue; the
// others sleep until the leader takes something in or leaves.
func (c *Conn) wait(ctx context.Context, what waitFor, ready func() bool) error {
	if c.s == nil {
		return access.ErrZero
	}
	c.s.Turn(nil)
	c.mu.Lock()
	defer c.unlock()
	var own *shard.Signal
	for tries := 0; ; tries++ {
		c.drain(c.taken)
		if c.closed && what != forEnd {
			return verbs.ErrClosed
		}
		if ready() {
			return nil
		}
		if c.flushed {
			return c.closeErr()
		}
		if err := c.outOfTime(ctx, what); err != nil {
			return err
		}
		if c.ending && c.work == 0 && what == forMessage {
			return ErrServerClosed
		}
		if c.leading {
			if own == nil {
				own = shard.NewSignal()
			}
			c.followers = append(c.followers, own)
			c.mu.Unlock()
			err := c.s.Wait(ctx, own.C(), tries)
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

// lead sleeps on the completion queue. c.mu is held, except during the sleep.
func (c *Conn) lead(ctx context.Context, tries int) error {
	c.leading = true
	c.cqWait.Enter()
	var err error
	if !c.drain(c.beforeWait) {
		c.mu.Unlock()
		err = c.s.WaitFor(ctx, c.cqWait.Signal(), tries)
		c.mu.Lock()
	}
	c.cqWait.Leave()
	c.leading = false
	if len(c.followers) > 0 { // one of them leads now
		c.followers[0].Set()
	}
	return err
}

// wake makes all followers look again. c.mu is held.
func (c *Conn) wake() {
	for _, s := range c.followers {
		s.Set()
	}
}

// The ways in which drain looks at the completion queue.

// polled is for a caller that may not wait afterwards.
func (c *Conn) polled() (int, error) { return c.cq.Poll(c.wcs) }

// taken takes what is there and looks no further.
func (c *Conn) taken() (int, error) { return c.cqWait.Take(c.wcs), nil }

// beforeWait is for a caller that waits if there is nothing.
func (c *Conn) beforeWait() (int, error) { return c.cqWait.Look(c.wcs) }

// drain takes in all completions and reports whether there were any. c.mu is held.
func (c *Conn) drain(look func() (int, error)) bool {
	any := c.drainCQ(look)
	for e := c.ch.Poll(); e != nil; e = c.ch.Poll() {
		if e.Type == rdmacm.EventDisconnected || e.Type == rdmacm.EventRejected || e.Type == rdmacm.EventUnreachable {
			c.peerGone, c.flushed = true, true
			switch {
			case c.failure != nil:
			case e.Err != nil:
				c.failure = e.Err // the event does not say that the peer closed in order
			case endedBeforeAll(e.PrivateData):
				c.failure = errPeerEndedEarly
			}
			any = true
			// Completions from before the end may have come since the last look.
			c.drainCQ(look)
		}
	}
	if any {
		c.wake()
	}
	return any
}

// drainCQ is drain for the completion queue.
func (c *Conn) drainCQ(look func() (int, error)) bool {
	any := false
	for {
		n, err := look()
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
func (c *Conn) complete(wc *verbs.WC) {
	switch {
	case wc.Status == verbs.WCSuccess:
	case wc.Status == verbs.WCFlushErr:
		c.flushed = true
	default:
		c.flushed = true
		if c.failure == nil {
			c.failure = verbs.WCError(wc)
		}
	}
	switch {
	case wc.ID&connRecv != 0:
		if wc.Status == verbs.WCSuccess {
			c.traffic.received(wc)
			i := int(wc.ID &^ connRecv)
			c.inbox = append(c.inbox, Message{
				c: c, index: i, turn: c.recvs.turn(i), n: int(wc.ByteLen), Imm: wc.Imm,
				HasImm: wc.Flags&verbs.WCWithImm != 0, Written: wc.Opcode == verbs.WCRecvWriteImm,
			})
		}
	case wc.ID&connOp != 0:
		p := c.ops[wc.ID]
		if p == nil {
			return
		}
		delete(c.ops, wc.ID)
		c.posted -= p.posted
		if p.carries {
			c.carrying--
		}
		p.finish(wc)
	default:
		c.raw = append(c.raw, *wc)
	}
}

// closeErr returns what ended the connection. c.mu is held.
func (c *Conn) closeErr() error {
	if c.failure != nil {
		return c.failure
	}
	if !c.peerGone {
		// Work requests are flushed before the event is queued, both under the same lock.
		c.mu.Unlock()
		over := core.Open(c.id).Over()
		c.mu.Lock()
		c.peerGone = c.peerGone || over
		c.drain(c.taken)
		if c.failure != nil {
			return c.failure
		}
	}
	if c.peerGone {
		return verbs.ErrPeerClosed
	}
	if c.s.Closed() {
		return c.s.ClosedErr()
	}
	return &verbs.StatusError{WC: verbs.WC{Status: verbs.WCFlushErr, QPN: c.qp.Num()}}
}

// Completion waits for the completion of a work request that the application posted to the queue
// pair itself. Collect them in time: no more may be left waiting than fit the queue.
func (c *Conn) Completion(ctx context.Context) (verbs.WC, error) {
	var wc verbs.WC
	if err := c.begin(ctx, forOperation); err != nil {
		return wc, c.opError("completion", err)
	}
	err := c.wait(ctx, forOperation, func() bool {
		if len(c.raw) == 0 {
			return false
		}
		wc = c.raw[0]
		c.raw = append(c.raw[:0], c.raw[1:]...)
		return true
	})
	return wc, c.opError("completion", err)
}

// endOfMessages turns an orderly end by the peer into io.EOF.
func endOfMessages(err error) error {
	if err == verbs.ErrPeerClosed {
		return io.EOF
	}
	return err
}
