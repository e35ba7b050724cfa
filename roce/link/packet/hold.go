package packet

import (
	"net/netip"
	"os"

	"github.com/goroce/goroce/roce/link/internal/sockio"
	"golang.org/x/sys/unix"
)

// holdPort binds a UDP socket that receives nothing, so that the kernel does
// not answer packets of the link with ICMP errors, and nobody else can have the
// port. It also is what joins multicast groups, and asks for neighbours where
// that may not be done directly.
func (l *Link) holdPort(a netip.Addr, ifIndex int) (int, error) {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return -1, &OpenError{Addr: a, Err: os.NewSyscallError("socket", err)}
	}
	// Without it the kernel would cut up every coalesced frame before dropping it.
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	nothing := filter{{Code: ret}}
	if err := nothing.attach(fd); err != nil {
		unix.Close(fd)
		return -1, &OpenError{Addr: a, Err: os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)}
	}
	var sa unix.Sockaddr
	if a.Is4() {
		sa = &unix.SockaddrInet4{Port: int(l.port), Addr: a.As4()}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 1)
		sa6 := &unix.SockaddrInet6{Port: int(l.port), Addr: a.As16()}
		if a.IsLinkLocalUnicast() {
			sa6.ZoneId = uint32(ifIndex)
		}
		sa = sa6
	}
	if err := unix.Bind(fd, sa); err != nil {
		unix.Close(fd)
		return -1, &OpenError{Addr: a, Hint: sockio.BindHint(err, l.port), Err: os.NewSyscallError("bind", err)}
	}
	return fd, nil
}

// poke sends an empty datagram, which peers ignore, so that the kernel resolves
// the neighbour on the way. Its hop limit is 1: it goes no further.
func (l *Link) poke(dst, src netip.Addr) {
	for i, a := range l.addrs {
		if a != src {
			continue
		}
		var sa unix.Sockaddr
		if dst.Is4() {
			sa = &unix.SockaddrInet4{Port: int(l.port), Addr: dst.As4()}
		} else {
			sa6 := &unix.SockaddrInet6{Port: int(l.port), Addr: dst.As16()}
			if dst.IsLinkLocalUnicast() {
				sa6.ZoneId = uint32(l.ifIndex[i])
			}
			sa = sa6
		}
		_ = unix.Sendto(l.holds[i], nil, unix.MSG_DONTWAIT, sa)
	}
}
