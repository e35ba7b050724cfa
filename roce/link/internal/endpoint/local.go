package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/wire"
)

// Local is the local end of a link that writes frames: its addresses, the
// interfaces that they are on, the sockets that reserve the port there, the groups
// that it is in, and what the kernel knows of the network.
type Local struct {
	Hops  *nexthop.Table
	Waker *sockio.Poller
	State Port

	o     Options
	start time.Time

	ears    ears
	back    returned
	hearing sync.WaitGroup // their goroutines

	// mu guards what follows.
	mu       sync.Mutex
	index    []int              // of the interfaces of o.Addrs, same order
	reserved []*portReservation // of o.Addrs, same order
	groups   map[membership]int // joins
	stopped  bool
}

// maxVLAN is the largest VLAN (IEEE 802.1Q; 0xFFF is reserved).
const maxVLAN = 4094

// Options say what a Local is made of. Open normalises Addrs and Port.
type Options struct {
	Name  string // of the link, for errors
	Addrs []netip.Addr
	Port  uint16 // 0 is 4791
	VLAN  uint16

	// Share, if set, returns UDP sockets that have the port on the addresses, which are on
	// interfaces with the indexes, and receive nothing; nil if the port is not shared.
	Share func(addrs []netip.Addr, indexes []int) (fds []int, err error)
	// HopsChanged is called when destinations have become reachable or not.
	HopsChanged func()
	// LinkChanged, if set, is called when an interface has changed, gone if it was
	// removed, instead of State.Changed.
	LinkChanged func(k rtnl.Link, gone bool)
	// Listen makes the link receive what is sent to a multicast group on an
	// interface, or no longer.
	Listen func(group netip.Addr, index int, on bool) error
}

// Open fills in l. If it fails, Stop and Close release what there is. The error
// is a *link.OpenError.
func (l *Local) Open(o Options) (err error) {
	o.Addrs = slices.Clone(o.Addrs)
	if o.Port == 0 {
		o.Port = ib.UDPPort
	}
	l.o, l.start, l.groups = o, time.Now(), make(map[membership]int)
	switch {
	case len(o.Addrs) == 0:
		return &link.OpenError{Err: errors.New("no local address given")}
	case o.VLAN > maxVLAN:
		return &link.OpenError{Err: fmt.Errorf("VLAN %d is not between 1 and %d", o.VLAN, maxVLAN)}
	}
	for i := range l.o.Addrs {
		if err := l.check(i); err != nil {
			return err
		}
	}
	if l.Waker, err = sockio.NewPoller(); err != nil {
		return &link.OpenError{Err: err}
	}
	if o.VLAN != 0 && slices.ContainsFunc(l.index, func(i int) bool { return i != l.index[0] }) {
		return &link.OpenError{Err: errors.New("with a VLAN, all addresses must be on one interface")}
	}
	l.Hops, err = nexthop.Open(nexthop.Options{
		Changed: o.HopsChanged, LinkChanged: l.linkChanged, Poke: l.poke,
		Addrs: l.o.Addrs, Indexes: l.index,
		Bound: o.VLAN != 0, // the kernel's routes know nothing of the tag
	})
	if err != nil {
		return &link.OpenError{Err: err}
	}
	var shared []int
	if o.Share != nil {
		if shared, err = o.Share(l.o.Addrs, l.index); err != nil {
			return err
		}
	}
	for i, a := range l.o.Addrs {
		k, _ := l.Hops.Link(l.index[i])
		if !k.Ethernet() {
			return &link.OpenError{Addr: a, Hint: "use the udp link", Err: fmt.Errorf("interface %s is not Ethernet", k.Name)}
		}
		var r *portReservation
		if shared != nil {
			r = sharedPort(shared[i], a, l.index[i], o.Port)
		} else if r, err = reservePort(a, l.index[i], o.Port); err != nil {
			return err
		}
		l.mu.Lock()
		l.reserved = append(l.reserved, r)
		l.mu.Unlock()
	}
	return nil
}

// check normalises address i and finds its interface.
func (l *Local) check(i int) error {
	a := l.o.Addrs[i]
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
		return &link.OpenError{Addr: a, Hint: "give the address of an interface: peers and the ICRC need it", Err: errors.New("not a unicast address")}
	}
	a = a.Unmap()
	l.o.Addrs[i] = a.WithZone("")
	if slices.Contains(l.o.Addrs[:i], l.o.Addrs[i]) {
		return &link.OpenError{Addr: a, Err: errors.New("given twice")}
	}
	ifi, err := sockio.InterfaceOf(a)
	if err != nil {
		return &link.OpenError{Addr: a, Err: err}
	}
	if ifi == nil {
		return &link.OpenError{Addr: a, Hint: sockio.BindHint(unix.EADDRNOTAVAIL, l.o.Port), Err: unix.EADDRNOTAVAIL}
	}
	l.index = append(l.index, ifi.Index)
	return nil
}

// Begin begins to follow the interfaces as a port. limit returns the longest IP
// packet that the link can handle on an interface, in bytes; override, if valid,
// bounds the MTU.
func (l *Local) Begin(limit func(index int) int, override ib.MTU) error {
	links := make(map[int]rtnl.Link)
	for i, index := range l.Indexes() {
		k, ok := l.Hops.Link(index)
		if !ok {
			return &link.OpenError{Addr: l.o.Addrs[i], Err: nexthop.ErrDown}
		}
		links[index] = k
		if _, ok := ib.MTUForInterface(min(k.MTU, limit(index))); !ok {
			return &link.OpenError{Addr: l.o.Addrs[i], Hint: "raise the MTU of " + k.Name, Err: fmt.Errorf("interface MTU %d is too small for RoCE", k.MTU)}
		}
	}
	l.State.Init(links, limit, override)
	for index, k := range links {
		l.catchUp(index, k)
	}
	l.listen()
	return nil
}

// linkChanged takes notice of an interface that has changed.
func (l *Local) linkChanged(k rtnl.Link, gone bool) {
	if l.o.LinkChanged != nil {
		l.o.LinkChanged(k, gone)
	} else {
		l.State.Changed(k, gone)
	}
}

// catchUp takes notice of changes of an interface since it was looked at.
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
		// A notification may have been faster: then k is old, and not what is found next.
		l.linkChanged(k, false)
		seen = k
	}
}

// Stop ends what goes on in the background; after it no callback is running.
func (l *Local) Stop() error {
	errs := []error{l.deafen()}
	if l.Hops != nil {
		errs = append(errs, l.Hops.Close())
	}
	l.State.Watch(nil)
	if l.Waker != nil {
		errs = append(errs, l.Waker.Close())
	}
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	return errors.Join(errs...)
}

// Close gives the port back.
func (l *Local) Close() error {
	var errs []error
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range l.groups {
		if i := slices.Index(l.o.Addrs, m.local); i < len(l.reserved) && l.reserved[i].shared {
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
	if i := slices.Index(l.o.Addrs, src); i >= 0 && i < len(l.reserved) && !l.stopped {
		l.reserved[i].poke(dst)
	}
}

// Port returns the UDP port.
func (l *Local) Port() uint16 { return l.o.Port }

// Now returns the time since the link was opened, in nanoseconds.
func (l *Local) Now() int64 { return int64(time.Since(l.start)) }

// Addrs returns the local addresses, not to be changed.
func (l *Local) Addrs() []netip.Addr { return l.o.Addrs }

// Indexes returns the indexes of the interfaces of the addresses, in their order.
func (l *Local) Indexes() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.index)
}

// Flow returns what the headers of packets on a path say. It returns false if nothing can be
// sent on it.
func (l *Local) Flow(p *wire.Path) (frame.Flow, bool) {
	src := p.Src.WithZone("")
	if !slices.Contains(l.o.Addrs, src) || p.Dst.Is4() != src.Is4() {
		return frame.Flow{}, false
	}
	f := frame.Flow{
		Src: src, Dst: p.Dst.WithZone(""), SrcPort: cmp.Or(p.SrcPort, l.o.Port), DstPort: l.o.Port,
		TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, VLAN: l.o.VLAN,
	}
	if src.Is6() {
		f.FlowLabel = p.FlowLabel // IPv4 has no place for it: two that differ in it are one flow
	}
	return f, true
}

// Path begins s for a path. It returns false if nothing can be sent on it.
func (l *Local) Path(s *transmit.Path, p *wire.Path, rxeFlush bool) bool {
	f, ok := l.Flow(p)
	if ok {
		s.Init(f, l.Hops, rxeFlush)
	}
	return ok
}
