package rdmacm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/verbs"
)

// BindAddr gives the ID a local address and port (rdma_bind_addr). The zero address and the
// unspecified ones stand for all addresses that the device was opened with, port 0 for a free port.
// An ID stays on one device: roce.Listener can follow the addresses of the host.
func (id *ID) BindAddr(local netip.AddrPort) error {
	local = unmap(local)
	return id.do(func(_ int64, a *agent) error {
		if err := id.requireState("bind", idIdle); err != nil {
			return err
		}
		return id.bindLocked(a, local)
	})
}

// bindLocked checks the address and reserves the port.
func (id *ID) bindLocked(a *agent, local netip.AddrPort) error {
	if !local.Addr().IsValid() {
		local = netip.AddrPortFrom(unspecified(id.s), local.Port())
	}
	if !local.Addr().IsUnspecified() && id.s.AddrIndex(local.Addr().WithZone("")) < 0 {
		return &verbs.AddrError{Op: "bind", Addr: local, Err: verbs.ErrAddrNotLocal}
	}
	return a.bind(id, local)
}

// unspecified returns the address that stands for all of the device's, in a family that it has.
func unspecified(s *shard.Shard) netip.Addr {
	for _, a := range s.Addrs() {
		if a.Is4() {
			return netip.IPv4Unspecified()
		}
	}
	return netip.IPv6Unspecified()
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// ResolveAddr finds the local address from which to reach a peer (rdma_resolve_addr): src, unless
// that is zero or unspecified. EventAddrResolved follows. In port space UDP dst may be a multicast
// address. If the kernel knows no way from there the error is a [verbs.NoRouteError].
func (id *ID) ResolveAddr(src, dst netip.AddrPort) error {
	src, dst = unmap(src), unmap(dst)
	if !dst.Addr().IsValid() {
		return argError("resolve address", "dst", "invalid")
	}
	if dst.Addr().IsUnspecified() {
		// This host, as for connect(2).
		lo := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if dst.Addr().Is6() {
			lo = netip.IPv6Loopback()
		}
		dst = netip.AddrPortFrom(lo, dst.Port())
	}
	virtual := id.s.Link().Capabilities().Virtual
	if !virtual {
		if err := checkZone(dst.Addr()); err != nil {
			return &verbs.AddrError{Op: "resolve", Addr: dst, Err: err}
		}
	}
	from, err := sourceFor(id.d, dst.Addr(), src.Addr())
	if err == nil && !virtual && !dst.Addr().IsMulticast() {
		way := id.s.Addrs()[from]
		if bound := id.LocalAddr().Addr(); bound.IsValid() && !bound.IsUnspecified() {
			way = bound
		}
		err = checkRoute(way, dst.Addr())
	}
	if err != nil {
		return &verbs.AddrError{Op: "resolve", Addr: dst, Err: err}
	}
	return id.do(func(_ int64, a *agent) error {
		if err := id.requireState("resolve address", idIdle, idBound); err != nil {
			return err
		}
		if id.bound {
			if l := id.local.Addr(); !l.IsUnspecified() {
				from = id.s.AddrIndex(l.WithZone(""))
			}
			if !sameFamily(id.s.Addrs()[from], dst.Addr()) {
				return &verbs.AddrError{Op: "resolve", Addr: dst,
					Err: &verbs.NoRouteError{Peer: dst.Addr(), Local: id.s.Addrs()[from : from+1]}}
			}
			id.local = netip.AddrPortFrom(id.s.Addrs()[from], id.local.Port())
		} else if err := a.bind(id, netip.AddrPortFrom(id.s.Addrs()[from], src.Port())); err != nil {
			return err
		}
		id.sgid, id.remote = from, dst
		id.event(Event{Type: EventAddrResolved})
		return nil
	})
}

func sameFamily(a, b netip.Addr) bool { return a.Is4() == b.Is4() }

// sourceFor returns the index of the local address from which to reach dst: src if that is
// specified; else the one that the kernel's routing table chooses, if the device has it; else that
// of GIDIndexFor.
func sourceFor(d *verbs.Device, dst, src netip.Addr) (int, error) {
	s := access.Shard(d)
	if src.IsValid() && !src.IsUnspecified() {
		i := s.AddrIndex(src.WithZone(""))
		if i < 0 {
			return 0, verbs.ErrAddrNotLocal
		}
		if !sameFamily(s.Addrs()[i], dst) {
			return 0, &verbs.NoRouteError{Peer: dst, Local: []netip.Addr{src}}
		}
		return i, nil
	}
	if len(s.Addrs()) > 1 && !s.Link().Capabilities().Virtual && !dst.IsMulticast() {
		if src, err := RouteSource(dst); err == nil {
			if i := s.AddrIndex(src); i >= 0 {
				return i, nil
			}
		}
	}
	return d.GIDIndexFor(ib.GIDFromAddr(dst))
}

// RouteSource returns the address from which the kernel would send to dst. It connects a datagram
// socket, which sends nothing.
func RouteSource(dst netip.Addr) (netip.Addr, error) {
	if err := checkZone(dst); err != nil {
		return netip.Addr{}, err
	}
	src, err := connectFrom(nil, dst)
	if err != nil {
		return netip.Addr{}, sourceError(dst, err)
	}
	return src.Unmap().WithZone(""), nil
}

// connectFrom connects a datagram socket, and returns its address.
func connectFrom(local *net.UDPAddr, dst netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, ib.UDPPort)))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	a, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok { // the kernel did not say: a filter of system calls forbids the question
		return netip.Addr{}, os.NewSyscallError("getsockname", errors.ErrUnsupported)
	}
	return a.AddrPort().Addr(), nil
}

// checkRoute asks the kernel for a way from an address of the device. Without it a request for a
// connection would be sent until its timeouts end, since a packet without a way is lost. What else
// stands in the way of the question says nothing about the route.
func checkRoute(src, dst netip.Addr) error {
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0))
	if src.Is6() && src.IsLinkLocalUnicast() || dst.Is6() && dst.IsLinkLocalUnicast() {
		if dst.Zone() == "" {
			return nil // the link knows the interface, and the kernel would want its name
		}
		if src.IsLinkLocalUnicast() {
			local.Zone = dst.Zone()
		}
	}
	_, err := connectFrom(local, dst)
	for _, none := range []syscall.Errno{
		syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, // also a route of type unreachable
		syscall.EACCES, syscall.EINVAL, // types prohibit and blackhole
	} {
		if errors.Is(err, none) {
			return &verbs.NoRouteError{Peer: dst, Local: []netip.Addr{src}, Err: routeErr(err)}
		}
	}
	return nil
}

// sourceError is the error of asking the kernel for a source address. A socket that could not be
// made (no descriptor is free, or no memory), or not be asked, says nothing about routes.
func sourceError(dst netip.Addr, err error) error {
	err = routeErr(err)
	var call *os.SyscallError
	if errors.As(err, &call) && (call.Syscall == "socket" || call.Syscall == "getsockname") {
		return &verbs.AddrError{Op: "find the way to", Addr: netip.AddrPortFrom(dst, ib.UDPPort), Err: err}
	}
	return &verbs.NoRouteError{Peer: dst, Err: err}
}

// checkZone looks for the interface that the zone of an address names. Without this check the
// kernel says "invalid argument", and a link that knows only one interface would send to the
// address there.
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
		return &verbs.NoRouteError{Peer: a, Err: fmt.Errorf("zone %q: %w", zone, routeErr(err))}
	}
	return nil
}

// routeErr extracts the cause from an error of package net: the rest is about a port that the
// caller does not know.
func routeErr(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// ResolveRoute finds the path to the peer (rdma_resolve_route). On RoCE there is nothing left to
// find; EventRouteResolved follows.
func (id *ID) ResolveRoute() error {
	return id.do(func(int64, *agent) error {
		if err := id.requireState("resolve route", idAddrResolved); err != nil {
			return err
		}
		id.routed = true
		id.event(Event{Type: EventRouteResolved})
		return nil
	})
}
