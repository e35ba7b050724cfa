package packet

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/rtnl"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport"
	"golang.org/x/sys/unix"
)

// path is the state that the link hangs on a transport.Path.
type path struct {
	l       *Link
	of      *transport.Path
	icrc    ib.ICRC
	src     netip.Addr
	dst     netip.Addr
	srcPort uint16
	tclass  uint8
	ttl     uint8
	flow    uint32

	hop   *nexthop.Hop // nil for multicast
	state *nexthop.State
	held  int // bytes kept until the neighbour is known

	// For the state, if it is Ready:
	name    rawName
	head    [sockio.MaxReserve]byte // template of virtio, Ethernet, IP and UDP header
	headLen int
	l3      int    // offset of the IP header in the frame, without virtio header
	limit   int    // most bytes of UDP payload in a frame
	most    int    // most bytes of UDP payload in a packet
	sum     uint32 // of the constant 16-bit words of the IPv4 header
	pseudo  uint32 // of those of the UDP pseudo header
}

// pathOf returns the link's state of a path, nil if nothing can be sent on it.
func (t *sender) pathOf(p *transport.Path) *path {
	if s, ok := p.Link.(*path); ok && s.l == t.l {
		return s
	}
	local := -1
	for i, a := range t.l.addrs {
		if a == p.Src {
			local = i
		}
	}
	if local < 0 || p.Dst.Is4() != p.Src.Is4() {
		return nil
	}
	s := &path{
		l: t.l, of: p, src: p.Src, dst: p.Dst.WithZone(""), srcPort: p.SrcPort, tclass: p.TrafficClass, ttl: p.HopLimit, flow: p.FlowLabel & 0xFFFFF,
	}
	if s.srcPort == 0 {
		s.srcPort = t.l.port
	}
	if s.ttl == 0 {
		s.ttl = defaultTTL
	}
	s.icrc = link.FlowICRC(p, s.srcPort, t.l.port)
	if p.Dst.IsMulticast() {
		s.prepareMulticast(local)
	} else {
		s.hop = t.l.hops.Get(s.dst, s.src)
	}
	p.Link = s
	return s
}

// prepareMulticast makes a path whose MAC follows from the group, and whose interface is that of the local address.
func (s *path) prepareMulticast(local int) {
	k := s.l.linkOf(s.l.ifIndex[local])
	st := &nexthop.State{Status: nexthop.Ready, Index: k.Index, Src: k.MAC, MTU: k.MTU, GSOMax: k.GSOMax}
	a := s.dst.As16()
	if s.dst.Is4() {
		st.Dst = rtnl.MAC{0x01, 0x00, 0x5E, a[13] & 0x7F, a[14], a[15]} // RFC 1112
	} else {
		st.Dst = rtnl.MAC{0x33, 0x33, a[12], a[13], a[14], a[15]} // RFC 2464
	}
	s.prepare(st)
}

// refresh brings the path up to date with its hop, and returns its status.
func (s *path) refresh() nexthop.Status {
	if s.hop == nil {
		return nexthop.Ready
	}
	st := s.hop.State()
	if st.Status == nexthop.Evicted {
		s.hop = s.l.hops.Get(s.dst, s.src)
		st = s.hop.State()
	}
	s.hop.Use(st)
	if st != s.state {
		s.state = st
		if st.Status == nexthop.Ready {
			s.prepare(st)
		}
	}
	return st.Status
}

// prepare makes the template of the headers.
func (s *path) prepare(st *nexthop.State) {
	s.state = st
	be := binary.BigEndian
	b := s.head[:0]
	b = append(b, make([]byte, vnetBytes)...)
	b = append(b, st.Dst[:]...)
	b = append(b, st.Src[:]...)
	proto := etherType(s.dst.Is6())
	first := proto
	if v := s.l.opts.VLAN; v != 0 {
		first = unix.ETH_P_8021Q
		b = be.AppendUint16(b, first)
		b = be.AppendUint16(b, uint16(s.tclass>>5)<<13|v)
	}
	b = be.AppendUint16(b, proto)
	s.l3 = len(b) - vnetBytes
	overhead := ip4Overhead
	ip := len(b)
	if s.dst.Is4() {
		src, dst := s.src.As4(), s.dst.As4()
		b = append(b, 0x45, s.tclass, 0, 0, 0, 0, 0x40, 0, s.ttl, unix.IPPROTO_UDP, 0, 0)
		b = append(append(b, src[:]...), dst[:]...)
		s.sum = sum16(b[ip:])
		s.pseudo = sum16(b[ip+12:]) + unix.IPPROTO_UDP
	} else {
		overhead = ip6Overhead
		src, dst := s.src.As16(), s.dst.As16()
		b = be.AppendUint32(b, 6<<28|uint32(s.tclass)<<20|s.flow)
		b = append(b, 0, 0, unix.IPPROTO_UDP, s.ttl)
		b = append(append(b, src[:]...), dst[:]...)
		s.pseudo = sum16(b[ip+8:]) + unix.IPPROTO_UDP
	}
	b = be.AppendUint16(b, s.srcPort)
	b = be.AppendUint16(b, s.l.port)
	b = append(b, 0, 0, 0, 0)
	s.headLen = len(b)

	longest := maxIPPacket
	if st.GSOMax > 0 {
		longest = min(longest, st.GSOMax-s.l3)
	}
	if s.dst.Is6() {
		longest = min(longest, maxIPPacket) // the length does not count the header; keep to the same
	}
	s.limit = longest - overhead
	s.most = st.MTU - overhead

	s.name.ll = unix.RawSockaddrLinklayer{
		Family: unix.AF_PACKET, Protocol: hostToNet(first), Ifindex: int32(st.Index), Halen: 6,
	}
	copy(s.name.ll.Addr[:], st.Dst[:])
}

// sum16 adds up the 16-bit words of b, whose length is even.
func sum16(b []byte) (sum uint32) {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	return sum
}

func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xFFFF
	return uint16(sum>>16 + sum)
}

// putHead writes the headers of a frame with size bytes of UDP payload, cut
// into segments of segment bytes (0: a single packet), to b, which has headLen
// bytes.
func (s *path) putHead(b []byte, size, segment int) {
	be := binary.BigEndian
	copy(b, s.head[:s.headLen])
	ip := b[vnetBytes+s.l3:]
	udp := b[s.headLen-ib.UDPHeaderBytes:]
	length := uint16(size + ib.UDPHeaderBytes)
	if s.dst.Is4() {
		total := length + ib.IPv4HeaderBytes
		be.PutUint16(ip[2:], total)
		be.PutUint16(ip[10:], ^fold(s.sum+uint32(total)))
	} else {
		be.PutUint16(ip[4:], length)
	}
	be.PutUint16(udp[4:], length)
	if segment == 0 {
		return
	}
	// The sum of the pseudo header, which whoever cuts the frame up completes.
	be.PutUint16(udp[6:], fold(s.pseudo+uint32(length)))
	at := s.headLen - vnetBytes - ib.UDPHeaderBytes
	b[0], b[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, unix.VIRTIO_NET_HDR_GSO_UDP_L4
	native.PutUint16(b[2:], uint16(at+ib.UDPHeaderBytes))
	native.PutUint16(b[4:], uint16(segment))
	native.PutUint16(b[6:], uint16(at))
	native.PutUint16(b[8:], 6)
}
