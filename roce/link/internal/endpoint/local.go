package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
)

// Local is the local end of a link that writes frames: its addresses, their interfaces, the sockets
// that reserve the port there, its groups, and the kernel's view of the network.
type Local struct {
	Base
	Hops *nexthop.Table

	o Options

	ears    ears
	back    returned
	hearing sync.WaitGroup // their goroutines

	// mu guards the fields below.
	mu       sync.Mutex
	index    []int              // of the interfaces of the addresses, same order
	reserved []*portReservation // of the addresses, same order
	groups   map[membership]int // joins
	stopped  bool
}

// maxVLAN is the largest VLAN (IEEE 802.1Q; 0xFFF is reserved).
const maxVLAN = 4094

// Options configures a Local.
type Options struct {
	Name  string // of the link, for errors
	Addrs []netip.Addr
	Port  uint16 // 0 is 4791
	VLAN  uint16

	// Share, if set, returns UDP sockets that have the port on the addresses, which are on the
	// interfaces with the indexes, and receive nothing; nil if the port is not shared.
	Share func(addrs []netip.Addr, indexes []int) (fds []int, err error)
	// HopsChanged is called when destinations have become reachable or unreachable.
	HopsChanged func()
	// LinkChanged, if set, is called instead of State.Changed when an interface has changed; gone
	// says that it was removed.
	LinkChanged func(k rtnl.Link, gone bool)
	// Listen makes the link receive packets for a multicast group on an interface, or no longer.
	Listen func(group netip.Addr, index int, on bool) error
}

// Open initialises l. If it fails, Stop and Close release what exists. The error is a
// *link.OpenError.
func (l *Local) Open(o Options) (err error) {
	l.o, l.groups = o, make(map[membership]int)
	if o.VLAN > maxVLAN {
		return &link.OpenError{Err: fmt.Errorf("VLAN %d is not between 1 and %d", o.VLAN, maxVLAN)}
	}
	err = l.Base.Open(o.Addrs, o.Port, func(_ int, a netip.Addr, ifi *net.Interface) error {
		if ifi == nil {
			return &link.OpenError{Addr: a, Hint: sockio.BindHint(unix.EADDRNOTAVAIL, l.port), Err: unix.EADDRNOTAVAIL}
		}
		l.index = append(l.index, ifi.Index)
		return nil
	})
	if err != nil {
		return err
	}
	if o.VLAN != 0 && slices.ContainsFunc(l.index, func(i int) bool { return i != l.index[0] }) {
		return &link.OpenError{Err: errors.New("with a VLAN, all addresses must be on one interface")}
	}
	l.Hops, err = nexthop.Open(nexthop.Options{
		Changed: o.HopsChanged, LinkChanged: l.linkChanged, Poke: l.poke,
		Addrs: l.addrs, Indexes: l.index,
		Bound: o.VLAN != 0, // the kernel's routes do not know the tag
	})
	if err != nil {
		return &link.OpenError{Err: err}
	}
	var shared []int
	if o.Share != nil {
		if shared, err = o.Share(l.addrs, l.index); err != nil {
			return err
		}
	}
	for i, a := range l.addrs {
		k, _ := l.Hops.Link(l.index[i])
		if !k.Ethernet() {
			return &link.OpenError{Addr: a, Hint: "use the udp link",
				Err: fmt.Errorf("interface %s is not Ethernet", k.Name)}
		}
		var r *portReservation
		if shared != nil {
			r = sharedPort(shared[i], a, l.index[i], l.port)
		} else if r, err = reservePort(a, l.index[i], l.port); err != nil {
			return err
		}
		l.mu.Lock()
		l.reserved = append(l.reserved, r)
		l.mu.Unlock()
	}
	return nil
}

// Begin starts following the interfaces as a port. limit returns the longest IP packet that the
// link can handle on an interface, in bytes; override, if valid, bounds the MTU.
func (l *Local) Begin(limit func(index int) int, override ib.MTU) error {
	links := make(map[int]rtnl.Link)
	for i, index := range l.Indexes() {
		k, ok := l.Hops.Link(index)
		if !ok {
			return &link.OpenError{Addr: l.addrs[i], Err: nexthop.ErrDown}
		}
		links[index] = k
		if _, err := CheckMTU(l.addrs[i], k.Name, min(k.MTU, limit(index))); err != nil {
			return err
		}
	}
	l.State.Init(links, limit, override)
	for index, k := range links {
		l.catchUp(index, k)
	}
	l.listen()
	return nil
}

// linkChanged handles a change of an interface.
func (l *Local) linkChanged(k rtnl.Link, gone bool) {
	if l.o.LinkChanged != nil {
		l.o.LinkChanged(k, gone)
	} else {
		l.State.Changed(k, gone)
	}
}

// catchUp handles changes of an interface since it was looked at.
func (l *Local) catchUp(index int, seen rtnl.Link) {
	for {
		k, ok := l.Hops.Link(index)
		if !ok {
			l.linkChanged(seen, true)
			return
		}
		if k == seen {
			return
		}
		// If a notification came first, k is old, and the next look finds another state.
		l.linkChanged(k, false)
		seen = k
	}
}

// Stop ends background work; after it no callback is running.
func (l *Local) Stop() error {
	errs := []error{l.deafen()}
	if l.Hops != nil {
		errs = append(errs, l.Hops.Close())
	}
	errs = append(errs, l.Base.Stop())
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	return errors.Join(errs...)
}

// Close releases the port.
func (l *Local) Close() error {
	var errs []error
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range l.groups {
		if i := slices.Index(l.addrs, m.local); i < len(l.reserved) && l.reserved[i].shared {
			// Others keep the socket.
			errs = append(errs, l.reserved[i].leave(m.group))
		}
	}
	clear(l.groups)
	for _, r := range l.reserved {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// poke makes the kernel resolve a neighbour.
func (l *Local) poke(dst, src netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.addrs, src); i >= 0 && i < len(l.reserved) && !l.stopped {
		l.reserved[i].poke(dst)
	}
}

// Indexes returns the indexes of the interfaces of the addresses, in their order.
func (l *Local) Indexes() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.index)
}

// Flow returns the header fields of packets on a path. It returns false if nothing can be sent on
// it.
func (l *Local) Flow(p *edge.Path) (frame.Flow, bool) {
	src := p.Src.WithZone("")
	if !slices.Contains(l.addrs, src) || p.Dst.Is4() != src.Is4() {
		return frame.Flow{}, false
	}
	f := frame.Flow{
		Src: src, Dst: p.Dst.WithZone(""), SrcPort: cmp.Or(p.SrcPort, l.port), DstPort: l.port,
		TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, VLAN: l.o.VLAN,
	}
	if src.Is6() {
		f.FlowLabel = p.FlowLabel // IPv4 has no flow label: paths that differ only in it are one flow
	}
	return f, true
}

// Path initialises s for a path. It returns false if nothing can be sent on it.
func (l *Local) Path(s *transmit.Path, p *edge.Path, rxeFlush bool) bool {
	f, ok := l.Flow(p)
	if ok {
		s.Init(f, l.Hops, rxeFlush)
	}
	return ok
}
