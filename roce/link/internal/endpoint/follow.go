package endpoint

import (
	"net/netip"
	"slices"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// Follow makes the link follow its addresses: when an interface is removed and another with the
// address takes its place, or the address moves to another, the port, the groups and the socket
// that reserves the port follow. rebind is then called with the interface.
func (l *Local) Follow(rebind func(k rtnl.Link)) {
	l.Hops.Follow(func(i int) { l.moved(i, rebind) })
}

// moved handles the move of address i to another interface.
func (l *Local) moved(i int, rebind func(k rtnl.Link)) {
	index := l.Hops.Index(i)
	k, ok := l.Hops.Link(index)
	if !ok || !k.Ethernet() {
		return // gone again, or unusable
	}
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	old := l.index[i]
	l.index[i] = index
	var groups []netip.Addr
	for m := range l.groups {
		if m.local == l.addrs[i] {
			groups = append(groups, m.group)
		}
	}
	l.reserved[i].move(index, groups)
	kept := slices.Contains(l.index, old)
	l.mu.Unlock()
	rebind(k)
	l.State.Moved(old, kept, k)
	l.catchUp(index, k)
}
