package rsocket

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/roce/internal/perdevice"
	"github.com/goroce/goroce/roce/verbs"
)

// host is what the connections of a device have in common: those that the
// application has closed and that are not over.
type host struct {
	// mu is taken after Conn.mu.
	mu    sync.Mutex
	left  list.List // of *leftover, the oldest first
	stats LingerStats
	most  LingerStats // of Conns and Bytes

	large atomic.Int64 // bytes of large buffers of all connections
}

// leftover is a connection that lingers.
type leftover struct {
	c     *Conn
	bytes int
	data  bool // more than the goodbye is not acknowledged
}

// hosts are those of the devices that are in use.
var hosts perdevice.Table[host]

func hostOf(d *verbs.Device) *host {
	return hosts.Of(d, func() *host {
		return &host{most: LingerStats{Conns: maxLingering, Bytes: maxLingerBytes}}
	})
}

// add enters a connection that begins to linger, and returns others that have to go to make room:
// first of those that only wait for their goodbye to be acknowledged, the oldest.
func (h *host) add(c *Conn, data bool) (victims []*Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &leftover{c: c, bytes: c.cfg.memory(), data: data}
	left, bytes := h.stats.Conns+1, h.stats.Bytes+e.bytes
	for _, data := range []bool{false, true} {
		for i := h.left.Front(); i != nil && (left > h.most.Conns || bytes > h.most.Bytes); i = i.Next() {
			if o := i.Value.(*leftover); o.data == data {
				victims = append(victims, o.c)
				left--
				bytes -= o.bytes
			}
		}
	}
	c.left = h.left.PushBack(e)
	h.stats.Conns++
	h.stats.Bytes += e.bytes
	return victims
}

// note notes whether a connection that lingers still has data on its way.
func (h *host) note(c *Conn, data bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.left != nil {
		c.left.Value.(*leftover).data = data
	}
}

// remove takes a connection out whose memory is given back.
func (h *host) remove(c *Conn, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.left.Remove(c.left).(*leftover)
	c.left = nil
	h.stats.Conns--
	h.stats.Bytes -= e.bytes
	if lost {
		h.stats.Lost++
	} else {
		h.stats.Finished++
	}
}

// first returns the oldest connection that lingers, nil if there is none.
func (h *host) first() *Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.left.Front(); e != nil {
		return e.Value.(*leftover).c
	}
	return nil
}
