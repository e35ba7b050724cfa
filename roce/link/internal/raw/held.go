package raw

import (
	"slices"
	"sync/atomic"

	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport"
)

// Follower is a path of a link.
type Follower interface {
	Base() *Path
	// Refresh brings the path up to date with its next hop, and returns how far
	// the resolution is.
	Refresh() nexthop.Status
}

// Held decides what becomes of packets to send, and keeps copies of those whose
// neighbour is being resolved. The device goes on sending to others meanwhile. It
// belongs to the sending side, but for what its methods say.
type Held[P Follower] struct {
	stats *transmit.Counters
	send  func(path P, data []byte)

	some  atomic.Bool // something is held
	retry atomic.Bool // it is worth looking whether that can go
	items []heldItem[P]
	buf   []byte
	spare []byte // the buffer before, to be used again
}

type heldItem[P Follower] struct {
	path   P
	off, n int // of the packet, BTH through ICRC, in buf
}

// Init sets what counts packets that go nowhere, and what sends those that were
// kept.
func (h *Held[P]) Init(stats *transmit.Counters, send func(path P, data []byte)) {
	h.stats, h.send = stats, send
}

// Admit reports whether a packet of size bytes, BTH through ICRC, can go out by its
// path now; those kept for it have gone before. One that cannot is kept or counted.
func (h *Held[P]) Admit(path P, p *transport.TxPacket, size int) bool {
	s := path.Base()
	switch path.Refresh() {
	case nexthop.Ready:
		if s.held > 0 {
			h.Retry()
		}
		return h.fits(s, size)
	case nexthop.Pending:
		if h.keep(path, s, p, size) {
			return false
		}
	}
	h.stats.Lost(s.Of, 1)
	return false
}

// fits reports whether a packet of size bytes can go by a path without being
// fragmented, and counts it if not.
func (h *Held[P]) fits(s *Path, size int) bool {
	if size > s.Most {
		h.stats.TooLong(s.Of, 1)
		return false
	}
	return true
}

// keep keeps a packet. It returns false if there are too many.
func (h *Held[P]) keep(path P, s *Path, p *transport.TxPacket, size int) bool {
	if len(h.buf)+size > heldBytes || s.held+size > heldPerPath {
		return false
	}
	at := len(h.buf)
	h.buf = s.ICRC.Append(slices.Grow(h.buf, size), p)
	h.items = append(h.items, heldItem[P]{path, at, size})
	s.held += size
	h.some.Store(true)
	// The answer may have come before some was set; nobody will call then.
	if s.hop.State() != s.state {
		h.retry.Store(true)
	}
	return true
}

// Changed takes notice that destinations have become reachable or not, and
// reports whether that matters. It may be called from anywhere.
func (h *Held[P]) Changed() bool {
	if !h.some.Load() {
		return false
	}
	h.retry.Store(true)
	return true
}

// Due reports whether Retry is worth calling. It may be called from anywhere.
func (h *Held[P]) Due() bool { return h.retry.Load() }

// Retry has those packets sent, in order, whose neighbour is known by now, and
// gives up those that can go nowhere.
func (h *Held[P]) Retry() {
	h.retry.Store(false) // before looking: what changes later sets it again
	items, buf := h.items, h.buf
	h.items, h.buf = h.items[:0], h.spare[:0]
	for _, k := range items {
		s, data := k.path.Base(), buf[k.off:k.off+k.n]
		s.held -= k.n
		switch k.path.Refresh() {
		case nexthop.Pending:
			s.held += k.n
			h.items = append(h.items, heldItem[P]{k.path, len(h.buf), k.n})
			h.buf = append(h.buf, data...)
		case nexthop.Ready:
			if h.fits(s, k.n) {
				h.send(k.path, data)
			}
		default:
			h.stats.Lost(s.Of, 1)
		}
	}
	clear(items[len(h.items):])
	h.spare = buf
	h.some.Store(len(h.items) > 0)
}
