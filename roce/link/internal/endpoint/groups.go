package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/roce/link"
)

// membership is a multicast group joined on the interface of a local address.
type membership struct {
	group, local netip.Addr
}

// Join makes the kernel join the group, by the socket that reserves the port, and the link receive
// its packets. Joins are counted.
func (l *Local) Join(group, local netip.Addr) error {
	group = group.WithZone("")
	if !group.IsMulticast() {
		return fmt.Errorf("%s link: %v is not a multicast address", l.o.Name, group)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return link.ErrClosed
	}
	m := membership{group, local}
	if l.groups[m] > 0 {
		l.groups[m]++
		return nil
	}
	i := slices.Index(l.addrs, local)
	if i < 0 {
		return fmt.Errorf("%s link: %v is no local address to join %v from", l.o.Name, local, group)
	}
	if err := l.reserved[i].join(group); err != nil {
		return err
	}
	if !l.wanted(group, l.index[i]) {
		if err := l.o.Listen(group, l.index[i], true); err != nil {
			return errors.Join(err, l.reserved[i].leave(group))
		}
	}
	l.groups[m] = 1
	return nil
}

// Leave undoes one Join.
func (l *Local) Leave(group, local netip.Addr) error {
	group = group.WithZone("")
	l.mu.Lock()
	defer l.mu.Unlock()
	m := membership{group, local}
	switch n := l.groups[m]; n {
	case 0:
		return fmt.Errorf("%s link: %v was not joined from %v", l.o.Name, group, local)
	case 1:
		delete(l.groups, m)
	default:
		l.groups[m] = n - 1
		return nil
	}
	if l.stopped {
		return nil // the sockets are gone, and the membership with them
	}
	i := slices.Index(l.addrs, local)
	err := l.reserved[i].leave(group)
	if l.wanted(group, l.index[i]) {
		return err // another address of the interface still wants it
	}
	return errors.Join(err, l.o.Listen(group, l.index[i], false))
}

// wanted reports whether a group is joined on an interface. mu is held.
func (l *Local) wanted(group netip.Addr, index int) bool {
	for m := range l.groups {
		if m.group == group && l.index[slices.Index(l.addrs, m.local)] == index {
			return true
		}
	}
	return false
}
