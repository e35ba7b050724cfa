package drill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/goroce/goroce/internal/unix"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
)

// wire is the drill's end of a real network: a UDP socket at port 4791 of each of its addresses, or
// a link at all of them. The sockets are not connected and do not fragment, so that the kernel
// sends identification 0, which the ICRC covers.
type wire struct {
	sockets  []*socket
	link     *linkEnd // in place of the sockets, if not nil
	got      chan Datagram
	fail     chan error
	start    time.Time
	verifier *link.Verifier
}

type socket struct {
	addr netip.Addr
	c    *net.UDPConn
	tos  uint8 // as set
}

// mark sets the TOS, or traffic class, of what is sent from now on.
func (s *socket) mark(tos uint8) error {
	if s.tos == tos {
		return nil
	}
	raw, err := s.c.SyscallConn()
	if err != nil {
		return err
	}
	level, opt := unix.IPPROTO_IP, unix.IP_TOS
	if !s.addr.Is4() {
		level, opt = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, opt, int(tos)) })
	if err = errors.Join(err, failed); err == nil {
		s.tos = tos
	}
	return err
}

// receivedQueue is the depth of the queue of packets that nobody has asked for yet.
const receivedQueue = 1 << 14

// openWire opens the sockets, or the link, where it is called: in the caller's network namespace.
func openWire(open func([]netip.Addr) (link.Link, error), addrs ...netip.Addr) (*wire, error) {
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !a.IsValid() })
	w := &wire{got: make(chan Datagram, receivedQueue), fail: make(chan error, 1), start: time.Now(),
		verifier: link.NewVerifier(ib.UDPPort)}
	if open != nil {
		l, err := open(addrs)
		if err != nil {
			return nil, fmt.Errorf("drill: %v: %w", addrs, err)
		}
		w.link = newLinkEnd(l, w.now, w.got, w.fail)
		return w, nil
	}
	for _, a := range addrs {
		s, err := openSocket(a)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("drill: UDP port %d of %v: %w", ib.UDPPort, a, err)
		}
		w.sockets = append(w.sockets, s)
	}
	for _, s := range w.sockets {
		go w.receive(s)
	}
	return w, nil
}

func openSocket(a netip.Addr) (*socket, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, ib.UDPPort)))
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	var errs []error
	set := func(fd, level, opt, v int) { errs = append(errs, unix.SetsockoptInt(fd, level, opt, v)) }
	err = raw.Control(func(fd uintptr) {
		n := int(fd)
		set(n, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		if a.Is4() {
			set(n, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
			set(n, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		} else {
			set(n, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
			set(n, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
			set(n, unix.IPPROTO_IPV6, ipv6FlowInfo, 1)
			set(n, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1) // rxe sends no UDP checksum
		}
		_ = unix.SetsockoptInt(n, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20)
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		c.Close()
		return nil, err
	}
	return &socket{addr: a, c: c}, nil
}

// ipv6FlowInfo is IPV6_FLOWINFO of linux/in6.h, as an option and as what a message is about.
const ipv6FlowInfo = 11

// receive hands on what comes to a socket, until that is closed.
func (w *wire) receive(s *socket) {
	buf, oob := make([]byte, 1<<16), make([]byte, 256)
	for {
		n, m, _, from, err := s.c.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				select {
				case w.fail <- err:
				default:
				}
			}
			return
		}
		d := Datagram{At: time.Since(w.start), Src: from.Addr().Unmap(), Dst: s.addr, SrcPort: from.Port(),
			Payload: append([]byte(nil), buf[:n]...)}
		w.control(&d, oob[:m])
		select {
		case w.got <- d:
		default: // as a network does
		}
	}
}

// control reads the time of arrival and the TOS, as the kernel tells them.
func (w *wire) control(d *Datagram, oob []byte) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for _, m := range list {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16:
			sec, nsec := binary.NativeEndian.Uint64(m.Data), binary.NativeEndian.Uint64(m.Data[8:])
			d.At = time.Unix(int64(sec), int64(nsec)).Sub(w.start.Round(0))
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TOS && len(m.Data) > 0:
			d.TOS = m.Data[0]
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_TCLASS && len(m.Data) >= 4:
			d.TOS = uint8(binary.NativeEndian.Uint32(m.Data))
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == ipv6FlowInfo && len(m.Data) >= 4:
			// Behind the traffic class; not there if both are 0.
			d.FlowLabel = binary.BigEndian.Uint32(m.Data) & maxFlowLabel
		}
	}
}

// drain forgets what has come.
func (w *wire) drain() {
	for {
		select {
		case <-w.got:
		default:
			return
		}
	}
}

func (w *wire) now() time.Duration { return time.Since(w.start) }

func (w *wire) send(d Datagram) error {
	if w.link != nil {
		return w.link.send(d)
	}
	for _, s := range w.sockets {
		if s.addr != d.Src {
			continue
		}
		if err := s.mark(d.TOS); err != nil {
			return err
		}
		_, err := s.c.WriteToUDPAddrPort(d.Payload, netip.AddrPortFrom(d.Dst, ib.UDPPort))
		return err
	}
	return fmt.Errorf("drill: %v is no address of the drill", d.Src)
}

// recv waits for a packet from an address.
func (w *wire) recv(from map[peer.Family]netip.Addr, within time.Duration) (Datagram, bool, error) {
	left := patience(within)
	t := time.NewTimer(left.turn())
	defer t.Stop()
	for {
		select {
		case d := <-w.got:
			if d.Src != from[peer.V4] && d.Src != from[peer.V6] {
				continue
			}
			d.BadICRC = w.bad(d)
			return d, true, nil
		default:
		}
		select {
		case d := <-w.got:
			if d.Src != from[peer.V4] && d.Src != from[peer.V6] {
				continue
			}
			d.BadICRC = w.bad(d)
			return d, true, nil
		case err := <-w.fail:
			return Datagram{}, false, err
		case <-t.C:
			left.took(left.turn())
			if left.over() {
				return Datagram{}, false, nil
			}
			t.Reset(left.turn())
		}
	}
}

// bad reports whether a packet has a wrong ICRC. A socket does not show the IPv4 identification,
// which is solved for.
func (w *wire) bad(d Datagram) bool {
	return w.verifier.Flow(&link.Source{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort}).Check(d.Payload, 0) >
		link.VerdictSolved
}

// Close closes the sockets, or the link.
func (w *wire) Close() error {
	if w.link != nil {
		return w.link.Close()
	}
	var errs []error
	for _, s := range w.sockets {
		errs = append(errs, s.c.Close())
	}
	return errors.Join(errs...)
}
