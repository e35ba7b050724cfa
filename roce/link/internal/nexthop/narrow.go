package nexthop

import (
	"net/netip"
	"time"
)

// Narrow takes notice that a router on the way from src to dst forwards packets of mtu bytes and no
// longer ones. It is believed for narrowFor; a destination that nothing was sent to is none.
func (t *Table) Narrow(dst, src netip.Addr, mtu int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hops[key{dst, src}]
	if h == nil || t.closed {
		return
	}
	if h.narrow == nil {
		h.narrow = &narrow{mtu: mtu}
		h.narrow.end = time.AfterFunc(narrowFor, func() { t.widen(h) })
	} else {
		h.narrow.mtu = min(h.narrow.mtu, mtu)
		h.narrow.end.Reset(narrowFor)
	}
	if s := *h.state.Load(); s.Status != Evicted && s.MTU > h.narrow.mtu {
		s.MTU = h.narrow.mtu
		h.set(s)
	}
}

// narrow is what a router has said of the way.
type narrow struct {
	mtu int
	end *time.Timer
}

// widen forgets it: the way may be another one by now. If not, the router will say so.
func (t *Table) widen(h *Hop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.narrow = nil
	t.enqueue(h, false)
}

// forgetNarrow ends the timer of a hop that goes away. mu is held.
func (h *Hop) forgetNarrow() {
	if h.narrow != nil {
		h.narrow.end.Stop()
		h.narrow = nil
	}
}
