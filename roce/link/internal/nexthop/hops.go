package nexthop

import (
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// Get returns the hop for packets from src to dst, a unicast address or a multicast group. A new
// one is looked up at once, which takes some tens of microseconds: a burst to a neighbour that the
// kernel knows need not wait for the worker.
func (t *Table) Get(dst, src netip.Addr) *Hop {
	h, fresh := t.hop(key{dst, src})
	if fresh {
		t.asking.Lock()
		defer t.asking.Unlock()
		t.mu.Lock()
		closed, epoch := t.closed, h.epoch
		t.mu.Unlock()
		if !closed {
			t.ask(h, true, epoch)
		}
	}
	return h
}

// hop returns the hop of a key, and whether it is new.
func (t *Table) hop(k key) (h *Hop, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hops[k]; h != nil {
		return h, false
	}
	if len(t.hops) >= maxHops {
		t.evict()
	}
	h = &Hop{t: t, key: k}
	h.used.Store(true)
	h.state.Store(statePending)
	h.tried.Store(time.Now().UnixNano())
	t.hops[k] = h
	return h, true
}

// evict drops hops that were not used since the last time; all of them if all were. mu is held.
func (t *Table) evict() {
	before := len(t.hops)
	for range 2 {
		for k, h := range t.hops {
			if !h.used.Swap(false) {
				delete(t.hops, k)
				t.detach(h)
				h.forgetNarrow()
				h.state.Store(stateEvicted)
			}
		}
		if len(t.hops) < before {
			return
		}
	}
}

func (t *Table) detach(h *Hop) {
	if !h.neigh.Addr.IsValid() {
		return
	}
	list := t.byNeig[h.neigh]
	for i := range list {
		if list[i] == h {
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(t.byNeig, h.neigh)
	} else {
		t.byNeig[h.neigh] = list
	}
	h.neigh = rtnl.NeighbourKey{}
}

// attach makes h follow the entry k. mu is held.
func (t *Table) attach(h *Hop, k rtnl.NeighbourKey) {
	if h.neigh != k {
		t.detach(h)
		h.neigh = k
		t.byNeig[k] = append(t.byNeig[k], h)
	}
}
