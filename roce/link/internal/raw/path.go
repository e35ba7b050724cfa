package raw

import (
	"slices"
	"sync/atomic"

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
	// Most is how many bytes of UDP payload a packet has at most; whoever makes the
	// headers of a fresh state sets it.
	Most int

	hops  *nexthop.Table
	hop   *nexthop.Hop                   // nil for multicast
	near  *atomic.Pointer[nexthop.State] // multicast: the interface of the source
	seen  *nexthop.State                 // multicast: what state was made of
	state *nexthop.State
	held  int // bytes kept until the neighbour is known
}

// Path fills in s for a path. It returns false if nothing can be sent on it.
// Packets to a multicast group leave by the interface of the local address.
func (l *Local) Path(s *Path, p *transport.Path, rxeFlush bool) bool {
	src := p.Src.WithZone("")
	local := slices.Index(l.o.Addrs, src)
	if local < 0 || p.Dst.Is4() != src.Is4() {
		return false
	}
	*s = Path{Of: p, hops: l.Hops, Flow: Flow{
		Src: src, Dst: p.Dst.WithZone(""), SrcPort: p.SrcPort, DstPort: l.o.Port,
		TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, FlowLabel: p.FlowLabel, VLAN: l.o.VLAN,
	}}
	if s.Flow.SrcPort == 0 {
		s.Flow.SrcPort = l.o.Port
	}
	s.ICRC = transmit.ICRC{ICRC: link.FlowICRC(p, s.Flow.SrcPort, l.o.Port), RxeFlush: rxeFlush}
	if s.Flow.Dst.IsMulticast() {
		s.near = &l.near[local]
	} else {
		s.hop = l.Hops.Get(s.Flow.Dst, s.Flow.Src)
	}
	return true
}

// Base returns s: every path of a link has one.
func (s *Path) Base() *Path { return s }

// Follow brings the path up to date with its next hop. fresh is true if the
// state is Ready and another than before: the headers are to be made anew.
func (s *Path) Follow() (st *nexthop.State, fresh bool) {
	if s.near != nil {
		near := s.near.Load()
		if near == s.seen {
			return s.state, false
		}
		to := *near
		to.Dst = MulticastMAC(s.Flow.Dst)
		s.seen, s.state = near, &to
		return s.state, to.Status == nexthop.Ready
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
