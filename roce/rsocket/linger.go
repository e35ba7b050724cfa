package rsocket

import (
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// LingerStats count the connections of a device that were closed while the peer's
// adapter did not have their goodbye.
type LingerStats struct {
	Conns int // that linger now
	Bytes int // that they hold
	// Finished are those that have lingered. Lost are connections whose Close has returned a
	// LostError.
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

// linger leaves a connection that is closed to its alarm. Memory that the application has
// lent for mappings is its own again.
func (c *Conn) linger() error {
	err := c.unmap()
	for _, o := range c.host.add(c) {
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
	c.mu.Unlock()
	if over || !c.alarm.Set(gap, 0) {
		c.bury()
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
	c.mu.Unlock()
	c.alarm.Stop()
	_ = c.id.Disconnect(nil) // fails if there is nothing to disconnect
	_ = c.release()          // there is nobody to tell
	c.host.remove(c)
}

const (
	// firstLook is when it is first looked whether the peer's adapter has the goodbye. Most
	// have after microseconds.
	firstLook = time.Millisecond
	lastLook  = 128 * time.Millisecond
)
