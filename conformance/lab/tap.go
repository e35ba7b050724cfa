package lab

import (
	"fmt"
	"net"
	"os"

	"github.com/goroce/goroce/internal/unix"
)

// openTap makes a tap device in this namespace and returns its far end: a file that
// reads and writes one Ethernet frame at a time. The device goes when it is closed.
func openTap(name string, mtu int, addrs ...string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("lab: /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	// No IFF_VNET_HDR: the kernel then does checksums and segmentation itself before
	// the frame comes out here.
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("lab: tap %s: %w", name, err)
	}
	// Only now: a tun file without a device cannot be polled.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	// Optimistic addresses would send from a tentative one; nobody else is on the wire.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0)
	cmds := [][]string{{"link", "set", "dev", name, "mtu", fmt.Sprint(mtu), "txqueuelen", "10000", "up"}}
	for _, a := range addrs {
		cmds = append(cmds, []string{"addr", "add", a, "dev", name, "nodad"})
	}
	for _, c := range cmds {
		if err := ip(c...); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// bridgeTap makes a persistent tap device for guest n, with offloads, and puts it on a bridge of
// this namespace, which it makes if it is not there. Both go with the namespace.
func bridgeTap(bridge string, n, mtu int) (string, error) {
	if _, err := net.InterfaceByName(bridge); err != nil {
		for _, c := range [][]string{{"link", "add", bridge, "type", "bridge"}, {"link", "set", bridge, "mtu",
			fmt.Sprint(mtu), "up"}} {
			if err := ip(c...); err != nil {
				return "", err
			}
		}
	}
	name := fmt.Sprintf("guest%d", n)
	if _, err := net.InterfaceByName(name); err == nil { // of a guest that did not come up
		if err := ip("link", "delete", name); err != nil {
			return "", err
		}
	}
	for _, c := range [][]string{
		{"tuntap", "add", "dev", name, "mode", "tap", "vnet_hdr"},
		{"link", "set", "dev", name, "mtu", fmt.Sprint(mtu), "txqueuelen", "10000", "master", bridge, "up"},
	} {
		if err := ip(c...); err != nil {
			return "", err
		}
	}
	return name, nil
}

// socketPair returns two connected datagram sockets: one for the switch, one for QEMU
// to inherit. A full buffer pushes back on the sender, so that no frame is lost here.
func socketPair(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("lab: socket pair: %w", err)
	}
	for _, fd := range fds {
		for _, o := range []int{unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE} {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o, 8<<20)
		}
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name+"-qemu"), nil
}
