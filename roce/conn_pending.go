package roce

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// Pending is an operation in progress and then its outcome, which can be read any number of times.
// Copies of it are the same operation.
type Pending struct {
	c   *Conn
	op  *Pending      // this one, which others are copies of; nil: an internal operation
	buf verbs.PoolBuf // released at the end

	carries bool // carries something to the peer
	patient bool // does not hurry; see calm
	posted  int  // work requests that are complete with it

	// Under c.mu:
	done bool
	told bool // a caller waits for the end, or knows it
	kept bool // the waiting caller reads buf and then releases it
	wc   verbs.WC
}

// finish notes the outcome. c.mu is held.
func (p *Pending) finish(wc *verbs.WC) {
	p.wc, p.done = *wc, true
	if p.op != nil && !p.told {
		p.c.owed--
		p.c.calm.ended()
		if wc.Status != verbs.WCSuccess {
			p.c.failed++
		}
	}
	if !p.kept {
		p.buf.Release()
	}
}

// tell records that the caller learns of the end without Close. c.mu is held.
func (p *Pending) tell() {
	switch {
	case p.op == nil || p.told:
	case !p.done:
		p.c.owed--
		p.c.hasten(p)
	case p.wc.Status != verbs.WCSuccess:
		p.c.failed--
	}
	p.told = true
}

// wait waits for the end.
func (p *Pending) wait(ctx context.Context) error {
	if p.c == nil {
		return access.ErrZero
	}
	if err := p.c.wait(ctx, forOperation, func() bool { p.tell(); return p.done }); err != nil &&
		!(err == verbs.ErrClosed && p.carriedOut()) {
		return maybeDone(err)
	}
	if err := verbs.WCError(&p.wc); err != nil {
		if p.wc.Status == verbs.WCFlushErr {
			p.c.mu.Lock()
			defer p.c.mu.Unlock()
			return maybeDone(p.c.closeErr())
		}
		return maybeDone(err)
	}
	return nil
}

// carriedOut reports whether the operation has an outcome of its own, which a later close of the
// connection does not change.
func (p *Pending) carriedOut() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.done && p.wc.Status != verbs.WCFlushErr
}

// Wait waits until the operation is complete and returns its outcome. Errors match [ErrMaybeDone].
// If the context ends first, the operation goes on, and Wait can be called again; the memory that
// it uses must be left alone until it is complete or the connection is closed. If the operation is
// complete, Wait returns its outcome even when the context is over.
func (p *Pending) Wait(ctx context.Context) error {
	if p.c == nil {
		return access.ErrZero
	}
	return p.c.opError("wait", p.op.wait(ctx))
}

// Done reports whether the operation is complete.
func (p *Pending) Done() bool {
	if p.c == nil {
		return false
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.c.drain(p.c.polled)
	if p.op.done {
		p.op.tell()
	} else {
		p.c.hasten(p.op)
	}
	return p.op.done
}

// WC returns the completion of an operation that is complete.
func (p *Pending) WC() verbs.WC {
	if p.c == nil {
		return verbs.WC{}
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.op.wc
}

// start posts a work request. It waits while the send queue is full. buf, if
// not zero, is released when the operation is complete, or at once on an error.
func (c *Conn) start(ctx context.Context, wr verbs.SendWR, buf verbs.PoolBuf) (*Pending, error) {
	p := &Pending{c: c, buf: buf}
	return p, c.startPending(ctx, []verbs.SendWR{wr}, p)
}

// startPending posts work requests, of which the last makes a completion, p. They leave together
// unless the application's own requests fill the queue meanwhile.
func (c *Conn) startPending(ctx context.Context, wrs []verbs.SendWR, p *Pending) error {
	var err error
	posted := 0
	werr := c.wait(ctx, forOperation, func() bool {
		if c.closed || c.flushed || posted == 0 && c.posted+len(wrs) > c.cfg.SendDepth ||
			c.outOfTime(ctx, forOperation) != nil {
			return false
		}
		if posted == 0 {
			c.nextOp++
			for i := range wrs {
				wrs[i].ID = connOp | c.nextOp&(connOp-1)
			}
			c.setFlags(wrs, p)
		}
		n := 0
		if n, err = c.post(wrs[posted:]); n > 0 {
			for i := range wrs[posted : posted+n] {
				c.traffic.sent(&wrs[posted+i])
				p.carries = p.carries || wrs[posted+i].Opcode != verbs.WRRead
			}
			posted += n
			c.posted += n
		}
		if errors.Is(err, verbs.ErrQueueFull) {
			return false // the application's own requests fill it
		}
		if err == nil {
			c.ops[wrs[0].ID] = p
			p.posted, c.loose = posted+c.loose, 0
			if p.carries {
				c.carrying++
			}
			if p.op != nil {
				c.owed++
			}
		}
		return true
	})
	if werr != nil {
		err = werr
	}
	if err != nil {
		p.buf.Release()
		if posted > 0 {
			c.mu.Lock()
			c.loose += posted
			c.mu.Unlock()
			err = maybeDone(err)
		}
	}
	return err
}

// post posts work requests together, and returns how many.
func (c *Conn) post(wrs []verbs.SendWR) (int, error) {
	if len(wrs) > 1 {
		return c.qp.PostSendBatch(wrs)
	}
	if err := c.qp.PostSend(&wrs[0]); err != nil {
		return 0, err
	}
	return 1, nil
}

// Start posts a send work request of any kind and returns at once, unless the send queue is full.
// It replaces the request's ID and makes it signaled. Of several requests only the last is: they
// leave together, and the operation is complete when all of them are. An error means that nothing
// was sent, unless it matches [ErrMaybeDone].
//
// A WRITE of more than two packets, and then an empty WRITE with immediate that tells the peer of
// it, are faster than one WRITE with immediate: all packets but the last have one length then, and
// share a datagram. The peer's [Message.Len] is 0.
func (c *Conn) Start(ctx context.Context, wrs ...verbs.SendWR) (*Pending, error) {
	if len(wrs) == 0 || c.s != nil && len(wrs) > c.cfg.SendDepth {
		return nil, c.opError("start",
			argError("start", "wrs", fmt.Sprintf("%d requests, not 1 to SendDepth, %d", len(wrs), c.cfg.SendDepth)))
	}
	for i := range wrs {
		wr := &wrs[i]
		if err := c.fits(wr.Opcode, int(min(payload(wr), math.MaxInt))); err != nil {
			return nil, c.opError("start", err)
		}
		if err := checkAligned("start", "wr.RemoteAddr", wr); err != nil {
			return nil, c.opError("start", err)
		}
	}
	p := &Pending{c: c}
	p.op = p
	if err := c.startPending(ctx, wrs, p); err != nil {
		return nil, c.opError("start", err)
	}
	return p, nil
}

// StartSend sends a message from registered memory.
func (c *Conn) StartSend(ctx context.Context, local ...verbs.SGE) (*Pending, error) {
	return c.Start(ctx, verbs.SendWR{Opcode: verbs.WRSend, SGList: local})
}

// startCopy posts a work request whose payload is a copy of b, which may be used again at once.
func (c *Conn) startCopy(ctx context.Context, b []byte, wr verbs.SendWR) (*Pending, error) {
	if len(b) <= connInline {
		wr.Flags |= verbs.SendInline
		if wr.Inline = b; b == nil {
			wr.Inline = []byte{}
		}
		return c.start(ctx, wr, verbs.PoolBuf{})
	}
	buf, err := c.pool.Get(len(b))
	if err != nil {
		return nil, err
	}
	copy(buf.Bytes(), b)
	wr.SGList = []verbs.SGE{buf.SGE(len(b))}
	return c.start(ctx, wr, buf)
}

// payload returns the number of bytes that a work request moves.
func payload(wr *verbs.SendWR) uint64 {
	n := uint64(len(wr.Inline))
	for i := range wr.SGList {
		n += uint64(wr.SGList[i].Length)
	}
	return n
}
