package udp

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/endpoint"
	"github.com/goroce/goroce/transport/edge"
)

// Datagrams to queue pair 1 leave by a socket of their own, for each address, which gets the ICMP
// messages about them (IP_RECVERR). The sockets of the slots cannot do that: the kernel gives a
// message about a packet from their port to any one of the group, and IP_RECVERR makes the next
// send fail, whatever its peer.

// askers are these sockets. For an address without one nothing comes back. They are opened while
// other goroutines send and receive, so the list is published once it is complete.
type askers struct {
	list    atomic.Pointer[[]*socket]
	quote   [quoteBytes]byte
	control [quoteControl]byte
}

const (
	// quoteBytes is more than is examined of a quote.
	quoteBytes = 256
	// quoteControl holds a sock_extended_err with an address behind it, and the other control
	// messages that the socket asks for.
	quoteControl = 256
)

// openAskers opens these sockets, as far as possible. A link that makes no connections has none.
func (l *Link) openAskers() {
	var socks []*socket
	for _, of := range l.socks {
		s := newSocket(of.index, of.addr, nil)
		s.ifIdx.Store(of.ifIdx.Load())
		s.ifName = of.ifName
		if s.open() != nil {
			continue
		}
		if s.setOptions(&l.opts) != nil || !s.bindAny() || s.hearErrors() != nil {
			unix.Close(s.fd)
			continue
		}
		// Errors are always reported.
		_ = unix.EpollCtl(l.rx.asideFD, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Fd: int32(s.fd)})
		s.lane = l.tx.askerLane + len(socks)
		socks = append(socks, s)
	}
	l.askers.list.Store(&socks)
}

// sockets returns the open ones.
func (a *askers) sockets() []*socket {
	if list := a.list.Load(); list != nil {
		return *list
	}
	return nil
}

// hearErrors makes the socket queue ICMP messages, and drop packets sent to its port.
func (s *socket) hearErrors() error {
	level, opt := unix.IPPROTO_IP, unix.IP_RECVERR
	if s.addr.Is6() {
		level, opt = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	nothing := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	s.errors = true
	return errors.Join(
		unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &nothing[0]}),
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, returnedBuffer),
		unix.SetsockoptInt(s.fd, level, opt, 1),
	)
}

// asker returns the socket for packets to queue pair 1 of a peer; nil if it is the usual one.
func (l *Link) asker(p *edge.Path) *socket {
	if !p.Management || p.Dst.IsMulticast() {
		return nil
	}
	socks := l.askers.sockets()
	if i := slices.IndexFunc(socks, func(s *socket) bool { return s.addr == p.Src }); i >= 0 {
		return socks[i]
	}
	return nil
}

// Returned returns a datagram that came back; see [link.Link].
func (l *Link) Returned() (b edge.Returned) {
	if !l.rx.returned {
		return b
	}
	a := &l.askers
	for _, s := range a.sockets() {
		for range maxReturned {
			n, nc, _, to, err := unix.Recvmsg(s.fd, a.quote[:], a.control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				break
			}
			noHost, ok := unreachable(a.control[:nc], s.addr.Is6())
			if addr := addrOf(to); ok && n >= ib.BTHBytes && addr.IsValid() {
				return edge.Returned{From: addr, NoHost: noHost, Quote: a.quote[:n]}
			}
		}
	}
	l.rx.returned = false
	return b
}

// unreachable is [endpoint.Unreachable] for control messages.
func unreachable(oob []byte, six bool) (noHost, ok bool) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return false, false
	}
	for _, m := range msgs {
		// struct sock_extended_err: errno (32 bits), origin, type, code.
		if d := m.Data; len(d) >= 7 {
			switch {
			case !six && m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR &&
				d[4] == unix.SO_EE_ORIGIN_ICMP,
				six && m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR &&
					d[4] == unix.SO_EE_ORIGIN_ICMP6:
				return endpoint.Unreachable(d[5], d[6], six)
			}
		}
	}
	return false, false
}

func addrOf(sa unix.Sockaddr) netip.Addr {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap()
	}
	return netip.Addr{}
}

// closeAskers closes the sockets.
func (l *Link) closeAskers() (errs []error) {
	for _, s := range l.askers.sockets() {
		if err := unix.Close(s.fd); err != nil {
			errs = append(errs, os.NewSyscallError("close", err))
		}
	}
	l.askers.list.Store(nil)
	return errs
}
