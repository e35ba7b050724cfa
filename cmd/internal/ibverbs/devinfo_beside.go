package ibverbs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/verbs"
)

// besideOthers makes a device that another program uses no failure: a user that asks what a device
// can do need not be able to use it at the moment, and ibv_devinfo does not either. Such a device
// is opened on another UDP port, which nobody is told; a remark says so.
func besideOthers(env *tool.Env) *tool.Env {
	open := env.Open
	if open == nil {
		open = tool.OpenDevice
	}
	e := *env
	e.Open = func(cfg verbs.Config) (*verbs.Device, func() error, error) {
		dev, release, err := open(cfg)
		if !errors.Is(err, syscall.EADDRINUSE) || cfg.Link != nil {
			return dev, release, err
		}
		port, portErr := freePort(cfg.Addrs[0])
		if portErr != nil {
			return nil, nil, errors.Join(err, portErr)
		}
		cfg.UDP.Port = port
		if dev, release, portErr = open(cfg); portErr != nil {
			return nil, nil, errors.Join(err, portErr)
		}
		fmt.Fprintf(env.Stderr, "devinfo: another program uses the device on %v at the moment\n", cfg.Addrs[0])
		return dev, release, nil
	}
	return &e
}

// freePort returns a UDP port of the address that was free just now.
func freePort(a netip.Addr) (uint16, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port(), nil
}
