package packet

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
)

// path is the link's state of a route. Paths of one flow share it, so that their packets can share
// frames.
type path struct {
	transmit.Path
	route transmit.Route

	// For the current state of the hop, if that is Ready:
	name rawName
	head frame.Header
}

// routeOf makes the route of a path; nil if nothing can be sent on it.
func (t *sender) routeOf(p *edge.Path) *transmit.Route {
	f, ok := t.l.local.Flow(p)
	if !ok {
		return nil
	}
	if f.SrcPort = t.flowPort(p, f.SrcPort); p.Light {
		f.FlowLabel = 0
	}
	s := t.paths[f]
	if s == nil {
		s = &path{}
		s.Path.Init(f, t.l.local.Hops, t.l.opts.RxeFlush)
		s.route = transmit.Route{ICRC: s.ICRC, FD: t.fd, Own: s}
		t.Add(&s.route)
		if len(t.paths) >= maxPaths {
			clear(t.paths) // paths in use go on, but new ones do not share them
		}
		t.paths[f] = s
	}
	return &s.route
}

// flowPort returns the source port of a path, one of a few: packets by different ports cannot share
// a frame, and a few are enough for networks (ECMP) and receivers (RSS) to spread load.
func (t *sender) flowPort(p *edge.Path, port uint16) uint16 {
	if p.SrcPort < firstPort || p.Dst.IsMulticast() {
		return port
	}
	if p.Light {
		return t.light
	}
	return firstPort | port%sourcePorts
}

// SourcePort returns the source port of packets on a path; see [link.Link].
func (l *Link) SourcePort(p *edge.Path) uint16 {
	if r := l.tx.RouteOf(p); r != nil {
		return r.Own.(*path).Flow.SrcPort
	}
	return l.local.Port()
}

// Refresh updates the path from its hop, and returns its status.
func (s *path) Refresh() nexthop.Status {
	st, fresh := s.Follow()
	if fresh {
		s.prepare(st)
	}
	return st.Status
}

// prepare makes the template of the headers.
func (s *path) prepare(st *nexthop.State) {
	s.head.Init(&s.Flow, st.Src, st.Dst)
	s.route.Front = vnetBytes + s.head.Len()
	overhead := frame.Overhead(s.Flow.Dst)
	longest := frame.MaxIPBytes
	if st.GSOMax > 0 {
		longest = min(longest, st.GSOMax-s.head.Network())
	}
	s.route.Limit = longest - overhead
	s.Most = st.MTU - overhead
	s.route.Most = s.Most

	proto := etherType(s.Flow.Dst.Is6())
	if s.Flow.VLAN != 0 {
		proto = unix.ETH_P_8021Q
	}
	s.name.ll = unix.RawSockaddrLinklayer{
		Family: unix.AF_PACKET, Protocol: hostToNet(proto), Ifindex: int32(st.Index), Halen: uint8(len(st.Dst)),
	}
	copy(s.name.ll.Addr[:], st.Dst[:])
}

// Fill writes the headers of a frame to its front. The frame has size bytes of UDP payload, cut
// into segments of segment bytes (0: a single packet).
func (s *path) Fill(h *unix.Msghdr, front, _ []byte, size, segment int) {
	h.Name, h.Namelen = s.name.bytes(), unix.SizeofSockaddrLinklayer
	vnet, head := front[:vnetBytes], front[vnetBytes:]
	clear(vnet)
	s.head.Put(head, size)
	if segment == 0 {
		return
	}
	s.head.PutPartialChecksum(head, size)
	at := s.head.Transport()
	vnet[0], vnet[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, unix.VIRTIO_NET_HDR_GSO_UDP_L4
	native.PutUint16(vnet[2:], uint16(s.head.Len()))
	native.PutUint16(vnet[4:], uint16(segment))
	native.PutUint16(vnet[6:], uint16(at))
	native.PutUint16(vnet[8:], frame.ChecksumOffset)
}
