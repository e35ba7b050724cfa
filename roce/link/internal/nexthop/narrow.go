package nexthop

import (
	"net/netip"
	"time"
)

// Narrow records that a router on the path from src to dst forwards only packets of up to mtu
// bytes. That counts for narrowFor; it is ignored if nothing was sent to dst.
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

// narrow is a router's report about the path.
type narrow struct {
	mtu int
	end *time.Timer
}

// widen drops it: the path may have changed. If not, the router will report again.
func (t *Table) widen(h *Hop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.narrow = nil
	t.enqueue(h, false)
}

// forgetNarrow ends the timer of a hop that is dropped. mu is held.
func (h *Hop) forgetNarrow() {
	if h.narrow != nil {
		h.narrow.end.Stop()
		h.narrow = nil
	}
}
