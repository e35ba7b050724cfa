package packet

import (
	"maps"
	"net/netip"
	"os"
	"slices"
)

// groups has the multicast groups that the filters pass, each with the number of interfaces on
// which it is joined.
type groups map[netip.Addr]int

// listen makes the filters pass a group, or no longer. Calls are serialized.
func (l *Link) listen(group netip.Addr, _ int, on bool) error {
	before := l.groups
	l.groups = maps.Clone(before)
	if l.groups == nil {
		l.groups = make(groups)
	}
	if on {
		l.groups[group]++
	} else if l.groups[group]--; l.groups[group] == 0 {
		delete(l.groups, group)
	}
	for _, s := range l.rx.socks {
		if s.ip6 != group.Is6() {
			continue
		}
		if err := l.filterFor(s.ip6).attach(s.fd); err != nil {
			l.groups = before
			return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)
		}
	}
	return nil
}

// filterFor makes the filter of a family.
func (l *Link) filterFor(ip6 bool) filter {
	c := filterConfig{ip6: ip6, port: l.local.Port(), vlan: l.opts.VLAN, slot: l.share.Slot()}
	c.addrs = slices.AppendSeq(slices.Clone(l.local.Addrs()), maps.Keys(l.groups))
	return c.build()
}
