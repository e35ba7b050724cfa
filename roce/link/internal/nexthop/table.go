package nexthop

import (
	"errors"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce/link/internal/rtnl"
	"golang.org/x/sys/unix"
)

// Options are what the owner of a Table wants to be told and asked.
type Options struct {
	// Index, if not 0, is the only interface to leave by.
	Index int
	// Changed is called after hops have become Ready or Failed.
	Changed func()
	// LinkChanged is called when an interface has changed; gone if it was removed.
	LinkChanged func(l rtnl.Link, gone bool)
	// Poke makes the kernel resolve a neighbour where Probe is not permitted, by
	// sending it anything from src.
	Poke func(dst, src netip.Addr)
}

// Table is the hops of a link.
type Table struct {
	opts Options
	mon  *rtnl.Monitor

	// asking is held while the kernel is asked, and before mu.
	asking sync.Mutex
	conn   *rtnl.Conn

	mu     sync.Mutex
	hops   map[key]*Hop
	byNeig map[rtnl.NeighbourKey][]*Hop
	links  map[int]rtnl.Link
	queue  []*Hop // to be resolved
	reload bool   // links are to be read again
	closed bool

	kick chan struct{}
	wg   sync.WaitGroup
}

// Open starts following the kernel's tables.
func Open(o Options) (*Table, error) {
	t := &Table{
		opts: o, hops: make(map[key]*Hop), byNeig: make(map[rtnl.NeighbourKey][]*Hop),
		kick: make(chan struct{}, 1),
	}
	var err error
	// Subscribe before reading, so that no change is missed.
	if t.mon, err = rtnl.NewMonitor(); err != nil {
		return nil, err
	}
	if t.conn, err = rtnl.Dial(); err == nil {
		err = t.readLinks()
	}
	if err != nil {
		t.mon.Close()
		if t.conn != nil {
			t.conn.Close()
		}
		return nil, err
	}
	t.wg.Add(2)
	go t.watch()
	go t.work()
	return t, nil
}

// Close ends the table's goroutines. Hops stay as they are.
func (t *Table) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	close(t.kick)
	t.mu.Unlock()
	err := t.mon.Close()
	t.wg.Wait()
	t.asking.Lock()
	defer t.asking.Unlock()
	return errors.Join(err, t.conn.Close())
}

func (t *Table) readLinks() error {
	links, err := t.conn.Links()
	if err != nil {
		return err
	}
	m := make(map[int]rtnl.Link, len(links))
	for _, l := range links {
		m[l.Index] = l
	}
	t.mu.Lock()
	t.links = m
	t.mu.Unlock()
	return nil
}

// Link returns an interface.
func (t *Table) Link(index int) (rtnl.Link, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.links[index]
	return l, ok
}

// Get returns the hop for packets from src to the unicast address dst. One that is new is
// looked up at once, which takes some tens of microseconds: a burst to a neighbour
// that the kernel knows need not wait for the worker.
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

// evict forgets hops that were not used since the last time; all of them if
// all were. mu is held.
func (t *Table) evict() {
	before := len(t.hops)
	for range 2 {
		for k, h := range t.hops {
			if !h.used.Swap(false) {
				delete(t.hops, k)
				t.detach(h)
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

func (t *Table) resolve(h *Hop, probe bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueue(h, probe)
}

// enqueue has the worker resolve h. mu is held.
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

// wakeWorker sets the worker going. mu is held.
func (t *Table) wakeWorker() {
	if t.closed {
		return
	}
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// enqueueAll resolves everything anew. mu is held.
func (t *Table) enqueueAll() {
	for _, h := range t.hops {
		t.enqueue(h, h.used.Load())
	}
}

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
			// Nothing is known to fail here; do not spin if something does.
			t.mu.Lock()
			closed := t.closed
			t.mu.Unlock()
			if closed {
				return
			}
			time.Sleep(retryAfter)
			continue
		}
		if changed && t.opts.Changed != nil {
			t.opts.Changed()
		}
	}
}

// event handles a notification and reports whether a hop has become Ready or
// Failed.
func (t *Table) event(e rtnl.Event) bool {
	if e.Link != nil && t.opts.LinkChanged != nil {
		defer t.opts.LinkChanged(*e.Link, e.LinkGone)
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
		if e.LinkGone {
			delete(t.links, e.Link.Index)
		} else {
			t.links[e.Link.Index] = *e.Link
		}
		if *e.Link != old || e.LinkGone {
			t.enqueueAll()
		}
	case e.Lost:
		t.reload = true
		t.enqueueAll()
		t.wakeWorker()
	default:
		t.enqueueAll()
	}
	return false
}

// apply brings the state of h up to date with its entry in the neighbour
// table, and reports whether it has become Ready or Failed. mu is held.
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
			// In use: confirm it now. If nobody uses it, the next to do so will.
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
			reload := t.reload
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
			if h != nil && t.ask(h, probe, epoch) {
				changed = true
			}
			t.asking.Unlock()
			if h == nil {
				break
			}
		}
		if changed && t.opts.Changed != nil {
			t.opts.Changed()
		}
	}
}

// ask resolves a hop, and reports whether it has become Ready or Failed. asking is held.
func (t *Table) ask(h *Hop, probe bool, epoch uint64) bool {
	r, err := t.conn.Route(h.key.dst, h.key.src, t.opts.Index)
	t.mu.Lock()
	s := *h.state.Load()
	if s.Status == Evicted || h.epoch != epoch {
		if !h.queued {
			t.enqueue(h, probe) // something changed meanwhile
		}
		t.mu.Unlock()
		return false
	}
	l, known := t.links[r.Index]
	switch {
	case err != nil:
		s = State{Status: Failed, Err: err}
	case r.Type != unix.RTN_UNICAST && r.Type != unix.RTN_LOCAL:
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
		s.Loopback = l.Flags&unix.IFF_LOOPBACK != 0
		s.MTU, s.GSOMax = l.MTU, l.GSOMax
		if r.MTU > 0 {
			s.MTU = min(s.MTU, r.MTU)
		}
		if l.Flags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
			// As the kernel does where nobody can be asked.
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
				// Packets are dropped, not kept, until the neighbour answers.
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

// askNeighbour goes on with a hop whose route is known.
func (t *Table) askNeighbour(h *Hop, k rtnl.NeighbourKey, probe bool, epoch uint64) bool {
	n, err := t.conn.Neighbour(k)
	if probe && (err != nil || n.State&nudBusy == 0) {
		if t.conn.Probe(k) != nil && t.opts.Poke != nil {
			t.opts.Poke(h.key.dst, h.key.src)
		}
		n, err = t.conn.Neighbour(k)
		if n.Stale() {
			n.State = unix.NUD_DELAY // what could be done was
		}
	}
	if err != nil {
		return false // no entry: there will be a notification, or another try
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.epoch != epoch {
		return false // a notification was faster
	}
	if n.State&unix.NUD_INCOMPLETE != 0 && h.state.Load().Status == Failed {
		return false
	}
	return t.apply(h, &n)
}
