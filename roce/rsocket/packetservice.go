package rsocket

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"github.com/goroce/goroce/internal/unix"
)

// packetService is the UDP socket of a datagram socket: peers that do not know our queue pair ask
// there.
type packetService struct {
	udp *net.UDPConn
	raw syscall.RawConn
	// local is the address of the socket. If it is unspecified, control messages carry the local
	// address of each datagram, both ways.
	local netip.AddrPort
	v6    bool // the family of the socket
}

// openService binds a UDP socket. An IPv6 socket at the unspecified address also serves IPv4 if
// both is set.
func openService(addr netip.AddrPort, both bool,
	control func(network, address string, c syscall.RawConn) error) (*packetService, error) {
	network := "udp4"
	if addr.Addr().Is6() {
		network = "udp6"
		if both && addr.Addr().IsUnspecified() {
			network = "udp"
		}
	}
	lc := net.ListenConfig{Control: control}
	pc, err := lc.ListenPacket(context.Background(), network, addr.String())
	if err != nil {
		return nil, plain(err)
	}
	s := &packetService{udp: pc.(*net.UDPConn), v6: addr.Addr().Is6()}
	if s.raw, err = s.udp.SyscallConn(); err == nil {
		err = s.ready(addr)
	}
	if err != nil {
		_ = pc.Close()
		return nil, plain(err)
	}
	return s, nil
}

// ready notes the bound address and asks for destination addresses.
func (s *packetService) ready(addr netip.AddrPort) error {
	at, ok := s.udp.LocalAddr().(*net.UDPAddr)
	if !ok { // a filter of system calls forbids the question
		return os.NewSyscallError("getsockname", errors.ErrUnsupported)
	}
	s.local = netip.AddrPortFrom(addr.Addr(), at.AddrPort().Port())
	if !s.local.Addr().IsUnspecified() {
		return nil
	}
	return s.control(func(fd int) error {
		if !s.v6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	})
}

func (s *packetService) control(f func(fd int) error) error {
	var err error
	if e := s.raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}

// connect makes the kernel accept messages of one peer only, and report its refusals.
func (s *packetService) connect(to netip.AddrPort) error {
	return os.NewSyscallError("connect", s.control(func(fd int) error { return unix.Connect(fd, s.sockaddr(to)) }))
}

func (s *packetService) close() error { return s.udp.Close() }

// sockaddr returns an address in the form of the socket's family.
func (s *packetService) sockaddr(a netip.AddrPort) unix.Sockaddr {
	if !s.v6 {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: scopeOf(a.Addr())}
}

func scopeOf(a netip.Addr) uint32 {
	if n, err := strconv.ParseUint(a.Zone(), 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(a.Zone()); a.Zone() != "" && err == nil {
		return uint32(i.Index)
	}
	return 0
}

// send sends a message; a socket bound to all addresses sends it from from. It never waits: if the
// socket has no room, the message is lost, as datagrams may be. The error may report an earlier
// refusal by the peer.
func (s *packetService) send(b []byte, to netip.AddrPort, from netip.Addr) error {
	var oob []byte
	if s.local.Addr().IsUnspecified() {
		if from.Is4() && !s.v6 {
			oob = unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from.As4()})
		} else {
			oob = unix.PktInfo6(&unix.Inet6Pktinfo{Addr: from.As16()})
		}
	}
	var err error
	if e := s.raw.Write(func(fd uintptr) bool {
		_, err = unix.SendmsgN(int(fd), b, oob, s.sockaddr(to), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return true
	}); e != nil {
		return plain(e)
	}
	if err == syscall.EAGAIN || err == syscall.ENOBUFS {
		return nil
	}
	return err
}

// receive waits for a message. to is the local address that it came to. If the message does not
// fit, n is len(b).
func (s *packetService) receive(b, oob []byte) (n int, from netip.AddrPort, to netip.Addr, err error) {
	n, k, _, from, err := s.udp.ReadMsgUDPAddrPort(b, oob)
	if err != nil {
		return 0, from, to, plain(err)
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	to = s.local.Addr()
	if to.IsUnspecified() {
		to = arrivedAt(oob[:k])
	}
	return n, from, to, nil
}

// arrivedAt extracts a message's local address from the control messages of the kernel.
func arrivedAt(oob []byte) netip.Addr {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(data[4:])) // behind the interface index
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			a := netip.AddrFrom16([16]byte(data)).Unmap()
			if a.IsLinkLocalUnicast() && a.Is6() {
				if i, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(data[16:]))); err == nil {
					a = a.WithZone(i.Name)
				}
			}
			return a
		}
		oob = rest
	}
	return netip.Addr{}
}

// plain removes the wrapping of package net from an error; this package adds its own.
func plain(err error) error {
	if e, ok := err.(*net.OpError); ok {
		return e.Err
	}
	return err
}
