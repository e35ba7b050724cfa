package udp

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// Join opens a socket bound to the group, because a unicast socket does not receive its packets. If
// the interface of the local address is removed and made again, leave the group and join it anew.
func (l *Link) Join(group, local netip.Addr) error {
	if !group.IsMulticast() {
		return fmt.Errorf("udp link: %v is not a multicast address", group)
	}
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	if err := l.local.Life.Err(); err != nil {
		return err
	}
	var owner *socket
	for _, s := range l.socks {
		if s.addr == local {
			owner = s
		}
	}
	if owner == nil || local.Is4() != group.Is4() {
		return fmt.Errorf("udp link: %v is no local address to join %v from", local, group)
	}
	for _, s := range l.groups {
		if s.addr == group && s.local == local {
			s.joins++
			return nil
		}
	}
	if err := owner.locate(); err != nil {
		return err
	}
	s, err := openGroup(group, owner, l.local.Port(), &l.opts)
	if err != nil {
		return err
	}
	l.groups = append(l.groups, s)
	l.changed.Store(true)
	l.Wake()
	return nil
}

// Leave undoes one Join.
func (l *Link) Leave(group, local netip.Addr) error {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	for i, s := range l.groups {
		if s.addr != group || s.local != local {
			continue
		}
		if s.joins--; s.joins == 0 {
			l.groups = append(l.groups[:i:i], l.groups[i+1:]...)
			// The receiving side may be using it, and closes it.
			l.left = append(l.left, s)
			l.changed.Store(true)
			l.Wake()
		}
		return nil
	}
	return fmt.Errorf("udp link: %v was not joined from %v", group, local)
}

func openGroup(group netip.Addr, owner *socket, port uint16, o *Options) (*socket, error) {
	s := &socket{fd: -1, index: owner.index, addr: group, local: owner.addr, joins: 1}
	s.ifIdx.Store(owner.ifIdx.Load())
	err := s.open()
	if err == nil {
		err = s.join(owner, port, o)
	}
	if err != nil {
		if s.fd >= 0 {
			unix.Close(s.fd)
		}
		return nil, err
	}
	return s, nil
}

func (s *socket) join(owner *socket, port uint16, o *Options) error {
	if err := s.setOptions(o); err != nil {
		return &OpenError{Addr: s.addr, Err: err}
	}
	// Every program that listens to the group has a socket of its own.
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return &OpenError{Addr: s.addr, Err: os.NewSyscallError("setsockopt SO_REUSEADDR", err)}
	}
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(port), Addr: s.addr.As16(), ZoneId: uint32(s.ifIdx.Load())}
	if s.addr.Is4() {
		sa = &unix.SockaddrInet4{Port: int(port), Addr: s.addr.As4()}
	}
	if err := unix.Bind(s.fd, sa); err != nil {
		return &OpenError{Addr: s.addr, Hint: sockio.BindHint(err, port), Err: os.NewSyscallError("bind", err)}
	}
	var err error
	if s.addr.Is4() {
		err = unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: s.addr.As4(), Address: owner.addr.As4(), Ifindex: s.ifIdx.Load()})
	} else {
		err = unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: s.addr.As16(), Interface: uint32(s.ifIdx.Load())})
	}
	if err != nil {
		return &OpenError{Addr: s.addr, Hint: "does the interface do multicast?",
			Err: os.NewSyscallError("join group", err)}
	}
	return nil
}
