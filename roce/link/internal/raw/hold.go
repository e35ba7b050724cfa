package raw

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"golang.org/x/sys/unix"
)

// Hold is a bound UDP socket that receives nothing. While there is one the
// kernel does not answer packets to the port with ICMP errors, and nobody else
// can have the port. It also joins multicast groups.
type Hold struct {
	fd    int
	addr  netip.Addr
	index int
	port  uint16
}

// NewHold binds the port on an address of the interface of the index.
func NewHold(a netip.Addr, index int, port uint16) (*Hold, error) {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, &link.OpenError{Addr: a, Err: os.NewSyscallError("socket", err)}
	}
	h := &Hold{fd, a, index, port}
	// Without it the kernel would cut up every coalesced frame before dropping it.
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	nothing := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]}); err != nil {
		unix.Close(fd)
		return nil, &link.OpenError{Addr: a, Err: os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)}
	}
	if a.Is4() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 1)
	}
	if err := unix.Bind(fd, h.sockaddr(a)); err != nil {
		unix.Close(fd)
		return nil, &link.OpenError{Addr: a, Hint: sockio.BindHint(err, port), Err: os.NewSyscallError("bind", err)}
	}
	return h, nil
}

func (h *Hold) sockaddr(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: int(h.port), Addr: a.As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(h.port), Addr: a.As16()}
	if a.IsLinkLocalUnicast() {
		sa.ZoneId = uint32(h.index)
	}
	return sa
}

// Move goes on on another interface, or on one of the same index that was made
// anew, with the groups.
func (h *Hold) Move(index int, groups []netip.Addr) {
	for _, g := range groups {
		_ = h.Leave(g) // what the socket remembers of the interface before
	}
	h.index = index
	if h.addr.IsLinkLocalUnicast() {
		// The socket is bound to the interface, too.
		_ = unix.SetsockoptInt(h.fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, index)
	}
	for _, g := range groups {
		_ = h.Join(g) // should it fail, there is nobody to tell
	}
}

// Close gives the port back.
func (h *Hold) Close() error { return os.NewSyscallError("close", unix.Close(h.fd)) }

// Poke sends an empty datagram, which peers ignore, so that the kernel resolves
// the neighbour on the way. Its hop limit is 1: it goes no further.
func (h *Hold) Poke(dst netip.Addr) {
	_ = unix.Sendto(h.fd, nil, unix.MSG_DONTWAIT, h.sockaddr(dst))
}

// Join makes the kernel join the group on the interface; Leave undoes it.
func (h *Hold) Join(group netip.Addr) error {
	return h.membership(group, unix.IP_ADD_MEMBERSHIP, unix.IPV6_JOIN_GROUP)
}

// Leave leaves the group.
func (h *Hold) Leave(group netip.Addr) error {
	return h.membership(group, unix.IP_DROP_MEMBERSHIP, unix.IPV6_LEAVE_GROUP)
}

func (h *Hold) membership(group netip.Addr, opt4, opt6 int) error {
	if !group.IsMulticast() || group.Is4() != h.addr.Is4() {
		return fmt.Errorf("%v is no multicast group to join from %v: %w", group, h.addr, errors.ErrUnsupported)
	}
	var err error
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(h.fd, unix.IPPROTO_IP, opt4,
			&unix.IPMreqn{Multiaddr: group.As4(), Address: h.addr.As4(), Ifindex: int32(h.index)})
	} else {
		err = unix.SetsockoptIPv6Mreq(h.fd, unix.IPPROTO_IPV6, opt6,
			&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(h.index)})
	}
	if err != nil {
		return &link.OpenError{Addr: group, Hint: "does the interface do multicast?", Err: os.NewSyscallError("join or leave group", err)}
	}
	return nil
}
