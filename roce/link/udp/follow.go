package udp

import (
	"errors"
	"sync"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
)

// follower follows changes of the interfaces of the link's addresses.
type follower struct {
	l *Link

	mon  *rtnl.Monitor // nil if there is no rtnetlink
	conn *rtnl.Conn    // for queries: of open, then of the goroutine
	wg   sync.WaitGroup
	at   []rtnl.Link // where the addresses are, or last were
}

// longestIP exceeds the MTU of any interface.
const longestIP = 1 << 16

// open starts with the current state of the interfaces. Without rtnetlink the port stays as the
// sockets found it.
func (f *follower) open(l *Link) {
	f.l = l
	f.at = make([]rtnl.Link, len(l.socks))
	for i := range f.at {
		// An address without an interface can always be used, and never changes.
		f.at[i] = rtnl.Link{Flags: unix.IFF_UP | unix.IFF_LOWER_UP, MTU: longestIP}
	}
	// Subscribe before reading, so that no change is missed.
	mon, err := rtnl.NewLinkMonitor()
	if err == nil {
		if f.conn, err = rtnl.Dial(); err != nil {
			_ = mon.Close()
		} else {
			f.mon = mon
		}
	}
	override := l.opts.MTU
	if f.mon == nil {
		override = l.mtu
	}
	f.l.local.State.Init(f.links(), func(int) int { return longestIP }, override)
	if f.mon != nil {
		f.wg.Add(1)
		go f.watch()
	}
}

// watch is the goroutine that reads notifications.
func (f *follower) watch() {
	defer f.wg.Done()
	for {
		changed := false
		if f.mon.Next(func(e rtnl.Event) { changed = changed || e.Link != nil || e.Address != nil || e.Lost }) != nil {
			return // closed
		}
		if changed {
			f.l.local.State.Reset(f.links()) // read the current state rather than trust the notification
		}
	}
}

// links returns the interfaces of the addresses. A removed one is down.
func (f *follower) links() map[int]rtnl.Link {
	if f.conn != nil {
		all, err := f.conn.Links()
		addrs, err2 := f.conn.Addresses()
		if err == nil && err2 == nil {
			for i, s := range f.l.socks {
				f.at[i] = s.on(f.at[i], all, addrs)
			}
		}
	}
	links := make(map[int]rtnl.Link)
	for _, k := range f.at {
		if f.l.opts.MTU.Valid() {
			k.MTU = longestIP // the option says what fits
		}
		links[k.Index] = k
	}
	return links
}

// on returns the interface that the address of a socket is on now; old is the previous one.
func (s *socket) on(old rtnl.Link, all []rtnl.Link, addrs []rtnl.Address) rtnl.Link {
	for _, k := range all {
		if s.addr.Is4() && s.addr.IsLoopback() && k.Flags&unix.IFF_LOOPBACK != 0 {
			return k // the interface's one address makes all of 127/8 local
		}
		for _, a := range addrs {
			// Others may have the same link-local address.
			if a.Index == k.Index && a.Addr == s.addr && (!s.addr.IsLinkLocalUnicast() || k.Name == s.ifName) {
				return k
			}
		}
	}
	if old.Index != 0 {
		old.Flags = 0
	}
	return old
}

// close ends the goroutine.
func (f *follower) close() error {
	if f.mon == nil {
		return nil
	}
	err := f.mon.Close()
	f.wg.Wait()
	return errors.Join(err, f.conn.Close())
}
