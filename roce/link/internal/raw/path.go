package raw

import (
	"slices"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport"
)

// Path is what links that write frames keep of a transport.Path: the flow, its
// ICRC, and the next hop.
type Path struct {
	Of   *transport.Path
	Flow Flow
	ICRC transmit.ICRC

	hops  *nexthop.Table
	hop   *nexthop.Hop // nil for multicast
	state *nexthop.State
	held  int // bytes kept until the neighbour is known
}

// Path fills in s for a path. It returns false if nothing can be sent on it, and
// for multicast the state of the hop, which does not change: the MAC address
// follows from the group, and the interface is that of the local address.
func (l *Local) Path(s *Path, p *transport.Path, rxeFlush bool) (fixed *nexthop.State, ok bool) {
	local := slices.Index(l.o.Addrs, p.Src)
	if local < 0 || p.Dst.Is4() != p.Src.Is4() {
		return nil, false
	}
	*s = Path{Of: p, hops: l.Hops, Flow: Flow{
		Src: p.Src, Dst: p.Dst.WithZone(""), SrcPort: p.SrcPort, DstPort: l.o.Port,
		TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, FlowLabel: p.FlowLabel, VLAN: l.o.VLAN,
	}}
	if s.Flow.SrcPort == 0 {
		s.Flow.SrcPort = l.o.Port
	}
	s.ICRC = transmit.ICRC{ICRC: link.FlowICRC(p, s.Flow.SrcPort, l.o.Port), RxeFlush: rxeFlush}
	if !p.Dst.IsMulticast() {
		s.hop = l.Hops.Get(s.Flow.Dst, s.Flow.Src)
		return nil, true
	}
	k, _ := l.Hops.Link(l.index[local])
	s.state = &nexthop.State{Status: nexthop.Ready, Index: k.Index, Src: k.MAC, Dst: MulticastMAC(s.Flow.Dst), MTU: k.MTU, GSOMax: k.GSOMax}
	return s.state, true
}

// Base returns s: every path of a link has one.
func (s *Path) Base() *Path { return s }

// Held reports whether packets wait for the neighbour.
func (s *Path) Held() bool { return s.held > 0 }

// Follow brings the path up to date with its next hop. fresh is true if the
// state is Ready and another than before: the headers are to be made anew.
func (s *Path) Follow() (st *nexthop.State, fresh bool) {
	if s.hop == nil {
		return s.state, false
	}
	st = s.hop.State()
	if st.Status == nexthop.Evicted {
		s.hop = s.hops.Get(s.Flow.Dst, s.Flow.Src)
		st = s.hop.State()
	}
	s.hop.Use(st)
	if st == s.state {
		return st, false
	}
	s.state = st
	return st, st.Status == nexthop.Ready
}
