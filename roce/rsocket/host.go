package rsocket

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// host is what the connections of a device share: large buffers, and closed connections that
// linger.
type host struct {
	// mu is taken after Conn.mu.
	mu    sync.Mutex
	left  list.List // of *Conn, the oldest first
	stats LingerStats
	most  LingerStats // limits of Conns and Bytes

	large   atomic.Int64  // bytes of large buffers of all connections
	grown   atomic.Int64  // when they may grow again, see growthRate
	refused atomic.Uint64 // how often there was no room for another one
}

// BufferStats counts the large buffers of a device's connections, which replace the initial ones
// while a connection needs more. All of them together have up to 512 MiB.
type BufferStats struct {
	Bytes int64 // in use now
	// Refused is how often there was no room for another one: the connection keeps what it has, and
	// tries again.
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

// hosts has the host of each device.
var hosts access.PerDevice[host]

func hostOf(d *verbs.Device) *host {
	return access.KeptOn(d, &hosts, func() *host {
		return &host{most: LingerStats{Conns: maxLingering, Bytes: maxLingerBytes}}
	})
}

// add enters a connection that begins to linger, and returns others that must go to make room: the
// oldest.
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

// remove removes a connection whose memory is freed.
func (h *host) remove(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left.Remove(c.left)
	c.left = nil
	h.stats.Conns--
	h.stats.Bytes -= c.cfg.grown()
	h.stats.Finished++
}

// lost counts a connection whose Close did not deliver everything.
func (h *host) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Lost++
}

// reserve accounts for n bytes of large buffers, if there is room for them.
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

// mayGrow reports whether the last reservation is long enough ago.
func (h *host) mayGrow(now time.Duration) bool { return int64(now) >= h.grown.Load() }
