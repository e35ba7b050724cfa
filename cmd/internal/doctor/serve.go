package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/goroce/goroce/cmd/internal/doctor/probe"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

// goodputTime is how long goodput is measured by default.
const goodputTime = time.Second

// serve answers probes until the context ends.
func (o *options) serve(ctx context.Context, env *tool.Env) error {
	d := tool.DeviceOptions{Dev: o.dev, Addr: o.addr}
	place, err := d.Choose("", o.ipv6)
	if err != nil {
		return otherFamily(err, d, o.ipv6)
	}
	at := netip.AddrPortFrom(place.Addrs[0], uint16(o.port))
	s, err := probe.Listen(at, func(client netip.Addr) { fmt.Fprintf(env.Stderr, "doctor: %v asks\n", client) })
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: a probe needs UDP port %d for itself; end what uses it (roce doctor --only rxe,port tells), or take another one: --port, on both sides", err, o.port)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "doctor: listening on %v; on the other machine: roce doctor %s\n", s.Addr(),
		clientOptions(s.Addr()))
	if env.Listening != nil {
		env.Listening(s.Addr())
	}
	err = s.Serve(ctx)
	fmt.Fprintf(env.Stderr, "doctor: %v\n", s.Stats())
	return err
}

// otherFamily says by which option an address is found that is there.
func otherFamily(err error, d tool.DeviceOptions, ipv6 bool) error {
	other, otherErr := d.Choose("", !ipv6)
	switch {
	case otherErr != nil || d.Addr != "":
		return err
	case ipv6:
		return fmt.Errorf("%w; without --ipv6 it is %v", err, other.Addrs[0])
	}
	return fmt.Errorf("%w; with --ipv6 it is %v", err, other.Addrs[0])
}

// clientOptions are those that reach a server: a literal address says its family, a port does not
// go without saying.
func clientOptions(at netip.AddrPort) string {
	if at.Port() != ib.UDPPort {
		return fmt.Sprintf("--port %d %v", at.Port(), at.Addr())
	}
	return at.Addr().String()
}

// patience is how long the probes of the command wait; 0: as long as they do by themselves. Tests
// have more.
var patience time.Duration

// path tries the path to a host, and returns what it found.
func (o *options) path(ctx context.Context, env *tool.Env, s *System, host string) ([]Finding, *probe.Result, error) {
	remote, err := resolve(ctx, host, o.ipv6)
	if err != nil {
		return nil, nil, err
	}
	d := tool.DeviceOptions{Dev: o.dev, Addr: o.addr}
	place, err := d.Choose(remote.String(), remote.Is6())
	if err != nil {
		return nil, nil, err
	}
	cfg := probe.Config{Local: place.Addrs[0], Remote: netip.AddrPortFrom(remote, uint16(o.port)),
		LocalMTU: 1500, Patience: o.patience}
	if cfg.Local.Is4() != remote.Is4() {
		return nil, nil, fmt.Errorf("from %v there is no path to %v: the families differ; name an address of %v's with --addr, or the host's other address%s",
			cfg.Local, remote, familyOf(remote), byName(host, remote))
	}
	cfg.GoodputTime = time.Duration(o.seconds * float64(time.Second))
	ifaces, err := s.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, i := range ifaces {
		if i.Name == place.Iface {
			cfg.LocalMTU = i.MTU
		}
	}
	if env.Terminal && !o.json {
		cfg.Step = func(what string) { fmt.Fprintf(env.Stderr, "doctor: path to %v: %s\n", remote, what) }
	}
	by := lookAround(ctx, s, place.Iface, cfg.Local, remote)
	by.shown = !o.pathOnly
	r, err := probe.Run(ctx, cfg)
	if err != nil {
		return nil, r, fmt.Errorf("path to %v: %w", cfg.Remote, err)
	}
	return judgePath(r, by), r, nil
}

// lookAround finds what this machine itself does to the path.
func lookAround(ctx context.Context, s *System, iface string, local, remote netip.Addr) *around {
	by := &around{}
	v := &view{System: s, ctx: ctx, named: true, opened: map[netip.Addr]opened{}}
	ifaces, err := target{iface: iface}.choose(must(s.Interfaces()))
	if err == nil {
		v.ifaces = ifaces
		if f := &ifaces[0]; remote.Is4() && !f.Loopback && !f.NoARP && onLink(f, remote) {
			if macs, err := s.Owners(ctx, f, remote); err == nil {
				by.owners, by.asked = macs, true
			}
		}
	}
	for _, f := range checkFirewall(v) {
		if f.Level > Unknown {
			f.Check = "firewall"
			by.firewall = append(by.firewall, f)
		}
	}
	by.routeMTU = routeMTU(local, remote)
	by.route = v.widerRoute(remote)
	return by
}

func must[T any](v T, _ error) T { return v }

func onLink(f *Interface, a netip.Addr) bool {
	for _, p := range f.Nets {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// routeMTU is what the kernel lets a datagram have on the way to an address, headers included; 0 if
// it does not say. Connecting sends nothing.
func routeMTU(local, remote netip.Addr) int {
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)),
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, ib.UDPPort)))
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	_ = raw.Control(func(fd uintptr) {
		level, discover, mtu := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU
		if remote.Is6() {
			level, discover, mtu = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU
		}
		if unix.SetsockoptInt(int(fd), level, discover, unix.IP_PMTUDISC_DO) == nil {
			if got, err := unix.GetsockoptInt(int(fd), level, mtu); err == nil {
				n = got
			}
		}
	})
	return n
}

// widerRoute is what takes the MTU from the route to an address: of the route itself, or what a
// router is said to have said.
func (v *view) widerRoute(remote netip.Addr) []string {
	learned := []string{"ip route flush cache   # a router said so, and may have been wrong; " + remote.String()}
	if remote.Is6() {
		learned[0] = "ip -6" + learned[0][2:]
	}
	all, err := v.routes()
	if err != nil {
		return learned
	}
	var best *route
	bits := -1
	for i := range all {
		r := &all[i]
		if r.mtu() == 0 || len(r.words) == 0 {
			continue
		}
		p, ok := routePrefix(r.words[0])
		if r.v6 == remote.Is6() && (r.words[0] == "default" || ok && p.Contains(remote)) && p.Bits() > bits {
			best, bits = r, max(p.Bits(), 0)
		}
	}
	if best == nil {
		return learned
	}
	return []string{best.withoutMTU()}
}

// routePrefix reads the destination of a route.
func routePrefix(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p, true
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// byName says how a name is resolved to the other family.
func byName(host string, got netip.Addr) string {
	if _, err := netip.ParseAddr(host); err == nil || got.Is6() {
		return ""
	}
	return " (--ipv6)"
}

// resolve finds the address of a host.
func resolve(ctx context.Context, host string, ipv6 bool) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	network := "ip4"
	if ipv6 {
		network = "ip6"
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if err != nil {
		return netip.Addr{}, err
	}
	if len(all) == 0 {
		return netip.Addr{}, errors.New("host " + strconv.Quote(host) + " has no address")
	}
	return all[0].Unmap(), nil
}
