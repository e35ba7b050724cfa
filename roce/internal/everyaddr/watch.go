package everyaddr

import (
	"errors"
	"net/netip"
	"strconv"
	"sync"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/verbs"
)

// watcher asks the kernel for the addresses, and waits for their changes.
type watcher struct {
	mon *rtnl.Monitor // nil if there is no rtnetlink: the addresses are those of the beginning
	wg  sync.WaitGroup

	mu   sync.Mutex
	conn kernel               // nil with mon
	at   map[netip.Addr]place // where each was seen last
}

// kernel is what is asked; an *rtnl.Conn.
type kernel interface {
	Links() ([]rtnl.Link, error)
	Addresses() ([]rtnl.Address, error)
	Close() error
}

type place struct {
	index int // of the interface
	// off: the interface has been switched off since. The kernel takes its IPv6 addresses away
	// then, and they come back some time after it is switched on again, or by what advertises or
	// configures them.
	off bool
}

func (w *watcher) open() {
	w.at = map[netip.Addr]place{}
	// Subscribe before reading, so that no change is missed.
	mon, err := rtnl.NewLinkMonitor()
	if err != nil {
		return
	}
	conn, err := rtnl.Dial()
	if err != nil {
		_ = mon.Close()
		return
	}
	w.mon, w.conn = mon, conn
}

// start calls changed, from a goroutine of its own, whenever something has changed.
func (w *watcher) start(changed func()) {
	if w.mon == nil {
		return
	}
	w.wg.Go(func() {
		for {
			any := false
			err := w.mon.Next(func(e rtnl.Event) { any = w.note(e) || any })
			if err != nil {
				return // closed
			}
			if any {
				changed()
			}
		}
	})
}

// note takes an event, and reports whether addresses may have come or gone.
func (w *watcher) note(e rtnl.Event) bool {
	if e.Link != nil && !e.LinkGone && e.Link.Flags&unix.IFF_UP == 0 {
		w.switchedOff(e.Link.Index) // it may be on again when the kernel is asked
	}
	return e.Address != nil || e.Link != nil || e.Lost
}

// addrs returns the addresses of the host that sockets can be bound to, those that are link-local
// with their zone.
func (w *watcher) addrs() ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return verbs.DefaultAddrs()
	}
	links, addrs, err := w.ask()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range addrs {
		l, ok := links[a.Index]
		if !ok || l.Flags&unix.IFF_UP == 0 || !a.Usable() {
			continue
		}
		addr := withZone(a, l)
		w.at[addr] = place{index: a.Index}
		out = append(out, addr)
	}
	return out, nil
}

// ask asks for interfaces and addresses. mu is held.
func (w *watcher) ask() (map[int]rtnl.Link, []rtnl.Address, error) {
	all, err := w.conn.Links()
	addrs, err2 := w.conn.Addresses()
	links := make(map[int]rtnl.Link, len(all))
	for _, l := range all {
		links[l.Index] = l
	}
	return links, addrs, errors.Join(err, err2)
}

func withZone(a rtnl.Address, l rtnl.Link) netip.Addr {
	addr := a.Addr.Unmap()
	if !addr.Is6() || !addr.IsLinkLocalUnicast() {
		return addr
	}
	if l.Name == "" {
		return addr.WithZone(strconv.Itoa(l.Index))
	}
	return addr.WithZone(l.Name)
}

// switchedOff notes what happens to an interface.
func (w *watcher) switchedOff(index int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a, p := range w.at {
		if p.index == index && a.Is6() {
			w.at[a] = place{index, true}
		}
	}
}

// gone reports whether an address was taken away, as opposed to one that is missing for its
// interface is, or was, switched off. If it does not come back its connections end as with any peer
// that is silent.
func (w *watcher) gone(a netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return false
	}
	links, addrs, err := w.ask()
	if err != nil {
		return false
	}
	for _, x := range addrs {
		if l, ok := links[x.Index]; ok && withZone(x, l) == a {
			return false
		}
	}
	p := w.at[a]
	if l, ok := links[p.index]; ok && a.Is6() && (p.off || l.Flags&unix.IFF_UP == 0) {
		w.at[a] = place{p.index, true}
		return false
	}
	delete(w.at, a)
	return true
}

func (w *watcher) close() error {
	if w.mon == nil {
		return nil
	}
	err := w.mon.Close()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(err, w.conn.Close())
}
