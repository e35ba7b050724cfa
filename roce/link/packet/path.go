package packet

import (
	"math/rand/v2"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/wire"
)

// path is the state that the link hangs on a wire.Path. Those of one flow share it, so
// that their packets can share frames.
type path struct {
	transmit.Path
	l    *Link
	hash uint32
	sent uint64 // the batch in which something was found to be able to go

	// For the state of the hop, if it is Ready:
	name    rawName
	head    frame.Header
	headLen int // of virtio header and headers
	limit   int // most bytes of UDP payload in a frame
}

// pathOf returns the link's state of a path, nil if nothing can be sent on it.
func (t *sender) pathOf(p *wire.Path) *path {
	if s, ok := p.Link.(*path); ok && s.l == t.l {
		return s
	}
	f, ok := t.l.local.Flow(p)
	if !ok {
		return nil
	}
	if f.SrcPort = t.flowPort(p, f.SrcPort); p.Light {
		f.FlowLabel = 0
	}
	s := t.paths[f]
	if s == nil {
		s = &path{l: t.l, hash: rand.Uint32()}
		s.Path.Init(f, t.l.local.Hops, t.l.opts.RxeFlush)
		if len(t.paths) >= maxPaths {
			clear(t.paths) // those that are in use go on, without company
		}
		t.paths[f] = s
	}
	p.Link = s
	return s
}

// flowPort returns the source port of a path, one of a few: packets that leave by different ones
// cannot share a frame. Networks that spread load (ECMP) and receivers (RSS) have enough of these.
func (t *sender) flowPort(p *wire.Path, port uint16) uint16 {
	if p.SrcPort < firstPort || p.Dst.IsMulticast() {
		return port
	}
	if p.Light {
		return t.light
	}
	return firstPort | port%sourcePorts
}

// SourcePort returns the port that packets on a path leave from; see [link.Link].
func (l *Link) SourcePort(p *wire.Path) uint16 {
	if ps := l.tx.pathOf(p); ps != nil {
		return ps.Flow.SrcPort
	}
	return l.local.Port()
}

// Refresh brings the path up to date with its hop, and returns its status.
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
	s.headLen = vnetBytes + s.head.Len()
	overhead := frame.Overhead(s.Flow.Dst)
	longest := frame.MaxIPBytes
	if st.GSOMax > 0 {
		longest = min(longest, st.GSOMax-s.head.Network())
	}
	s.limit = longest - overhead
	s.Most = st.MTU - overhead

	proto := etherType(s.Flow.Dst.Is6())
	if s.Flow.VLAN != 0 {
		proto = unix.ETH_P_8021Q
	}
	s.name.ll = unix.RawSockaddrLinklayer{
		Family: unix.AF_PACKET, Protocol: hostToNet(proto), Ifindex: int32(st.Index), Halen: uint8(len(st.Dst)),
	}
	copy(s.name.ll.Addr[:], st.Dst[:])
}

// putHead writes the headers of a frame with size bytes of UDP payload, cut
// into segments of segment bytes (0: a single packet), to b, which has headLen
// bytes.
func (s *path) putHead(b []byte, size, segment int) {
	vnet, head := b[:vnetBytes], b[vnetBytes:]
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
