package nexthop

import (
	"errors"
	"syscall"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
)

func (t *Table) resolve(h *Hop, probe bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueue(h, probe)
}

// enqueue makes the worker resolve h. mu is held.
func (t *Table) enqueue(h *Hop, probe bool) {
	if t.closed || h.state.Load() == stateEvicted {
		return
	}
	h.probe = h.probe || probe
	h.epoch++
	if !h.queued {
		h.queued = true
		t.queue = append(t.queue, h)
	}
	t.wakeWorker()
}

// wakeWorker wakes the worker. mu is held.
func (t *Table) wakeWorker() {
	if t.closed {
		return
	}
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// enqueueAll resolves all hops anew. mu is held.
func (t *Table) enqueueAll() {
	for _, h := range t.hops {
		t.enqueue(h, h.used.Load())
	}
}

// work is the goroutine that asks the kernel.
func (t *Table) work() {
	defer t.wg.Done()
	for range t.kick {
		changed := false
		for {
			t.mu.Lock()
			if t.closed {
				t.mu.Unlock()
				return
			}
			reload, look, moved := t.reload, t.follow.due(), t.follow.moved
			t.reload = false
			var h *Hop
			probe, epoch := false, uint64(0)
			if n := len(t.queue); n > 0 {
				h = t.queue[n-1]
				t.queue[n-1] = nil
				t.queue = t.queue[:n-1]
				h.queued = false
				probe, epoch = h.probe, h.epoch
				h.probe = false
			}
			t.mu.Unlock()
			t.asking.Lock()
			if reload {
				if err := t.readLinks(); err != nil {
					t.mu.Lock()
					t.reload = true
					t.mu.Unlock()
				}
			}
			var moves []int
			if look {
				moves = t.locate()
			}
			if h != nil && t.ask(h, probe, epoch) {
				changed = true
			}
			t.asking.Unlock()
			for _, i := range moves {
				moved(i)
			}
			if h == nil {
				break
			}
		}
		if changed && t.opts.Changed != nil {
			t.opts.Changed()
		}
	}
}

// route asks for the route of packets of a key. Those to a multicast group leave by the interface
// of their source.
func (t *Table) route(k key) (rtnl.Route, error) {
	index := t.leaveBy(k)
	if k.dst.IsMulticast() {
		return rtnl.Route{Type: unix.RTN_MULTICAST, Index: index}, nil
	}
	return t.conn.Route(k.dst, k.src, index)
}

// ask resolves a hop, and reports whether it has become Ready or Failed. asking is held.
func (t *Table) ask(h *Hop, probe bool, epoch uint64) bool {
	r, err := t.route(h.key)
	t.mu.Lock()
	s := *h.state.Load()
	if s.Status == Evicted || h.epoch != epoch {
		t.enqueue(h, probe) // something changed meanwhile
		t.mu.Unlock()
		return false
	}
	l, known := t.links[r.Index]
	switch {
	case err != nil:
		s = State{Status: Failed, Err: err}
	case r.Type != unix.RTN_UNICAST && r.Type != unix.RTN_LOCAL && r.Type != unix.RTN_MULTICAST:
		s = State{Status: Failed, Err: syscall.ENETUNREACH}
	case !known || !l.Up():
		s = State{Status: Failed, Err: ErrDown}
	case !l.Ethernet():
		s = State{Status: Failed, Err: errors.New("the interface " + l.Name + " is not Ethernet")}
	default:
		if s.Index != r.Index {
			s = State{}
		}
		s.Index, s.Src, s.Err = r.Index, l.MAC, nil
		s.MTU, s.GSOMax = l.MTU, l.GSOMax
		if r.MTU > 0 {
			s.MTU = min(s.MTU, r.MTU)
		}
		if h.narrow != nil {
			s.MTU = min(s.MTU, h.narrow.mtu)
		}
		if r.Type == unix.RTN_MULTICAST {
			s.Status, s.Dst, s.stale = Ready, multicastMAC(h.key.dst), false
			break
		}
		if l.Flags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
			// Like the kernel, on interfaces without neighbour resolution.
			s.Status, s.Dst, s.stale = Ready, l.MAC, false
			break
		}
		k := rtnl.NeighbourKey{Index: r.Index, Addr: h.key.dst}
		if r.Gateway.IsValid() {
			k.Addr = r.Gateway
		}
		t.attach(h, k)
		if s.Status == Failed {
			s.Status = Pending
			if err := h.state.Load().Err; errors.Is(err, ErrNeighbour) {
				// Packets are dropped rather than kept until the neighbour answers.
				s.Status, s.Err = Failed, err
			}
		}
		h.set(s)
		t.mu.Unlock()
		return t.askNeighbour(h, k, probe, epoch)
	}
	t.detach(h)
	changed := h.set(s)
	t.mu.Unlock()
	return changed
}

// nudBusy are the states in which the kernel needs no push.
const nudBusy = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE |
	unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_INCOMPLETE

// askNeighbour resolves the neighbour of a hop whose route is known.
func (t *Table) askNeighbour(h *Hop, k rtnl.NeighbourKey, probe bool, epoch uint64) bool {
	n, err := t.conn.Neighbour(k)
	if probe && (err != nil || n.State&nudBusy == 0) {
		if t.conn.Probe(k) != nil && t.opts.Poke != nil {
			t.opts.Poke(h.key.dst, h.key.src)
		}
		n, err = t.conn.Neighbour(k)
		if n.Stale() {
			n.State = unix.NUD_DELAY // nothing more can be done
		}
	}
	if err != nil {
		return false // no entry: a notification will come, or another try
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.epoch != epoch {
		return false // a notification came first
	}
	if n.State&unix.NUD_INCOMPLETE != 0 && h.state.Load().Status == Failed {
		return false
	}
	return t.apply(h, &n)
}
