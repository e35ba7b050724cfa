package roce

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// waitFor is what a call of a Conn waits for, and so which deadline is its own.
type waitFor uint8

const (
	forMessage   waitFor = iota // something that the peer sends by itself
	forOperation                // an operation of this side
	forEnd                      // what was begun before Close
	numWaits
)

// connDeadline is a moment after which waiting is over. It is changed with Conn.mu held.
type connDeadline struct {
	timer  *time.Timer // nil: there is none to come
	set    uint64      // how often it was set: a timer that was stopped too late knows that it was
	passed atomic.Bool
}

// deadlineError is the error of a call whose deadline has passed. It matches what contexts and what
// connections have for it.
type deadlineError struct{}

func (deadlineError) Error() string   { return os.ErrDeadlineExceeded.Error() }
func (deadlineError) Timeout() bool   { return true }
func (deadlineError) Temporary() bool { return true }
func (deadlineError) Is(target error) bool {
	return target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded
}

// SetDeadline sets the deadlines of all calls that wait, as SetReadDeadline and SetWriteDeadline
// do.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, forMessage, forOperation) }

// SetReadDeadline sets the moment at which calls that wait for the peer give up: Recv, RecvMsg,
// Shared and Wait, those in progress and later ones. The zero time is never. Their error matches
// os.ErrDeadlineExceeded, and its Timeout method returns true. It is there beside the contexts, for
// protocols that have it so; whichever ends first counts.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, forMessage) }

// SetWriteDeadline is SetReadDeadline for the operations of this side: Send, Write, Read, FetchAdd,
// CompareSwap, Share, Pending.Wait, Completion, and those that begin with Start while the queue is
// full. What is under way when the deadline passes goes on, and the error matches [ErrMaybeDone],
// as when a context ends.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, forOperation) }

func (c *Conn) setDeadlines(t time.Time, which ...waitFor) error {
	if c.s == nil {
		return c.opError("set deadline", access.ErrZero)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set deadline", verbs.ErrClosed)
	}
	for _, w := range which {
		c.setDeadline(&c.deadlines[w], t)
	}
	return nil
}

// setDeadline sets one deadline. c.mu is held.
func (c *Conn) setDeadline(d *connDeadline, t time.Time) {
	d.stop()
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed.Store(true)
		c.wakeAll()
		return
	}
	set := d.set
	d.timer = time.AfterFunc(left, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if d.set == set {
			d.passed.Store(true)
			c.wakeAll()
		}
	})
}

// stop makes it never.
func (d *connDeadline) stop() {
	d.set++
	d.passed.Store(false)
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// wakeAll makes all that wait look again, the one that sleeps on the completion queue, too. c.mu
// is held.
func (c *Conn) wakeAll() {
	c.wake()
	c.cqWait.Signal().Set()
}
