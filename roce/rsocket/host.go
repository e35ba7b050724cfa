package rsocket

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// host is what the connections of a device have in common: those that the
// application has closed and that are not over.
type host struct {
	// mu is taken after Conn.mu.
	mu    sync.Mutex
	left  list.List // of *Conn, the oldest first
	stats LingerStats
	most  LingerStats // of Conns and Bytes

	large   atomic.Int64  // bytes of large buffers of all connections
	grown   atomic.Int64  // until when these have grown enough, see growthRate
	refused atomic.Uint64 // how often there were too many for another one
}

// BufferStats count the large buffers of a device's connections, which they have while they need
// more than those that they begin with. All of them have 512 MiB together.
type BufferStats struct {
	Bytes int64 // that there are now
	// Refused is how often there was no room for another one: the connection stays with what it
	// has, and tries again.
	Refused uint64
}

// Buffers returns the counters of a device.
func Buffers(d *verbs.Device) BufferStats {
	if d == nil {
		return BufferStats{}
	}
	h := hostOf(d)
	return BufferStats{h.large.Load(), h.refused.Load()}
}

// hosts are those of the devices that are in use.
var hosts access.PerDevice[host]

func hostOf(d *verbs.Device) *host {
	return access.KeptOn(d, &hosts, func() *host {
		return &host{most: LingerStats{Conns: maxLingering, Bytes: maxLingerBytes}}
	})
}

// add enters a connection that begins to linger, and returns others that have to go to make room:
// the oldest.
func (h *host) add(c *Conn) (victims []*Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left, bytes := h.stats.Conns+1, h.stats.Bytes+c.cfg.grown()
	for i := h.left.Front(); i != nil && (left > h.most.Conns || bytes > h.most.Bytes); i = i.Next() {
		o := i.Value.(*Conn)
		victims = append(victims, o)
		left--
		bytes -= o.cfg.grown()
	}
	c.left = h.left.PushBack(c)
	h.stats.Conns++
	h.stats.Bytes += c.cfg.grown()
	return victims
}

// remove takes a connection out whose memory is given back.
func (h *host) remove(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left.Remove(c.left)
	c.left = nil
	h.stats.Conns--
	h.stats.Bytes -= c.cfg.grown()
	h.stats.Finished++
}

// lost counts a connection whose Close has not delivered everything.
func (h *host) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Lost++
}

// reserve enters n bytes of large buffers, if there is room for them.
func (h *host) reserve(n int, now time.Duration) error {
	if h.large.Add(int64(n)) > maxLargeBytes {
		h.large.Add(-int64(n))
		h.refused.Add(1)
		return errNoRoom
	}
	for {
		until := h.grown.Load()
		next := max(until, int64(now)) + int64(n)*int64(time.Second)/growthRate
		if h.grown.CompareAndSwap(until, next) {
			return nil
		}
	}
}

// mayGrow reports whether what was reserved last was long enough ago.
func (h *host) mayGrow(now time.Duration) bool { return int64(now) >= h.grown.Load() }
