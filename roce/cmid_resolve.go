package roce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/goroce/goroce/ib"
)

// BindAddr gives the ID a local address and port (rdma_bind_addr). The zero
// address and the unspecified ones stand for all local addresses, port 0 for one that is
// free.
func (id *CMID) BindAddr(local netip.AddrPort) error {
	local = unmap(local)
	return id.do(func(_ int64, a *cmAgent) error {
		if err := id.need("bind", idIdle); err != nil {
			return err
		}
		if err := id.bindLocked(a, local); err != nil {
			return err
		}
		id.state = idBound
		return nil
	})
}

// bindLocked checks the address and takes the port.
func (id *CMID) bindLocked(a *cmAgent, local netip.AddrPort) error {
	if !local.Addr().IsValid() {
		local = netip.AddrPortFrom(id.d.unspecified(), local.Port())
	}
	if !local.Addr().IsUnspecified() && id.d.addrIndex(local.Addr().WithZone("")) < 0 {
		return &AddrError{"bind", local, ErrAddrNotLocal}
	}
	return a.bind(id, local)
}

// unspecified returns the address that stands for all of the device, in a family that
// it has.
func (d *Device) unspecified() netip.Addr {
	for _, a := range d.addrs {
		if a.Is4() {
			return netip.IPv4Unspecified()
		}
	}
	return netip.IPv6Unspecified()
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// ResolveAddr finds the way to a peer (rdma_resolve_addr): the local address
// to speak from, which is src unless that is zero or unspecified. An event
// CMAddrResolved follows. A multicast address as dst is allowed for port space UDP.
func (id *CMID) ResolveAddr(src, dst netip.AddrPort) error {
	src, dst = unmap(src), unmap(dst)
	if !dst.Addr().IsValid() {
		return &ArgError{"resolve address", "dst", "invalid"}
	}
	if dst.Addr().IsUnspecified() {
		// As connect(2) does: this host.
		lo := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if dst.Addr().Is6() {
			lo = netip.IPv6Loopback()
		}
		dst = netip.AddrPortFrom(lo, dst.Port())
	}
	if !id.d.link.Capabilities().Virtual {
		if err := checkZone(dst.Addr()); err != nil {
			return &AddrError{"resolve", dst, err}
		}
	}
	from, err := id.d.sourceFor(dst.Addr(), src.Addr())
	if err != nil {
		return &AddrError{"resolve", dst, err}
	}
	return id.do(func(_ int64, a *cmAgent) error {
		if err := id.need("resolve address", idIdle, idBound); err != nil {
			return err
		}
		if id.bound {
			if l := id.local.Addr(); !l.IsUnspecified() {
				from = id.d.addrIndex(l.WithZone(""))
			}
			if !sameFamily(id.d.addrs[from], dst.Addr()) {
				return &AddrError{"resolve", dst, &NoRouteError{Peer: dst.Addr(), Local: id.d.addrs[from : from+1]}}
			}
			id.local = netip.AddrPortFrom(id.d.addrs[from], id.local.Port())
		} else if err := a.bind(id, netip.AddrPortFrom(id.d.addrs[from], src.Port())); err != nil {
			return err
		}
		id.sgid, id.remote = from, dst
		id.state = idAddrResolved
		id.event(CMEvent{Type: CMAddrResolved})
		return nil
	})
}

func sameFamily(a, b netip.Addr) bool { return a.Is4() == b.Is4() }

// sourceFor returns the index of the local address to reach dst from: src if
// that is specified, else what the kernel's routing table says if the device has that
// address, else what GIDIndexFor says.
func (d *Device) sourceFor(dst, src netip.Addr) (int, error) {
	if src.IsValid() && !src.IsUnspecified() {
		i := d.addrIndex(src.WithZone(""))
		if i < 0 {
			return 0, ErrAddrNotLocal
		}
		if !sameFamily(d.addrs[i], dst) {
			return 0, &NoRouteError{Peer: dst, Local: []netip.Addr{src}}
		}
		return i, nil
	}
	if len(d.addrs) > 1 && !d.link.Capabilities().Virtual && !dst.IsMulticast() {
		if src, err := routeSource(dst); err == nil {
			if i := d.addrIndex(src); i >= 0 {
				return i, nil
			}
		}
	}
	return d.GIDIndexFor(ib.GIDFromAddr(dst))
}

// routeSource returns the address that the kernel would send to dst from.
// Connecting a datagram socket sends nothing.
func routeSource(dst netip.Addr) (netip.Addr, error) {
	if err := checkZone(dst); err != nil {
		return netip.Addr{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(dst, ib.UDPPort).String())
	if err != nil {
		return netip.Addr{}, &NoRouteError{Peer: dst, Err: routeErr(err)}
	}
	defer c.Close()
	l, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}, &NoRouteError{Peer: dst}
	}
	return l.AddrPort().Addr().Unmap().WithZone(""), nil
}

// checkZone looks for the interface that the zone of an address names. Without it
// the kernel says "invalid argument", and a link that knows one interface only
// would send to the address there.
func checkZone(a netip.Addr) error {
	zone := a.Zone()
	if zone == "" {
		return nil
	}
	_, err := net.InterfaceByName(zone)
	if n, bad := strconv.Atoi(zone); bad == nil {
		_, err = net.InterfaceByIndex(n)
	}
	if err != nil {
		return &NoRouteError{Peer: a, Err: fmt.Errorf("zone %q: %w", zone, routeErr(err))}
	}
	return nil
}

// routeErr takes from an error of package net what it has to say: the rest is
// about a port that the caller knows nothing of.
func routeErr(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// ResolveRoute finds the path to the peer (rdma_resolve_route). On RoCE there is
// nothing left to find; an event CMRouteResolved follows.
func (id *CMID) ResolveRoute() error {
	return id.do(func(int64, *cmAgent) error {
		if err := id.need("resolve route", idAddrResolved); err != nil {
			return err
		}
		id.state = idRouteResolved
		id.event(CMEvent{Type: CMRouteResolved})
		return nil
	})
}
