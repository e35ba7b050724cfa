package nexthop

import (
	"cmp"
	"errors"
	"net/netip"
	"sync"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// Options are the inputs and callbacks of a Table.
type Options struct {
	// Addrs are the local source addresses, Indexes their interfaces.
	Addrs   []netip.Addr
	Indexes []int
	// Bound says that packets leave by the interface of their source address, whatever the routes
	// say. Those to link-local addresses and to multicast groups always do.
	Bound bool
	// Changed is called after hops have become Ready or Failed.
	Changed func()
	// LinkChanged is called when an interface has changed; gone says that it was removed.
	LinkChanged func(l rtnl.Link, gone bool)
	// Poke makes the kernel resolve a neighbour by sending it anything from src; it is called if
	// Probe is not permitted.
	Poke func(dst, src netip.Addr)
}

// Table has the hops of a link.
type Table struct {
	opts Options
	mon  *rtnl.Monitor

	// asking is held while the kernel is asked; it is taken before mu.
	asking sync.Mutex
	conn   *rtnl.Conn

	mu     sync.Mutex
	hops   map[key]*Hop
	byNeig map[rtnl.NeighbourKey][]*Hop
	links  map[int]rtnl.Link
	news   uint64 // counts notifications of interfaces
	queue  []*Hop // to be resolved
	reload bool   // read links again
	closed bool
	follow follow

	// telling is taken before mu, and held while links changes and LinkChanged is called for it: so
	// the last call reports the current state.
	telling sync.Mutex

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
	t.follow.begin(&o, t.links)
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
	for _, h := range t.hops {
		h.forgetNarrow()
	}
	close(t.kick)
	t.mu.Unlock()
	err := t.mon.Close()
	t.wg.Wait()
	t.asking.Lock()
	defer t.asking.Unlock()
	return errors.Join(err, t.conn.Close())
}

// readLinks asks for all interfaces, and reports those that have changed. asking is held, except
// for the first call.
func (t *Table) readLinks() error {
	t.mu.Lock()
	news := t.news
	t.mu.Unlock()
	links, err := t.conn.Links()
	if err != nil {
		return err
	}
	m := make(map[int]rtnl.Link, len(links))
	for _, l := range links {
		m[l.Index] = l
	}
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	if t.news != news {
		// A notification may be newer than the answer.
		t.reload = true
		t.wakeWorker()
		t.mu.Unlock()
		return nil
	}
	before := t.links
	t.links = m
	if t.follow.again(); t.follow.look {
		t.wakeWorker()
	}
	t.mu.Unlock()
	if t.opts.LinkChanged == nil {
		return nil
	}
	for index, l := range before {
		if now, ok := m[index]; !ok || now != l {
			t.opts.LinkChanged(cmp.Or(now, l), !ok)
		}
	}
	return nil
}

// Link returns an interface.
func (t *Table) Link(index int) (rtnl.Link, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.links[index]
	return l, ok
}
