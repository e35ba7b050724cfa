package packet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/goroce/goroce/roce/link"
	"golang.org/x/sys/unix"
)

// membership is a multicast group joined on the interface of a local address.
type membership struct {
	group, local netip.Addr
}

// Join makes the kernel join the group, by the UDP socket that holds the port,
// and lets the group through the filter.
func (l *Link) Join(group, local netip.Addr) error {
	if !group.IsMulticast() {
		return fmt.Errorf("packet link: %v is not a multicast address", group)
	}
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	if l.closed.Load() {
		return link.ErrClosed
	}
	m := membership{group.WithZone(""), local}
	if l.groups[m] > 0 {
		l.groups[m]++
		return nil
	}
	if err := l.membership(m, true); err != nil {
		return err
	}
	l.groups[m] = 1
	if err := l.refilter(group.Is6()); err != nil {
		delete(l.groups, m)
		return errors.Join(err, l.membership(m, false))
	}
	return nil
}

// Leave undoes one Join.
func (l *Link) Leave(group, local netip.Addr) error {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	m := membership{group.WithZone(""), local}
	switch n := l.groups[m]; n {
	case 0:
		return fmt.Errorf("packet link: %v was not joined from %v", group, local)
	case 1:
		delete(l.groups, m)
	default:
		l.groups[m] = n - 1
		return nil
	}
	if l.closed.Load() {
		return nil // the sockets are gone, and the membership with them
	}
	return errors.Join(l.refilter(group.Is6()), l.membership(m, false))
}

// membership joins or leaves. groupMu is held.
func (l *Link) membership(m membership, join bool) error {
	at := -1
	for i, a := range l.addrs {
		if a == m.local {
			at = i
		}
	}
	if at < 0 || m.local.Is4() != m.group.Is4() {
		return fmt.Errorf("packet link: %v is no local address to join %v from", m.local, m.group)
	}
	var err error
	if m.group.Is4() {
		opt := unix.IP_ADD_MEMBERSHIP
		if !join {
			opt = unix.IP_DROP_MEMBERSHIP
		}
		err = unix.SetsockoptIPMreqn(l.holds[at], unix.IPPROTO_IP, opt,
			&unix.IPMreqn{Multiaddr: m.group.As4(), Address: m.local.As4(), Ifindex: int32(l.ifIndex[at])})
	} else {
		opt := unix.IPV6_JOIN_GROUP
		if !join {
			opt = unix.IPV6_LEAVE_GROUP
		}
		err = unix.SetsockoptIPv6Mreq(l.holds[at], unix.IPPROTO_IPV6, opt,
			&unix.IPv6Mreq{Multiaddr: m.group.As16(), Interface: uint32(l.ifIndex[at])})
	}
	if err != nil {
		return &OpenError{Addr: m.group, Hint: "does the interface do multicast?", Err: os.NewSyscallError("join or leave group", err)}
	}
	return nil
}

// refilter replaces the filter of a family's socket. groupMu is held.
func (l *Link) refilter(ip6 bool) error {
	for _, s := range l.rx.socks {
		if s.ip6 == ip6 {
			if err := l.filterFor(ip6).attach(s.fd); err != nil {
				return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)
			}
		}
	}
	return nil
}
