package run

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
)

// available says whether a device can be opened. On the link udp, binding the port is proof enough,
// and the device is opened only if the port is taken, because it may be by those that share it.
func available(env *tool.Env, d *tool.DeviceOptions, p tool.Place) error {
	if d.Link == "" || d.Link == "udp" {
		err := bindAll(p.Addrs)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	p.Spares = nil // the program would not find it there
	probe := tool.DeviceOptions{Link: d.Link}
	_, release, _, err := probe.Open(env, p)
	if err != nil {
		return err
	}
	return release()
}

// bindAll binds the port at each address for a moment.
func bindAll(addrs []netip.Addr) error {
	for _, a := range addrs {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, ib.UDPPort)))
		if err != nil {
			return fmt.Errorf("open a device at %v: %w", a, err)
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}
