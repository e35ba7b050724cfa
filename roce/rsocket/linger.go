package rsocket

import (
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

// LingerStats counts the connections of a device that were closed before the peer's adapter had
// their goodbye.
type LingerStats struct {
	Conns int // connections that linger now
	Bytes int // bytes that they hold
	// Finished counts connections that have lingered, Lost those whose Close returned a LostError.
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

// linger leaves a closed connection to its alarm. The application gets the memory of its mappings
// back.
func (c *Conn) linger() error {
	err := c.unmap()
	for _, o := range c.host.add(c) {
		o.bury() // there are too many
	}
	c.alarm.Set(firstLook, 0)
	return err
}

// lingers is called by the alarm of a lingering connection: it looks, less and less often, until
// the connection is over or its time is up.
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

// bury ends a lingering connection.
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
	_ = c.release()          // no caller is left to tell
	c.host.remove(c)
}

const (
	// firstLook is when to look first whether the peer's adapter has the goodbye. Most adapters
	// have it after microseconds.
	firstLook = time.Millisecond
	lastLook  = 128 * time.Millisecond
)
