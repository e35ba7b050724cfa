package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// portReservation is a bound UDP socket that receives nothing. While it exists the kernel does not
// answer packets to the port with ICMP errors, and no one else can have the port. It also joins
// multicast groups.
type portReservation struct {
	fd    int
	addr  netip.Addr
	index int
	port  uint16
	// shared says that other devices use the socket as well, and that it is not closed here.
	shared bool
}

// reservePort binds the port on an address of the interface of the index.
func reservePort(a netip.Addr, index int, port uint16) (*portReservation, error) {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, &link.OpenError{Addr: a, Err: os.NewSyscallError("socket", err)}
	}
	r := &portReservation{fd: fd, addr: a, index: index, port: port}
	nothing := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: 1, Filter: &nothing[0]}); err != nil {
		unix.Close(fd)
		return nil, &link.OpenError{Addr: a, Err: os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)}
	}
	if a.Is6() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	r.setOptions()
	if err := slots.Bind(fd, r.sockaddr(a)); err != nil {
		unix.Close(fd)
		return nil, &link.OpenError{Addr: a, Hint: sockio.BindHint(err, port), Err: os.NewSyscallError("bind", err)}
	}
	return r, nil
}

// sharedPort makes a reservation of a socket that is bound and receives nothing.
func sharedPort(fd int, a netip.Addr, index int, port uint16) *portReservation {
	r := &portReservation{fd: fd, addr: a, index: index, port: port, shared: true}
	r.setOptions()
	return r
}

func (r *portReservation) setOptions() {
	// Without it the kernel would cut up every coalesced frame before dropping it.
	_ = unix.SetsockoptInt(r.fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	if r.addr.Is4() {
		_ = unix.SetsockoptInt(r.fd, unix.IPPROTO_IP, unix.IP_TTL, 1)
	} else {
		_ = unix.SetsockoptInt(r.fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 1)
	}
}

func (r *portReservation) sockaddr(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: int(r.port), Addr: a.As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(r.port), Addr: a.As16()}
	if a.IsLinkLocalUnicast() {
		sa.ZoneId = uint32(r.index)
	}
	return sa
}

// move moves to another interface, or to one of the same index that was made anew, with the groups.
func (r *portReservation) move(index int, groups []netip.Addr) {
	for _, g := range groups {
		_ = r.leave(g) // drop the socket's membership on the old interface
	}
	r.index = index
	if r.addr.IsLinkLocalUnicast() {
		// The socket is bound to the interface as well.
		_ = unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, index)
	}
	for _, g := range groups {
		_ = r.join(g) // on failure, no caller is left to tell
	}
}

// close releases the port.
func (r *portReservation) close() error {
	if r.shared {
		return nil
	}
	return os.NewSyscallError("close", unix.Close(r.fd))
}

// poke sends an empty datagram, which peers ignore, so that the kernel resolves the neighbour. Its
// hop limit is 1: it goes no further.
func (r *portReservation) poke(dst netip.Addr) {
	_ = unix.Sendto(r.fd, nil, unix.MSG_DONTWAIT, r.sockaddr(dst))
}

// join makes the kernel join the group on the interface.
func (r *portReservation) join(group netip.Addr) error {
	return r.membership(group, unix.IP_ADD_MEMBERSHIP, unix.IPV6_JOIN_GROUP)
}

// leave leaves the group.
func (r *portReservation) leave(group netip.Addr) error {
	return r.membership(group, unix.IP_DROP_MEMBERSHIP, unix.IPV6_LEAVE_GROUP)
}

func (r *portReservation) membership(group netip.Addr, opt4, opt6 int) error {
	if !group.IsMulticast() || group.Is4() != r.addr.Is4() {
		return fmt.Errorf("%v is no multicast group to join from %v: %w", group, r.addr, errors.ErrUnsupported)
	}
	var err error
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(r.fd, unix.IPPROTO_IP, opt4,
			&unix.IPMreqn{Multiaddr: group.As4(), Address: r.addr.As4(), Ifindex: int32(r.index)})
	} else {
		err = unix.SetsockoptIPv6Mreq(r.fd, unix.IPPROTO_IPV6, opt6,
			&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(r.index)})
	}
	if err != nil {
		return &link.OpenError{Addr: group, Hint: "does the interface do multicast?",
			Err: os.NewSyscallError("join or leave group", err)}
	}
	return nil
}
