package transmit

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
)

// Path is the state of a path for links that write frames: the flow, its ICRC, and the next hop.
// Paths of the same flow may share it.
type Path struct {
	Flow frame.Flow
	ICRC ICRC
	// Most is the most bytes of UDP payload of a packet; the code that makes the headers for a
	// fresh state sets it.
	Most int

	hops       *nexthop.Table
	hop        *nexthop.Hop
	state      *nexthop.State
	unresolved int // bytes kept until the neighbour is known
}

// Init initialises a path for packets of the flow. rxeFlush is that of [ICRC].
func (s *Path) Init(f frame.Flow, hops *nexthop.Table, rxeFlush bool) {
	*s = Path{
		Flow: f, hops: hops, hop: hops.Get(f.Dst, f.Src),
		ICRC: ICRC{
			ICRC:     ib.NewICRC(ib.Flow{Src: f.Src, Dst: f.Dst, SrcPort: f.SrcPort, DstPort: f.DstPort}),
			RxeFlush: rxeFlush,
		},
	}
}

// Base returns s: every path of a link has one.
func (s *Path) Base() *Path { return s }

// Follow updates the path from its next hop. fresh is true if the state is Ready and has changed:
// the headers must be made anew.
func (s *Path) Follow() (st *nexthop.State, fresh bool) {
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
