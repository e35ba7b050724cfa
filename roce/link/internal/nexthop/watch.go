package nexthop

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// watch is the goroutine that reads notifications.
func (t *Table) watch() {
	defer t.wg.Done()
	for {
		changed := false
		err := t.mon.Next(func(e rtnl.Event) {
			if t.event(e) {
				changed = true
			}
		})
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			// No failure is known here; do not spin if one occurs.
			time.Sleep(retryAfter)
		}
		if changed && t.opts.Changed != nil {
			t.opts.Changed()
		}
	}
}

// event handles a notification and reports whether a hop has become Ready or Failed.
func (t *Table) event(e rtnl.Event) bool {
	if e.Link != nil {
		t.telling.Lock()
		defer t.telling.Unlock()
		if t.opts.LinkChanged != nil {
			defer t.opts.LinkChanged(*e.Link, e.LinkGone)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case e.Neighbour != nil:
		changed := false
		for _, h := range t.byNeig[e.Neighbour.NeighbourKey] {
			h.epoch++
			if e.EntryRemoved {
				t.enqueue(h, h.used.Load())
				continue
			}
			if t.apply(h, e.Neighbour) {
				changed = true
			}
		}
		return changed
	case e.Link != nil:
		old := t.links[e.Link.Index]
		t.news++
		if e.LinkGone {
			delete(t.links, e.Link.Index)
			t.follow.lost(e.Link.Index)
		} else {
			t.links[e.Link.Index] = *e.Link
			t.follow.again()
		}
		if *e.Link != old || e.LinkGone {
			t.enqueueAll()
		}
	case e.Address != nil:
		if slices.Contains(t.opts.Addrs, e.Address.Addr) {
			t.follow.look = true
			t.wakeWorker()
		}
		t.enqueueAll()
	case e.Lost:
		t.reload = true
		t.follow.unsure()
		t.enqueueAll()
		t.wakeWorker()
	default:
		t.enqueueAll()
	}
	return false
}

// apply updates the state of h from its entry in the neighbour table, and reports whether it has
// become Ready or Failed. mu is held.
func (t *Table) apply(h *Hop, n *rtnl.Neighbour) bool {
	old := h.state.Load()
	if old == stateEvicted {
		return false
	}
	s := *old
	s.Err = nil
	switch {
	case n.Valid():
		s.Status, s.Dst, s.stale = Ready, n.MAC, n.Stale()
		if s.stale && h.used.Swap(false) {
			// In use: confirm it now. Otherwise the next use will.
			t.enqueue(h, true)
			s.stale = false
		}
	case n.Failed():
		s.Status, s.Err = Failed, ErrNeighbour
	case old.Status == Ready:
		return false // being resolved: the old MAC is the best guess
	default:
		s.Status = Pending
	}
	return h.set(s)
}

// set replaces the state and reports whether it has become Ready or Failed.
func (h *Hop) set(s State) bool {
	old := h.state.Load()
	if *old == s {
		return false
	}
	h.state.Store(&s)
	return s.Status != old.Status && s.Status != Pending
}
