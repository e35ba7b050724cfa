package xdp

import (
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
)

// path is the link's state of a edge.Path.
type path struct {
	transmit.Path
	l *Link

	// For the current state of the hop, if that is Ready:
	head frame.Header
	q    *queue // nil if the link is not attached to the interface
}

// pathOf returns the link's state of a path; nil if nothing can be sent on it.
func (t *sender) pathOf(p *edge.Path) *path {
	if s, ok := p.Link.(*path); ok && s.l == t.l {
		return s
	}
	s := &path{l: t.l}
	if !t.l.local.Path(&s.Path, p, t.l.opts.RxeFlush) {
		return nil
	}
	p.Link = s
	return s
}

// Refresh updates the path from its hop, and returns its status.
func (s *path) Refresh() nexthop.Status {
	st, fresh := s.Follow()
	if fresh {
		s.prepare(st)
	}
	if st.Status == nexthop.Ready && (s.q == nil || s.q.f.lost.Load()) {
		return nexthop.Failed // it leaves by an interface that the link does not have, or has lost
	}
	return st.Status
}

// prepare makes the template of the headers.
func (s *path) prepare(st *nexthop.State) {
	s.q = nil
	f := s.l.byIndex[st.Index]
	if f == nil {
		return
	}
	s.q = f.sender(s.Flow.SrcPort)
	s.head.Init(&s.Flow, st.Src, st.Dst)
	s.Most = min(min(st.MTU, f.longest())-frame.Overhead(s.Flow.Dst), s.q.slotBytes-slotSlack-s.head.Len())
}

// write makes the frame of a packet in a slot, and returns its length.
func (s *path) write(slot []byte, p *edge.TxPacket, size int) int {
	n := s.head.Len()
	s.head.Put(slot, size)
	s.ICRC.Append(slot[n:n:len(slot)], p)
	return n + size
}

// copyIn makes the frame of a packet that already has its ICRC.
func (s *path) copyIn(slot, packet []byte) int {
	n := s.head.Len()
	s.head.Put(slot, len(packet))
	return n + copy(slot[n:], packet)
}
