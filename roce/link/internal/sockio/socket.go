package sockio

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// GrowBuffer sets a socket buffer (SO_RCVBUF or SO_SNDBUF and its FORCE form)
// to n bytes, past the system's limit if privileged, and returns what was
// granted.
func GrowBuffer(fd, n, opt, force int) int {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt, n)
	}
	got, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, opt)
	return got
}

// InterfaceOf returns the interface that has the address, nil if none has.
func InterfaceOf(a netip.Addr) (*net.Interface, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range ifs {
		addrs, err := ifs[i].Addrs()
		if err != nil {
			return nil, err
		}
		for _, n := range addrs {
			p, err := netip.ParsePrefix(n.String())
			if err != nil {
				continue
			}
			// All of 127/8 is local by the one address of the interface.
			if p.Addr() == a || a.IsLoopback() && p.Addr().IsLoopback() && p.Contains(a) {
				return &ifs[i], nil
			}
		}
	}
	return nil, nil
}
