package xdp

import (
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/raw"
	"github.com/goroce/goroce/transport"
)

// path is the state that the link hangs on a transport.Path.
type path struct {
	l    *Link
	flow raw.Flow
	icrc ib.ICRC

	hop   *nexthop.Hop // nil for multicast
	state *nexthop.State
	held  int // bytes kept until the neighbour is known

	// For the state, if it is Ready:
	head raw.Header
	q    *queue // nil if the link is not attached to the interface
	most int    // most bytes of UDP payload
}

// pathOf returns the link's state of a path, nil if nothing can be sent on it.
func (t *sender) pathOf(p *transport.Path) *path {
	if s, ok := p.Link.(*path); ok && s.l == t.l {
		return s
	}
	local := slices.Index(t.l.addrs, p.Src)
	if local < 0 || p.Dst.Is4() != p.Src.Is4() {
		return nil
	}
	s := &path{l: t.l, flow: raw.Flow{
		Src: p.Src, Dst: p.Dst.WithZone(""), SrcPort: p.SrcPort, DstPort: t.l.port,
		TrafficClass: p.TrafficClass, HopLimit: p.HopLimit, FlowLabel: p.FlowLabel, VLAN: t.l.opts.VLAN,
	}}
	if s.flow.SrcPort == 0 {
		s.flow.SrcPort = t.l.port
	}
	s.icrc = link.FlowICRC(p, s.flow.SrcPort, t.l.port)
	if p.Dst.IsMulticast() {
		// The MAC follows from the group, the interface is that of the address.
		k, _ := t.l.hops.Link(t.l.ifIndex[local])
		s.prepare(&nexthop.State{
			Status: nexthop.Ready, Index: k.Index, Src: k.MAC, Dst: raw.MulticastMAC(s.flow.Dst), MTU: k.MTU})
	} else {
		s.hop = t.l.hops.Get(s.flow.Dst, s.flow.Src)
	}
	p.Link = s
	return s
}

// refresh brings the path up to date with its hop, and returns its status.
func (s *path) refresh() nexthop.Status {
	if s.hop == nil {
		return nexthop.Ready
	}
	st := s.hop.State()
	if st.Status == nexthop.Evicted {
		s.hop = s.l.hops.Get(s.flow.Dst, s.flow.Src)
		st = s.hop.State()
	}
	s.hop.Use(st)
	if st != s.state {
		s.state = st
		if st.Status == nexthop.Ready {
			s.prepare(st)
		}
	}
	if st.Status == nexthop.Ready && s.q == nil {
		return nexthop.Failed // it leaves by an interface that is not the link's
	}
	return st.Status
}

// prepare makes the template of the headers.
func (s *path) prepare(st *nexthop.State) {
	s.state, s.q = st, nil
	f := s.l.byIndex[st.Index]
	if f == nil {
		return
	}
	s.q = f.sender(s.flow.SrcPort)
	s.head.Init(&s.flow, st.Src, st.Dst)
	s.most = min(min(st.MTU, f.longest())-raw.Overhead(s.flow.Dst), s.q.slotBytes-slotSlack-s.head.Len())
}

// write makes the frame of a packet in a slot, and returns its length.
func (s *path) write(slot []byte, p *transport.TxPacket, size int) int {
	n := s.head.Len()
	s.head.Put(slot, size)
	s.l.tx.appendPacket(slot[n:n:len(slot)], s, p)
	return n + size
}

// copyIn makes the frame of a packet that is complete with its ICRC.
func (s *path) copyIn(slot, packet []byte) int {
	n := s.head.Len()
	s.head.Put(slot, len(packet))
	return n + copy(slot[n:], packet)
}
