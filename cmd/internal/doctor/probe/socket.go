package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// socket carries packets; tests put one between that does to them what a path may do.
type socket interface {
	local() netip.AddrPort
	// send sends a packet with a traffic class. unix.EMSGSIZE: it does not fit the interface.
	send(b []byte, to netip.AddrPort, tos uint8) error
	// recv waits for a packet until a time: then os.ErrDeadlineExceeded. unix.ECONNREFUSED,
	// EHOSTUNREACH and the like are what routers or hosts said about an earlier packet.
	recv(b []byte, until time.Time) (int, arrival, error)
	// drops are what this machine has dropped of UDP so far; false if that is not known.
	drops() (drops, bool)
	close()
}

// arrival is what a socket tells of a packet that came.
type arrival struct {
	from     netip.AddrPort
	tos, ttl uint8
	header   bool // id and noDF are known
	id       uint16
	noDF     bool
}

// udpSocket is the socket of the operating system.
type udpSocket struct {
	conn *net.UDPConn
	at   netip.AddrPort
	tos  uint8
	oob  [256]byte
	raw  *rawView // nil without the privilege
	errs bool
	lost *dropCounters // nil if they cannot be read
}

// openSocket opens one at an address; port 0 is any. errs asks for what routers and hosts say about
// packets.
func openSocket(at netip.AddrPort, errs bool) (*udpSocket, error) {
	network := "udp4"
	if at.Addr().Is6() {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	s := &udpSocket{conn: conn, errs: errs}
	bound := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	s.at = netip.AddrPortFrom(bound.Addr().Unmap().WithZone(""), bound.Port())
	if err := s.control(func(fd int) error { return setOptions(fd, at.Addr().Is6(), errs) }); err != nil {
		conn.Close()
		return nil, fmt.Errorf("socket options on %v: %w", at, err)
	}
	_ = conn.SetReadBuffer(socketBuffer)
	_ = conn.SetWriteBuffer(socketBuffer)
	s.raw, s.lost = openRaw(s.at), openDrops(s.at.Addr().Is6())
	return s, nil
}

func setOptions(fd int, v6, errs bool) error {
	set := func(level, option, value int) error { return unix.SetsockoptInt(fd, level, option, value) }
	var recvErr error
	if v6 {
		if errs {
			recvErr = set(unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
		}
		return errors.Join(recvErr,
			set(unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE),
			set(unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1),
			set(unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1),
			set(unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
			set(unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1),
		)
	}
	if errs {
		recvErr = set(unix.IPPROTO_IP, unix.IP_RECVERR, 1)
	}
	return errors.Join(recvErr,
		// DF on every packet, whatever is known of the path; and with DF, on a socket
		// that is not connected, the identification is 0.
		set(unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		set(unix.IPPROTO_IP, unix.IP_RECVTOS, 1),
		set(unix.IPPROTO_IP, unix.IP_RECVTTL, 1),
	)
}

func (s *udpSocket) local() netip.AddrPort { return s.at }

func (s *udpSocket) send(b []byte, to netip.AddrPort, tos uint8) error {
	if tos != s.tos {
		level, option := unix.IPPROTO_IP, unix.IP_TOS
		if s.at.Addr().Is6() {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		}
		if err := s.control(func(fd int) error { return unix.SetsockoptInt(fd, level, option, int(tos)) }); err != nil {
			return err
		}
		s.tos = tos
	}
	_, err := s.conn.WriteToUDPAddrPort(b, to)
	return err
}

// control runs f on the descriptor.
func (s *udpSocket) control(f func(fd int) error) error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func (s *udpSocket) recv(b []byte, until time.Time) (int, arrival, error) {
	if err := s.conn.SetReadDeadline(until); err != nil {
		return 0, arrival{}, err
	}
	n, oobn, _, from, err := s.conn.ReadMsgUDPAddrPort(b, s.oob[:])
	if err != nil {
		if s.errs && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
			s.drainErrors()
		}
		return 0, arrival{}, err
	}
	a := arrival{from: netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())}
	a.readControl(s.oob[:oobn])
	if s.raw != nil {
		s.raw.tell(b[:n], &a)
	}
	return n, a, nil
}

func (s *udpSocket) drops() (drops, bool) { return s.lost.read() }

func (s *udpSocket) close() {
	s.conn.Close()
	s.lost.close()
	if s.raw != nil {
		s.raw.close()
	}
}

// drainErrors empties the queue of what was said about packets: recv has returned the last of it.
func (s *udpSocket) drainErrors() {
	_ = s.control(func(fd int) error {
		var b [1]byte
		for range 64 {
			if _, _, _, _, err := unix.Recvmsg(fd, b[:], nil, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); err != nil {
				return nil
			}
		}
		return nil
	})
}

// readControl reads what the options of the socket ask for.
func (a *arrival) readControl(oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range msgs {
		h, data := &msgs[i].Header, msgs[i].Data
		if len(data) == 0 {
			continue
		}
		v := data[0] // IP_TOS is a byte, the others are an int
		if len(data) >= 4 {
			v = uint8(binary.NativeEndian.Uint32(data))
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS,
			h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS:
			a.tos = v
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TTL,
			h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_HOPLIMIT:
			a.ttl = v
		}
	}
}
