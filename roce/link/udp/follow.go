package udp

import (
	"errors"
	"sync"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
)

// follower keeps up with the interfaces of the link's addresses.
type follower struct {
	l *Link

	mon  *rtnl.Monitor // nil if there is no rtnetlink
	conn *rtnl.Conn    // asks: of open, then of the goroutine
	wg   sync.WaitGroup
	at   []rtnl.Link // where the addresses are, or were last
}

// longestIP is more than any interface says.
const longestIP = 1 << 16

// open begins with the interfaces as they are. Without rtnetlink the port stays as the
// sockets found it.
func (f *follower) open(l *Link) {
	f.l = l
	f.at = make([]rtnl.Link, len(l.socks))
	for i := range f.at {
		// An address that is on no interface can always be used, and there is no news of it.
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
			f.l.local.State.Reset(f.links()) // what holds now counts, not what was said of a moment ago
		}
	}
}

// links returns the interfaces of the addresses. One that was removed is down.
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

// on returns the interface that the address of a socket is on now; old is where it
// was.
func (s *socket) on(old rtnl.Link, all []rtnl.Link, addrs []rtnl.Address) rtnl.Link {
	for _, k := range all {
		if s.addr.Is4() && s.addr.IsLoopback() && k.Flags&unix.IFF_LOOPBACK != 0 {
			return k // all of 127/8 is there by the one address of the interface
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
