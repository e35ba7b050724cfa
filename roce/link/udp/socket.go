package udp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// socket is a UDP socket of one local address, or of a multicast group.
type socket struct {
	fd     int // -1: not open
	index  int // of the address among those of the link
	addr   netip.Addr
	port   uint16
	ifIdx  atomic.Int32
	ifName string
	leased bool       // of a slot, which closes it
	joins  int        // multicast sockets: how many Joins
	local  netip.Addr // multicast sockets: address of the interface
	rcvbuf int
	sndbuf int
	gso    bool // the kernel supports UDP_SEGMENT
	gro    bool
	errors bool // ICMP errors are queued: see returned.go

	lane  int       // among the sockets that send
	ports []*socket // sockets with other source ports for packets from this address

	unread sockio.Unread // receiving side
	before sockio.Unread // of what came before something aside
}

// newSocket describes the socket of address i of the link, on interface ifi if known.
func newSocket(i int, a netip.Addr, ifi *net.Interface) *socket {
	s := &socket{fd: -1, index: i, addr: a}
	if ifi != nil {
		s.ifIdx.Store(int32(ifi.Index))
		s.ifName = ifi.Name
	}
	return s
}

// open makes the socket, without a port.
func (s *socket) open() (err error) {
	family := unix.AF_INET
	if s.addr.Is6() {
		family = unix.AF_INET6
	}
	if s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		unix.IPPROTO_UDP); err != nil {
		s.fd = -1
		return sockio.PortError(s.addr, os.NewSyscallError("socket", err), 0)
	}
	if family == unix.AF_INET6 {
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return &OpenError{Addr: s.addr, Err: os.NewSyscallError("setsockopt IPV6_V6ONLY", err)}
		}
	}
	return nil
}

// bind binds a port of the address.
func (s *socket) bind(port uint16) error {
	var sa unix.Sockaddr
	if s.addr.Is4() {
		sa = &unix.SockaddrInet4{Port: int(port), Addr: s.addr.As4()}
	} else {
		sa6 := &unix.SockaddrInet6{Port: int(port), Addr: s.addr.As16()}
		if s.addr.IsLinkLocalUnicast() {
			sa6.ZoneId = uint32(s.ifIdx.Load())
		}
		sa = sa6
	}
	take := slots.Bind
	if port >= firstPort {
		take = unix.Bind // any other will do
	}
	if err := take(s.fd, sa); err != nil {
		return sockio.PortError(s.addr, os.NewSyscallError("bind", err), port)
	}
	s.port = port
	return nil
}

// sendGroupsBy makes packets to multicast groups leave by the socket's interface.
func (s *socket) sendGroupsBy() error {
	if s.addr.Is4() || s.ifIdx.Load() == 0 {
		return nil // IPv4 uses the interface of the socket's address
	}
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, int(s.ifIdx.Load())); err != nil {
		return &OpenError{Addr: s.addr, Err: os.NewSyscallError("setsockopt IPV6_MULTICAST_IF", err)}
	}
	return nil
}

// locate updates the socket's interface to that of its address.
func (s *socket) locate() error {
	a := s.addr
	if a.IsLinkLocalUnicast() {
		a = a.WithZone(s.ifName) // others may have the same
	}
	ifi, err := sockio.InterfaceOf(a)
	if err != nil || ifi == nil || ifi.Index == int(s.ifIdx.Load()) {
		return err
	}
	s.ifIdx.Store(int32(ifi.Index))
	return s.sendGroupsBy()
}

// setOptions sets what a socket needs before it receives. An option that the wire format depends on
// is required; the rest is best effort, and Capabilities reports it.
func (s *socket) setOptions(o *Options) error {
	must := func(name string, level, opt, v int) error {
		if err := unix.SetsockoptInt(s.fd, level, opt, v); err != nil {
			return os.NewSyscallError("setsockopt "+name, err)
		}
		return nil
	}
	var err error
	if s.addr.Is4() {
		err = errors.Join(
			// Identification 0 and DF on every packet: the ICRC depends on it.
			must("IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO),
			must("IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS, 1),
			must("IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1),
			must("IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, defaultTTL),
			must("IP_MULTICAST_TTL", unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, defaultTTL),
		)
	} else {
		err = errors.Join(
			must("IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
			must("IPV6_RECVTCLASS", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1),
			must("IPV6_RECVHOPLIMIT", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
			must("IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, defaultTTL),
			must("IPV6_MULTICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, defaultTTL),
			// rxe sends UDP checksum 0; IPv6 sockets drop that by default.
			must("UDP_NO_CHECK6_RX", unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1),
		)
	}
	if err != nil {
		return err
	}
	want := o.SocketBufferBytes
	if want == 0 {
		want = defaultSocketBuffer
	}
	s.rcvbuf = sockio.GrowBuffer(s.fd, want, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE)
	s.sndbuf = sockio.GrowBuffer(s.fd, want, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE)
	gro := 1
	if o.DisableGRO {
		gro = 0 // the slot's previous owner may have left it on
	}
	s.gro = unix.SetsockoptInt(s.fd, unix.SOL_UDP, unix.UDP_GRO, gro) == nil && gro == 1
	if !o.DisableGSO {
		_, err := unix.GetsockoptInt(s.fd, unix.SOL_UDP, unix.UDP_SEGMENT)
		s.gso = err == nil
	}
	return nil
}
