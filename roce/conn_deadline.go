package roce

import (
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// waitFor is what a call of a Conn waits for; it selects the deadline that applies.
type waitFor uint8

const (
	forMessage   waitFor = iota // a message of the peer
	forOperation                // an operation of this side
	forEnd                      // operations begun before Close
	numWaits
)

// connDeadline is the moment at which a kind of wait ends. Conn.mu guards changes.
type connDeadline struct {
	timer  *time.Timer // nil: no deadline is ahead
	set    uint64      // how often it was set, by which a timer stopped too late knows that it is stale
	passed atomic.Bool
}

// SetDeadline sets the deadlines of all calls that wait: those of SetReadDeadline and
// SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, forMessage, forOperation) }

// SetReadDeadline sets the time at which calls that wait for the peer give up: Recv, RecvMsg,
// Shared and Wait, both those in progress and later ones. The zero time means never. Their error
// matches os.ErrDeadlineExceeded, and its Timeout method returns true. Deadlines complement
// contexts, for protocols that use them; the earlier of the two counts.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, forMessage) }

// SetWriteDeadline is SetReadDeadline for the operations of this side: Send, Write, Read, FetchAdd,
// CompareSwap, Share, Pending.Wait, Completion, and calls that begin with Start while the queue is
// full. An operation under way when the deadline passes goes on, and the error matches
// [ErrMaybeDone], as when a context ends.
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

// stop removes the deadline.
func (d *connDeadline) stop() {
	d.set++
	d.passed.Store(false)
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// wakeAll makes all waiting calls look again, including the one that sleeps on the completion
// queue. c.mu is held.
func (c *Conn) wakeAll() {
	c.wake()
	c.cqWait.Signal().Set()
}
