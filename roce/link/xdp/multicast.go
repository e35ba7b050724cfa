package xdp

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

// Join makes the kernel join the group, by the socket that holds the port, and
// has packets to it redirected.
func (l *Link) Join(group, local netip.Addr) error {
	group = group.WithZone("")
	if !group.IsMulticast() {
		return fmt.Errorf("xdp link: %v is not a multicast address", group)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return link.ErrClosed
	}
	m := membership{group, local}
	if l.groups[m] > 0 {
		l.groups[m]++
		return nil
	}
	i := slices.Index(l.addrs, local)
	if i < 0 {
		return fmt.Errorf("xdp link: %v is no local address to join %v from", local, group)
	}
	if err := l.holds[i].Join(group); err != nil {
		return err
	}
	if err := l.byIndex[l.ifIndex[i]].program.listen(group, true); err != nil {
		return errors.Join(err, l.holds[i].Leave(group))
	}
	l.groups[m] = 1
	return nil
}

// Leave undoes one Join.
func (l *Link) Leave(group, local netip.Addr) error {
	group = group.WithZone("")
	l.mu.Lock()
	defer l.mu.Unlock()
	m := membership{group, local}
	switch n := l.groups[m]; n {
	case 0:
		return fmt.Errorf("xdp link: %v was not joined from %v", group, local)
	case 1:
		delete(l.groups, m)
	default:
		l.groups[m] = n - 1
		return nil
	}
	if l.gone {
		return nil // the sockets are gone, and the membership with them
	}
	i := slices.Index(l.addrs, local)
	err := l.holds[i].Leave(group)
	for other := range l.groups {
		if other.group == group && l.ifIndex[slices.Index(l.addrs, other.local)] == l.ifIndex[i] {
			return err // somebody else on this interface wants it
		}
	}
	return errors.Join(err, l.byIndex[l.ifIndex[i]].program.listen(group, false))
}
