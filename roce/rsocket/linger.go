package rsocket

import (
	"context"
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// LingerStats count the connections of a device that were closed while the peer's
// adapter did not have all data.
type LingerStats struct {
	Conns int // that linger now
	Bytes int // that they hold
	// Finished and Lost are those that have lingered: Lost with data that the peer's adapter
	// never acknowledged, because it is gone, too late, or the device was closed.
	Finished, Lost uint64
}

// Lingering returns the counters of a device.
func Lingering(d *verbs.Device) LingerStats {
	if d == nil {
		return LingerStats{}
	}
	h := hostOf(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}

// Drain waits until no connection of the device lingers: the peers' adapters have
// all that was written before Close, or it is lost (see [LingerStats]). There is no
// kernel that would go on with it when the device is closed or the process ends: a program that
// ends soon after Close calls Drain before that.
func Drain(ctx context.Context, d *verbs.Device) error {
	if d == nil {
		return opError("drain", Addr{}, Addr{}, argError("drain", "device", "nil"))
	}
	h := hostOf(d)
	for c := h.first(); c != nil; c = h.first() {
		if err := c.lingered(ctx); err != nil {
			return opError("drain", c.laddr, c.raddr, contextError(err))
		}
	}
	return nil
}

// finished sends the goodbye if it can, and reports whether a connection that was closed
// has nothing left to wait for. mu is held.
func (c *Conn) finished() bool {
	if c.err == nil && !c.s.byeRecvd && !c.s.byeSent && c.s.canControl() {
		c.s.control(ctrlDisconnect, &c.cmsg)
		c.postControl()
	}
	return c.err != nil || c.s.byeRecvd || c.s.byeSent && c.s.sends == 0
}

// linger leaves a connection that is closed to its alarm. Memory that the application has
// lent for mappings is its own again.
func (c *Conn) linger(data bool) error {
	err := c.unmap()
	for _, o := range c.host.add(c, data) {
		o.bury() // there are too many
	}
	c.alarm.Set(firstLook, 0)
	return err
}

// lingers is what the alarm of a connection that lingers does: it looks, less and less
// often, until the connection is over or its time.
func (c *Conn) lingers() {
	c.mu.Lock()
	if c.buried {
		c.mu.Unlock()
		return
	}
	c.look()
	over := c.finished() || c.looked >= lingerTime
	gap := min(max(c.looked, firstLook), lastLook)
	c.looked += gap
	if !over {
		c.host.note(c, c.s.owes())
	}
	c.mu.Unlock()
	if over || !c.alarm.Set(gap, 0) {
		c.bury()
	}
}

// lingered waits until a connection that lingers is over. The alarm watches the time.
func (c *Conn) lingered(ctx context.Context) error {
	for {
		c.mu.Lock()
		over, theirs := c.buried || c.finished(), c.polling
		if !over {
			c.polling = true
		}
		c.mu.Unlock()
		switch {
		case over:
			c.bury()
			<-c.gone
			return nil
		case theirs:
			select {
			case <-c.gone:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		n, err := c.cq.Wait(ctx, c.wcs[:])
		c.mu.Lock()
		c.polling = false
		c.handle(n)
		if err != nil && ctx.Err() == nil {
			c.fail(err)
		}
		c.mu.Unlock()
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// bury ends a connection that lingers.
func (c *Conn) bury() {
	c.mu.Lock()
	if c.buried {
		c.mu.Unlock()
		return
	}
	c.look()
	c.buried = true
	lost := (c.lost || c.s.owes()) && !c.s.byeRecvd
	c.mu.Unlock()
	c.alarm.Stop()
	_ = c.id.Disconnect(nil) // fails if there is nothing to disconnect
	_ = c.release()          // there is nobody to tell
	c.host.remove(c, lost)
	close(c.gone)
}

const (
	// firstLook is when it is first looked whether the peer's adapter has everything. Most
	// have after microseconds.
	firstLook = time.Millisecond
	lastLook  = 128 * time.Millisecond
)
