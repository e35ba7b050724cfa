package roce

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/everyaddr"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// defaults are the devices that the process shares.
var defaults struct {
	mu   sync.Mutex
	devs []defaultDevice
}

type defaultDevice struct {
	*verbs.Device
	addrs []netip.Addr // with the zones that were asked for
}

// has reports whether a device has an address. Several interfaces may have the same link-local one.
func (d *defaultDevice) has(a netip.Addr) bool {
	return slices.ContainsFunc(d.addrs, func(x netip.Addr) bool {
		return x == a || x.WithZone("") == a.WithZone("") && (x.Zone() == "" || a.Zone() == "")
	})
}

// DefaultDeviceConfig is the configuration that [DefaultDevice] opens devices with; Dial and Listen
// of this package and of rsocket use them unless they are given a device. Set it before the first
// use, as with http.DefaultTransport. Do not set Addrs, which is the local address, or Link, which
// would serve one address only.
var DefaultDeviceConfig verbs.Config

// DefaultDevice returns the device that [Dial] and [Listen] use for a local address unless they are
// given one. The first use opens it with [DefaultDeviceConfig] on a udp link. It stays open until
// the program closes it; the next use opens another. For an unspecified address it has all
// addresses that the host has at that moment. A listener at all addresses has a device for each
// instead, so that it can follow addresses that come and go, unless DefaultDeviceConfig says
// Polling.
//
// Up to 64 devices, of any number of processes of one user, can share an address.
func DefaultDevice(local netip.Addr) (*verbs.Device, error) {
	local = local.Unmap()
	if local.IsValid() && !local.IsUnspecified() {
		return openDefault([]netip.Addr{local}, func(d *defaultDevice) bool { return d.has(local) })
	}
	all, err := verbs.DefaultAddrs()
	if err != nil {
		return nil, &verbs.OpenError{Err: err}
	}
	return openDefault(all, func(d *defaultDevice) bool { return len(d.addrs) >= len(all) })
}

// deviceAt is DefaultDevice for a device with a single address, which can be closed when the
// address goes.
func deviceAt(a netip.Addr) (*verbs.Device, error) {
	return openDefault([]netip.Addr{a}, func(d *defaultDevice) bool { return len(d.addrs) == 1 && d.has(a) })
}

func init() { everyaddr.DeviceAt = deviceAt }

// openDefault returns an open device that fits, or opens one.
func openDefault(addrs []netip.Addr, fits func(d *defaultDevice) bool) (*verbs.Device, error) {
	defaults.mu.Lock()
	defer defaults.mu.Unlock()
	defaults.devs = slices.DeleteFunc(defaults.devs,
		func(d defaultDevice) bool { return access.Shard(d.Device).Closed() })
	cfg := DefaultDeviceConfig
	switch {
	case cfg.Link != nil:
		return nil, argError("open", "DefaultDeviceConfig.Link", "is set: give Dial or Listen a device with it instead")
	case cfg.Addrs != nil:
		return nil,
			argError("open", "DefaultDeviceConfig.Addrs", "is set: the address is that of the connection or listener")
	}
	for i := range defaults.devs {
		if d := &defaults.devs[i]; fits(d) {
			return d.Device, nil
		}
	}
	cfg.Addrs = addrs
	d, err := verbs.Open(cfg)
	if err != nil {
		return nil, err
	}
	defaults.devs = append(defaults.devs, defaultDevice{d, addrs})
	return d, nil
}

// resolveHostPort turns "host:port" into addresses. The port is a number or the name of a TCP
// service, as in package net. An empty host is the zero Addr.
func resolveHostPort(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	port := uint16(n)
	if host == "" {
		return []netip.AddrPort{netip.AddrPortFrom(netip.Addr{}, port)}, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), port)}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	out := make([]netip.AddrPort, len(ips))
	for i, a := range ips {
		out[i] = netip.AddrPortFrom(a.Unmap(), port)
	}
	return out, nil
}

// DefaultDeviceFor returns the device that [Dial] uses to reach a peer: that of the local address
// or, if local is unspecified, of the address that the routing table chooses.
func DefaultDeviceFor(local, peer netip.Addr) (*verbs.Device, error) {
	local, peer = local.Unmap(), peer.Unmap()
	if local.IsValid() && !local.IsUnspecified() {
		return DefaultDevice(local)
	}
	switch peer { // this host, as for connect(2)
	case netip.IPv4Unspecified():
		peer = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case netip.IPv6Unspecified():
		peer = netip.IPv6Loopback()
	}
	local, err := rdmacm.RouteSource(peer)
	if err != nil {
		return nil, err
	}
	return DefaultDevice(local)
}
