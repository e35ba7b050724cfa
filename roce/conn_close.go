package roce

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// closeWait is how long Close waits for what was begun.
const closeWait = 30 * time.Second

// Close ends the connection. Calls that wait, and new ones, fail at once, and the peer is told.
//
// The peer has what Send, Write and the other blocking calls returned success for. Close waits for
// operations begun with Start that no caller has waited for ([Pending.Wait]): for 30 s, or until
// the write deadline. If some of them failed, or are not done by then, the error is a [*LostError]
// that says how many. So a program may exit after Close.
//
// If everything was done the peer sees an orderly end: Recv returns io.EOF. If this side's queue
// pair has failed, or operations other than READ are under way when the connection ends, a peer
// that uses this package gets an error that matches [ErrPeerGone] instead.
//
// Close also closes the regions from Register. Messages from RecvMsg must not be used afterwards.
// If the connection owns its protection domain, all other memory registered in it is closed too.
//
// Close fails with ErrBusy if something is left that only the application can end: a queue pair,
// SRQ or address handle that it made in the connection's own protection domain, or a memory window
// bound to memory from Register. The connection is over all the same. Closing it again, once these
// are gone, releases the rest.
func (c *Conn) Close() error { return c.close(closeWait) }

// close is Close with a limit on the wait. With 0, it also cuts short a Close that is waiting.
func (c *Conn) close(most time.Duration) error {
	if c.s == nil {
		return nil
	}
	var cause error
	c.mu.Lock()
	again := c.ended
	if !c.closed {
		c.closed = true
		c.keep.Stop()
		c.drain(c.polled)
	}
	c.hurry = c.hurry || most == 0
	c.wakeAll()
	core.Open(c.qp).Acknowledge()
	if c.owed > 0 && !c.hurry {
		core.Open(c.qp).Ask()
		c.mu.Unlock()
		cause = c.await(most)
		c.mu.Lock()
	}
	first, early := !c.ended, c.flushed || c.carrying > 0
	if first {
		c.ended, c.lost = true, c.losses(cause)
		c.last = c.qp.Stats()
		for i := range c.deadlines {
			c.deadlines[i].stop()
		}
	}
	lost := c.lost
	c.mu.Unlock()
	if first && early {
		_ = c.id.Disconnect(goodbyeEarly()) // there may be nothing to disconnect
	}
	if first && c.local.IsValid() {
		c.logState(slog.LevelInfo, "roce: connection closed")
	}
	if again {
		lost = nil // reported already
	}
	defer c.gone()
	return c.opError("close", errors.Join(lost, c.free()))
}

// await waits until all operations begun with Start are done, or cannot be any more.
func (c *Conn) await(most time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return c.wait(ctx, forEnd, func() bool { return c.owed == 0 || c.hurry || c.deadlines[forOperation].passed.Load() })
}

// losses returns an error for operations that may not have reached the peer and that no caller
// knows of; cause is why the wait for them ended. c.mu is held.
func (c *Conn) losses(cause error) error {
	n := c.owed + c.failed
	switch {
	case n == 0:
		return nil
	case c.flushed && (cause == nil || c.failed > 0):
		if cause = c.failure; cause == nil {
			cause = verbs.ErrPeerClosed
		}
	case c.deadlines[forOperation].passed.Load(), errors.Is(cause, context.DeadlineExceeded):
		cause = access.DeadlineError{}
	case cause == nil:
		cause = verbs.ErrClosed
	}
	return &LostError{n, cause}
}

// free releases what newConn has made so far, or what an earlier call left.
func (c *Conn) free() error {
	c.freeing.Lock()
	defer c.freeing.Unlock()
	if c.freed {
		return nil
	}
	var errs []error
	note := func(err error) bool {
		failed := err != nil && !errors.Is(err, verbs.ErrClosed)
		if failed {
			errs = append(errs, err)
		}
		return failed
	}
	note(c.id.Close())
	if c.ch != nil {
		note(c.ch.Close())
	}
	if c.cq != nil {
		note(c.cq.Close())
	}
	if c.pool != nil {
		note(c.pool.Close())
	}
	if c.recvs.mr != nil {
		note(c.recvs.mr.Close())
	}
	left := c.regions[:0]
	for _, mr := range c.regions {
		err := mr.Close()
		if !c.ownPD && note(err) {
			left = append(left, mr)
		}
	}
	clear(c.regions[len(left):])
	c.regions = left
	if c.ownPD {
		note(core.Open(c.pd).Clear())
	}
	c.freed = len(errs) == 0
	return errors.Join(errs...)
}
