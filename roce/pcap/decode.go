package pcap

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// Reason says why a frame has no RoCE v2 packet.
type Reason uint8

// The reasons.
const (
	Found       Reason = iota // it has one or more
	NotIP                     // ARP and the like
	NotUDP                    // another protocol over IP
	OtherPort                 // UDP, but not to the port of RoCE v2
	Fragment                  // a fragment of an IP packet: RoCE packets are never fragmented
	Malformed                 // the headers are inconsistent
	TooShort                  // the capture has less than the headers (tcpdump -s)
	RoCEv1                    // RoCE version 1, which is not over UDP
	UnknownLink               // a link type that is not supported
	numReasons
)

func (r Reason) String() string {
	return [...]string{
		"RoCE v2", "not IP", "not UDP", "UDP to other ports", "fragments", "malformed", "cut before the headers end",
		"RoCE v1", "link type not understood", "",
	}[min(r, numReasons)]
}

// Decoder finds RoCE v2 packets in frames. The zero value is ready to use.
type Decoder struct {
	// Port is the UDP port; 0 is that of RoCE v2.
	Port uint16
	// NoICRC leaves ICRCs unchecked, for callers that do not use them.
	NoICRC bool
	// Counts has the number of frames by result.
	Counts [numReasons]int
	// Strange is the link type of the first frame that was not supported; Counts has the number of
	// such frames.
	Strange LinkType

	out   []Packet
	icmp  ICMP // at most one a frame
	flows map[ib.Flow]*ib.ICRC
	// segment is the latest length of packets that share a datagram.
	segment int
}

const (
	etherIPv4    = 0x0800
	etherIPv6    = 0x86DD
	etherVLAN    = 0x8100
	etherQinQ    = 0x88A8
	etherQinQOld = 0x9100
	etherRoCEv1  = 0x8915
	etherTEB     = 0x6558 // Ethernet in Geneve

	protoICMP   = 1
	protoUDP    = 17
	protoICMPv6 = 58

	portVXLAN  = 4789
	portGeneve = 6081

	maxNesting = 4    // tunnels in tunnels
	maxFlows   = 4096 // ICRC states kept
)

var be = binary.BigEndian

// Decode returns the packets in a frame. They are valid until the next call, and their data as long
// as that of the frame.
func (d *Decoder) Decode(f *Frame) []Packet {
	d.out = d.out[:0]
	p := Packet{Frame: f.Number, AtNs: f.AtNs, Iface: f.Iface, Dir: f.Dir}
	r := d.link(f, p)
	if r == UnknownLink && d.Counts[r] == 0 {
		d.Strange = f.Link
	}
	d.Counts[r]++
	return d.out
}

// link removes the link-layer header.
func (d *Decoder) link(f *Frame, p Packet) Reason {
	b := f.Data
	switch f.Link {
	case LinkEthernet:
		return d.ethernet(b, p, 0)
	case LinkRaw, linkRawBSD, LinkIPv4, LinkIPv6:
		return d.ip(b, p, 0)
	case LinkNull, linkLoop:
		if len(b) < 4 {
			return TooShort
		}
		return d.ip(b[4:], p, 0)
	case LinkSLL:
		if len(b) < 16 {
			return TooShort
		}
		p.direction(be.Uint16(b))
		return d.ether(be.Uint16(b[14:]), b[16:], p, 0)
	case LinkSLL2:
		if len(b) < 20 {
			return TooShort
		}
		p.Iface = int(be.Uint32(b[4:]) & 0xFFFFFF)
		p.direction(uint16(b[10]))
		return d.ether(be.Uint16(b), b[20:], p, 0)
	}
	return UnknownLink
}

// direction interprets the packet type of Linux: 0 to us, 1 broadcast, 2 multicast, 3 to another
// host, 4 sent by us.
func (p *Packet) direction(t uint16) {
	switch t {
	case 0, 1, 2:
		p.Dir = In
	case 4:
		p.Dir = Out
	}
}

func (d *Decoder) ethernet(b []byte, p Packet, depth int) Reason {
	if len(b) < 14 {
		return TooShort
	}
	return d.ether(be.Uint16(b[12:]), b[14:], p, depth)
}

func (d *Decoder) ether(typ uint16, b []byte, p Packet, depth int) Reason {
	for tags := 0; typ == etherVLAN || typ == etherQinQ || typ == etherQinQOld; tags++ {
		if len(b) < 4 {
			return TooShort
		}
		if tags == 4 {
			return Malformed
		}
		tci := be.Uint16(b)
		p.Tagged, p.VLAN, p.Priority = true, tci&0xFFF, uint8(tci>>13)
		typ, b = be.Uint16(b[2:]), b[4:]
	}
	switch typ {
	case etherIPv4, etherIPv6:
		return d.ip(b, p, depth)
	case etherRoCEv1:
		return RoCEv1
	}
	return NotIP
}

// ip parses an IP packet. b may be longer (the padding of Ethernet) or shorter (a cut capture) than
// its header says.
func (d *Decoder) ip(b []byte, p Packet, depth int) Reason {
	if len(b) < 1 {
		return TooShort
	}
	var proto uint8
	var body []byte
	var bodyBytes int
	switch b[0] >> 4 {
	case 4:
		if len(b) < 20 {
			return TooShort
		}
		n, total := int(b[0]&15)*4, int(be.Uint16(b[2:]))
		if n < 20 {
			return Malformed
		}
		if total == 0 && depth == 0 {
			total = len(b) // a segment too large for the field (big TCP and the like)
		}
		if total < n {
			return Malformed
		}
		frag := be.Uint16(b[6:])
		p.TrafficClass, p.HopLimit, p.Ident, p.NoDF = b[1], b[8], be.Uint16(b[4:]), frag&0x4000 == 0
		p.Flow.Src, p.Flow.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
		proto, bodyBytes = b[9], total-n
		if frag&0x3FFF != 0 {
			if proto == protoUDP {
				return Fragment
			}
			return NotUDP
		}
		if len(b) < n {
			return TooShort
		}
		body = b[n:min(len(b), total)]
	case 6:
		if len(b) < 40 {
			return TooShort
		}
		w := be.Uint32(b)
		p.TrafficClass, p.FlowLabel, p.HopLimit = uint8(w>>20), w&0xFFFFF, b[7]
		p.Flow.Src, p.Flow.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
		proto, bodyBytes = b[6], int(be.Uint16(b[4:]))
		if bodyBytes == 0 {
			bodyBytes = len(b) - 40 // a jumbogram, or a segment too large for the field
		}
		body = b[40:min(len(b), 40+bodyBytes)]
	default:
		return Malformed
	}
	switch proto {
	case protoUDP:
		return d.udp(body, bodyBytes, p, depth)
	case protoICMP, protoICMPv6:
		return d.readICMP(body, proto == protoICMPv6, p)
	}
	return NotUDP
}

func (d *Decoder) udp(b []byte, bytes int, p Packet, depth int) Reason {
	if len(b) < 8 {
		return TooShort
	}
	n := int(be.Uint16(b[4:]))
	if n == 0 {
		n = bytes
	}
	if n < 8 || n > bytes {
		return Malformed
	}
	p.Flow.SrcPort, p.Flow.DstPort = be.Uint16(b), be.Uint16(b[2:])
	body := b[8:min(len(b), n)]
	port := d.Port
	if port == 0 {
		port = ib.UDPPort
	}
	switch p.Flow.DstPort {
	case port:
		d.datagram(body, n-8, p)
		return Found
	case portVXLAN:
		if depth < maxNesting && len(body) >= 8 && body[0]&0x08 != 0 {
			p.Tunnel, p.Tagged, p.VLAN = "VXLAN", false, 0
			return d.ethernet(body[8:], p, depth+1)
		}
	case portGeneve:
		if depth < maxNesting && len(body) >= 8 && body[0]>>6 == 0 {
			opts, typ := int(body[0]&0x3F)*4, be.Uint16(body[2:])
			if len(body) < 8+opts {
				return TooShort
			}
			p.Tunnel, p.Tagged, p.VLAN = "Geneve", false, 0
			if typ == etherTEB {
				return d.ethernet(body[8+opts:], p, depth+1)
			}
			return d.ether(typ, body[8+opts:], p, depth+1)
		}
	}
	return OtherPort
}

// datagram splits a UDP payload: one packet, or several that a host segments later or has merged.
func (d *Decoder) datagram(b []byte, bytes int, p Packet) {
	icrc := d.icrc(&p)
	for part := 0; ; part++ {
		n := bytes
		if len(b) == bytes && part < 64 {
			n = d.segmentBytes(icrc, b, &p, part)
		}
		q := p
		q.Part, q.Bytes, q.Data = part, n, b[:min(n, len(b))]
		q.decodeHeaders()
		if q.Problem == "" && !q.Cut() && !d.NoICRC {
			q.ICRC = state(icrc, &q, part)
		}
		d.out = append(d.out, q)
		if b, bytes = b[min(n, len(b)):], bytes-n; bytes <= 0 || n <= 0 {
			return
		}
	}
}

// state checks the ICRC. The packets of one datagram have the identifications of segmentation,
// counted up from the first, or all that of the first.
func state(icrc *ib.ICRC, p *Packet, part int) ICRCState {
	body, got := p.Data[:len(p.Data)-ib.ICRCBytes], ib.TrailingICRC(p.Data)
	for _, id := range [...]uint16{p.Ident + uint16(part), p.Ident, uint16(part)} {
		if icrc.Checksum(id, body) == got {
			return ICRCRight
		}
		if p.Opcode == ib.RCFlush && icrc.ChecksumFlushRxe(id, body) == got {
			return ICRCRightRxe
		}
		if part == 0 {
			break
		}
	}
	return ICRCWrong
}

// segmentBytes returns the length of the first packet in b: len(b), unless another packet begins
// behind it. One does if the headers there fit those here, and the ICRC before them is right. All
// packets of a datagram except the last have the same length.
func (d *Decoder) segmentBytes(icrc *ib.ICRC, b []byte, p *Packet, part int) int {
	const least = ib.BTHBytes + ib.ICRCBytes
	if len(b) < 2*least {
		return len(b)
	}
	if part > 0 && d.segment > 0 {
		return min(d.segment, len(b))
	}
	d.segment = 0
	info := ib.Opcode(b[0]).Info()
	if info.HeaderLen == 0 || info.Op == ib.OpInvalid {
		return len(b)
	}
	for n := max(least, int(info.HeaderLen)+ib.ICRCBytes); n+least <= len(b); n += 4 {
		next := b[n:]
		if !ib.Opcode(next[0]).Known() || next[1]&0x0F != 0 || next[2] != b[2] || next[3] != b[3] {
			continue
		}
		if n > ib.MaxPacketBytes {
			break
		}
		if icrc.Checksum(p.Ident, b[:n-ib.ICRCBytes]) == ib.TrailingICRC(b[:n]) {
			d.segment = n
			return n
		}
	}
	return len(b)
}

// icrc returns the ICRC state of the packet's flow.
func (d *Decoder) icrc(p *Packet) *ib.ICRC {
	c := d.flows[p.Flow]
	if c == nil {
		if d.flows == nil || len(d.flows) >= maxFlows {
			d.flows = make(map[ib.Flow]*ib.ICRC)
		}
		v := ib.NewICRC(p.Flow)
		c = &v
		d.flows[p.Flow] = c
	}
	if p.NoDF && p.Flow.Src.Is4() {
		v := c.WithoutDF()
		return &v
	}
	return c
}

// readICMP parses an ICMP message that quotes a RoCE packet.
func (d *Decoder) readICMP(b []byte, v6 bool, p Packet) Reason {
	if len(b) < 8 {
		return NotUDP
	}
	m := ICMP{From: p.Flow.Src, Type: b[0], Code: b[1]}
	switch {
	case !v6 && b[0] == 3:
		switch b[1] {
		case 3:
			m.What = PortUnreachable
		case 4:
			m.What, m.MTU = TooBig, int(be.Uint16(b[6:]))
		case 9, 10, 13:
			m.What = Prohibited
		}
	case v6 && b[0] == 1:
		switch b[1] {
		case 4:
			m.What = PortUnreachable
		case 1:
			m.What = Prohibited
		}
	case v6 && b[0] == 2:
		m.What, m.MTU = TooBig, int(min(be.Uint32(b[4:]), 1<<20))
	default:
		return NotUDP
	}
	q := b[8:]
	var ipBytes int
	inner := Packet{Frame: p.Frame, AtNs: p.AtNs, Iface: p.Iface, Dir: p.Dir, Tunnel: p.Tunnel,
		Tagged: p.Tagged, VLAN: p.VLAN, Priority: p.Priority}
	switch {
	case !v6 && len(q) >= 28 && q[0]>>4 == 4 && q[9] == protoUDP && int(q[0]&15)*4+8 <= len(q) && q[0]&15 >= 5:
		ipBytes = int(q[0]&15) * 4
		inner.Flow.Src, inner.Flow.Dst = netip.AddrFrom4([4]byte(q[12:16])), netip.AddrFrom4([4]byte(q[16:20]))
	case v6 && len(q) >= 48 && q[0]>>4 == 6 && q[6] == protoUDP:
		ipBytes = 40
		inner.Flow.Src, inner.Flow.Dst = netip.AddrFrom16([16]byte(q[8:24])), netip.AddrFrom16([16]byte(q[24:40]))
	default:
		return NotUDP
	}
	u := q[ipBytes:]
	inner.Flow.SrcPort, inner.Flow.DstPort = be.Uint16(u), be.Uint16(u[2:])
	port := d.Port
	if port == 0 {
		port = ib.UDPPort
	}
	if inner.Flow.DstPort != port {
		return NotUDP
	}
	inner.Bytes = max(int(be.Uint16(u[4:]))-8, 0)
	inner.Data = u[8:min(len(u), 8+inner.Bytes)]
	if len(inner.Data) >= ib.BTHBytes {
		m.HasBTH = true
		inner.Opcode = ib.Opcode(inner.Data[0])
		inner.DestQP = ib.QPN(be.Uint32(inner.Data[4:])) & ib.QPNMask
		inner.PSN = ib.PSN(be.Uint32(inner.Data[8:]) & ib.PSNMask)
	}
	d.icmp = m
	inner.ICMP = &d.icmp
	d.out = append(d.out, inner)
	return Found
}
