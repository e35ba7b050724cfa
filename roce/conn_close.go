package roce

import (
	"errors"
	"log/slog"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// Close ends the connection at once: operations in progress fail, as do calls
// that wait, and the peer is told. What Send, Write and the like have returned for is
// done, and the peer has it; of operations that were begun with Start wait for the last one first ([Pending.Wait]): they end
// in order. Regions from Register are closed, and messages from RecvMsg must
// not be used any more. If the protection domain is the connection's own, so is
// all memory that was registered in it, by whatever call.
//
// Close fails with ErrBusy if something is left that only the application can
// end: a queue pair, SRQ or address handle that it made in the connection's own
// protection domain, or a memory window bound to memory from Register. The
// connection is over all the same; closing it again, when these are gone,
// releases the rest.
func (c *Conn) Close() error {
	if c.s == nil {
		return nil
	}
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.last = c.qp.Stats()
		c.keep.Stop()
		for i := range c.deadlines {
			c.deadlines[i].stop()
		}
		c.wakeAll()
		c.mu.Unlock()
		if c.local.IsValid() {
			c.logState(slog.LevelInfo, "roce: connection closed")
		}
	} else {
		c.mu.Unlock()
	}
	defer c.gone()
	return c.opError("close", c.free())
}

// free releases what newConn made, as far as it came, and what is left of it if
// it was called before.
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
		note(access.ClearPD(c.pd))
	}
	c.freed = len(errs) == 0
	return errors.Join(errs...)
}
