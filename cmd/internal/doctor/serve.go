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
)

// goodputTime is how long goodput is measured by default.
const goodputTime = time.Second

// serve answers probes until the context ends.
func (o *options) serve(ctx context.Context, env *tool.Env) error {
	d := tool.DeviceOptions{Dev: o.dev, Addr: o.addr}
	place, err := d.Choose("", o.ipv6)
	if err != nil {
		return err
	}
	at := netip.AddrPortFrom(place.Addrs[0], uint16(o.port))
	s, err := probe.Listen(at, func(client netip.Addr) { fmt.Fprintf(env.Stderr, "doctor: %v asks\n", client) })
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: a probe needs UDP port %d for itself; end what uses it (roce doctor --only rxe,port tells), or take another one: --port, on both sides", err, o.port)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "doctor: listening on %v; on the other machine: roce doctor %v\n", s.Addr(), s.Addr().Addr())
	if env.Listening != nil {
		env.Listening(s.Addr())
	}
	err = s.Serve(ctx)
	fmt.Fprintf(env.Stderr, "doctor: %v\n", s.Stats())
	return err
}

// patience is that of the probe; 0: its own. The tests have more.
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
	cfg := probe.Config{Local: place.Addrs[0], Remote: netip.AddrPortFrom(remote, uint16(o.port)), LocalMTU: 1500, Patience: patience}
	if cfg.Local.Is4() != remote.Is4() {
		return nil, nil, fmt.Errorf("from %v there is no path to %v: the families differ", cfg.Local, remote)
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
	r, err := probe.Run(ctx, cfg)
	if err != nil {
		return nil, r, fmt.Errorf("path to %v: %w", cfg.Remote, err)
	}
	return judgePath(r), r, nil
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
