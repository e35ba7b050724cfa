package roce

import (
	"context"
	"net"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
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
		local = netip.AddrPortFrom(netip.IPv4Unspecified(), local.Port())
	}
	if !local.Addr().IsUnspecified() && id.d.addrIndex(local.Addr().WithZone("")) < 0 {
		return &AddrError{"bind", local, ErrAddrNotLocal}
	}
	return a.bind(id, local)
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// Listen makes the ID take connection requests (rdma_listen), each of which
// comes as an event CMConnectRequest with an ID of its own. Up to backlog
// requests wait for the application; 0 is the most, 1024. Further ones are
// dropped, and their senders try again.
func (id *CMID) Listen(backlog int) error {
	return id.do(func(_ int64, a *cmAgent) error {
		if err := id.need("listen", idBound, idIdle); err != nil {
			return err
		}
		if !id.bound {
			if err := id.bindLocked(a, netip.AddrPort{}); err != nil {
				return err
			}
		}
		l, err := a.core.Listen(mad.NewServiceID(id.ps, id.local.Port()), id.local.Addr(), backlog)
		if err != nil {
			return &AddrError{"listen", id.local, err}
		}
		l.UserData = id
		id.listener = l
		id.state = idListening
		return nil
	})
}

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
				return &AddrError{"resolve", dst, ErrNoLocalGID}
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
			return 0, ErrNoLocalGID
		}
		return i, nil
	}
	if len(d.addrs) > 1 && !d.link.Capabilities().Virtual && !dst.IsMulticast() {
		if i := d.addrIndex(routeSource(dst)); i >= 0 {
			return i, nil
		}
	}
	return d.GIDIndexFor(ib.GIDFromAddr(dst))
}

// routeSource returns the address that the kernel would send to dst from, the
// zero Addr if it knows none. Connecting a datagram socket sends nothing.
func routeSource(dst netip.Addr) netip.Addr {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(dst, ib.UDPPort).String())
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	l, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return l.AddrPort().Addr().Unmap().WithZone("")
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
