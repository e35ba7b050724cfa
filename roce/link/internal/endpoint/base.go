package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// Base is what all links with sockets have: local addresses and a UDP port, a clock, a Waker, the
// state of their interfaces, and whether they can be used.
type Base struct {
	Waker *sockio.Poller
	State Port
	Life  sockio.Life

	addrs []netip.Addr // without zones
	port  uint16
	start time.Time
}

// Open starts the clock, checks the addresses, and makes the Waker; port 0 is 4791. It calls on for
// each address, with its zone and its interface, or nil if it is on none.
func (b *Base) Open(addrs []netip.Addr, port uint16, on func(i int, a netip.Addr, ifi *net.Interface) error) error {
	b.port, b.start = port, time.Now()
	if port == 0 {
		b.port = ib.UDPPort
	}
	if len(addrs) == 0 {
		return &link.OpenError{Err: errors.New("no local address given")}
	}
	for i, a := range addrs {
		a = a.Unmap()
		if err := CheckAddr(a, b.addrs); err != nil {
			return err
		}
		b.addrs = append(b.addrs, a.WithZone(""))
		ifi, err := sockio.InterfaceOf(a)
		if err != nil {
			return &link.OpenError{Addr: a, Err: err}
		}
		if err := on(i, a, ifi); err != nil {
			return err
		}
	}
	var err error
	if b.Waker, err = sockio.NewPoller(); err != nil {
		return &link.OpenError{Err: err, Hint: sockio.CallHint(err)}
	}
	return nil
}

// CheckAddr returns an error if a link cannot have the address a besides others.
func CheckAddr(a netip.Addr, others []netip.Addr) error {
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
		return &link.OpenError{Addr: a, Hint: "give the address of an interface: peers and the ICRC need it",
			Err: errors.New("not a unicast address")}
	}
	if slices.Contains(others, a.WithZone("")) {
		return &link.OpenError{Addr: a, Err: errors.New("given twice")}
	}
	return nil
}

// CheckMTU returns the largest path MTU of an interface of an address that takes IP packets of the
// given length in bytes, or an error if that is too short.
func CheckMTU(a netip.Addr, name string, bytes int) (ib.MTU, error) {
	m, ok := ib.MTUForInterface(bytes)
	if !ok {
		return m, &link.OpenError{Addr: a, Hint: "raise the MTU of " + name,
			Err: fmt.Errorf("interface MTU %d is too small for RoCE", bytes)}
	}
	return m, nil
}

// Port returns the UDP port.
func (b *Base) Port() uint16 { return b.port }

// Addrs returns the local addresses, which the caller must not change.
func (b *Base) Addrs() []netip.Addr { return b.addrs }

// Fail ends the use of the link because of an error of one of its sockets.
func (b *Base) Fail(err error) {
	if b.Life.Fail(err) {
		b.Waker.Wake()
	}
}

// Stop ends notifications about the interfaces, and closes the Waker.
func (b *Base) Stop() error {
	b.State.Watch(nil)
	if b.Waker != nil {
		return b.Waker.Close()
	}
	return nil
}

// Face returns the methods that links expose.
func (b *Base) Face() Face { return Face{b} }

// Face has the methods that are the same for all links with a Base. Links embed it.
type Face struct{ b *Base }

// Now returns the time since the link was opened, in nanoseconds.
func (f Face) Now() int64 { return int64(time.Since(f.b.start)) }

// Addrs returns the local addresses.
func (f Face) Addrs() []netip.Addr { return slices.Clone(f.b.addrs) }

// MTU returns the largest path MTU that the interfaces carry now.
func (f Face) MTU() ib.MTU { return f.b.State.MTU() }

// Watch calls w with the state of the interfaces, now and whenever it changes. w must not call
// Watch or Close.
func (f Face) Watch(w func(link.PortState)) { f.b.State.Watch(w) }

// Wake makes Wait return.
func (f Face) Wake() { f.b.Waker.Wake() }
