package sockio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
)

// GrowBuffer sets a socket buffer (SO_RCVBUF or SO_SNDBUF and its FORCE form) to n bytes, past the
// system's limit if privileged, and returns the granted size.
func GrowBuffer(fd, n, opt, force int) int {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt, n)
	}
	got, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, opt)
	return got
}

// Room returns how much a receive buffer of the given size holds, as the kernel counts: for a
// packet the memory of its descriptor and around it, and up to twice its length because allocators
// round up; for a run little more than its bytes. Part of the buffer may count as used even after
// it was read.
func Room(buffer int, runs bool) edge.Room {
	r := edge.Room{Size: buffer / 4 * 3, PerPacket: packetCost, PerByte: 2}
	if runs {
		r.RunPerPacket, r.RunPerByte = runCost, 1
	}
	return r
}

// InterfaceOf returns the interface that has the address, nil if none has. A zone selects one of
// several. A process may be forbidden to see interfaces, by systemd's RestrictAddressFamilies= for
// one: it gets an interface without a name, whose MTU is that of Ethernet, or of loopback.
func InterfaceOf(a netip.Addr) (*net.Interface, error) { return interfaceOf(a, net.Interfaces) }

func interfaceOf(a netip.Addr, list func() ([]net.Interface, error)) (*net.Interface, error) {
	zone := a.Zone()
	ifs, err := list()
	switch {
	case err != nil && zone == "" && unseen(err):
		i := &net.Interface{MTU: 1500, Flags: net.FlagUp}
		if a.IsLoopback() {
			i.MTU = 1 << 16
		}
		return i, nil
	case err != nil:
		return nil, err
	}
	a = a.WithZone("")
	for i := range ifs {
		if zone != "" && zone != ifs[i].Name && zone != strconv.Itoa(ifs[i].Index) {
			continue
		}
		addrs, err := ifs[i].Addrs()
		if err != nil {
			return nil, err
		}
		for _, n := range addrs {
			// The interface's one address makes all of 127/8 local.
			if p, err := netip.ParsePrefix(n.String()); err == nil &&
				(p.Addr() == a || a.IsLoopback() && p.Addr().IsLoopback() && p.Contains(a)) {
				return &ifs[i], nil
			}
		}
	}
	return nil, nil
}

// unseen reports whether an error of rtnetlink says that this process may not use it.
func unseen(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || CallHint(err) != ""
}

// BindHint says what to do about a local address and UDP port that cannot be bound.
func BindHint(err error, port uint16) string {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		if _, err := os.Stat("/sys/module/rdma_rxe"); err == nil {
			return fmt.Sprintf("the kernel's rdma_rxe is loaded and owns UDP port %d in this network namespace: "+
				"unload it (modprobe -r rdma_rxe), or run in another network namespace", port)
		}
		if _, err := os.Stat("/proc/self"); err != nil {
			return fmt.Sprintf("something else uses UDP port %d on this address, and programs share it only where all see /proc: "+
				"mount it, or give each program an address of its own (127.0.0.1, 127.0.0.2, ...)", port)
		}
		return fmt.Sprintf("something else uses UDP port %d on this address, and one of both cannot share it: "+
			"`ss -ulpn sport = :%d` shows it; give each program an address of its own (127.0.0.1, 127.0.0.2, ...)",
			port, port)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "no interface here has this address, or its detection is not finished: see `ip addr`"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "a security policy (seccomp, SELinux, a container profile) does not permit the socket"
	}
	return ""
}
