package wirelink

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

const ethBytes = 14

// The two ends' Ethernet addresses: locally administered, and never on a cable.
var macs = map[string][6]byte{Near: {2, 0, 0, 0, 0, 1}, Far: {2, 0, 0, 0, 0, 2}}

// flowKey is what the ICRC's pseudo header depends on.
type flowKey struct {
	src, dst netip.Addr
	port     uint16
}

// maxFlows bounds the states kept; beyond it they are made anew.
const maxFlows = 4096

// identifier makes frames of received packets. It finds the IPv4 identification, which links do not
// hand up, from the ICRC.
type identifier struct{ icrcs map[flowKey]*ib.ICRC }

func newIdentifier() identifier { return identifier{map[flowKey]*ib.ICRC{}} }

func (d *identifier) icrc(k flowKey) *ib.ICRC {
	if c := d.icrcs[k]; c != nil {
		return c
	}
	if len(d.icrcs) >= maxFlows {
		clear(d.icrcs)
	}
	c := ib.NewICRC(ib.Flow{Src: k.src, Dst: k.dst, SrcPort: k.port, DstPort: ib.UDPPort})
	d.icrcs[k] = &c
	return &c
}

// frame makes the frame that a packet came in.
func (d *identifier) frame(p *transport.RxPacket) []byte {
	k := flowKey{p.Src, p.Dst, p.SrcPort}
	b := appendHeaders(nil, Far, k, p.TrafficClass, p.HopLimit, identification(d.icrc(k), p.Data), len(p.Data))
	b = append(b, p.Data...)
	setUDPChecksum(b, k)
	return b
}

// identification is the IPv4 identification that the ICRC of a packet fits; 0 if none does.
func identification(c *ib.ICRC, data []byte) uint16 {
	id, m := c.Verify(0, data)
	if m == ib.Mismatch {
		id, _ = c.VerifyFlushRxe(0, data)
	}
	return id
}

// flows makes frames of packets to send, and packets of frames.
type flows struct {
	identifier
	link  link.Link
	paths map[flowKey]*transport.Path // copies, for frames that the device does not send by itself
}

func newFlows(l link.Link) flows {
	return flows{newIdentifier(), l, map[flowKey]*transport.Path{}}
}

// frame makes the frame of a packet; false if there can be none.
func (f *flows) frame(p *transport.TxPacket) ([]byte, bool) {
	if p.Path.Src.Is4() != p.Path.Dst.Is4() {
		return nil, false
	}
	k := flowKey{p.Path.Src, p.Path.Dst, f.link.SourcePort(p.Path)}
	if len(f.paths) >= maxFlows {
		clear(f.paths)
	}
	if f.paths[k] == nil || f.paths[k].SrcPort != p.Path.SrcPort || f.paths[k].FlowLabel != p.Path.FlowLabel {
		own := *p.Path
		own.Link, own.LinkMark = nil, 0
		f.paths[k] = &own
	}
	b := make([]byte, 0, ethBytes+ib.IPv6HeaderBytes+ib.UDPHeaderBytes+p.UDPPayloadLen())
	b = appendHeaders(b, Near, k, p.Path.TrafficClass, p.Path.HopLimit, 0, p.UDPPayloadLen())
	b = link.AppendPacket(b, f.icrc(k), p, 0)
	setUDPChecksum(b, k)
	return b, true
}

// packet makes the packet to send of a frame; false if the frame is not the way to any peer that
// the device has sent to.
func (f *flows) packet(o *outgoing) (transport.TxPacket, bool) {
	p, ok := wire.Decode(o.frame)
	if !ok {
		return transport.TxPacket{}, false
	}
	path := o.path
	tc, _ := p.IPClass()
	if path == nil || path.TrafficClass != tc {
		known := f.paths[flowKey{p.Src, p.Dst, p.SrcPort}]
		if known == nil {
			return transport.TxPacket{}, false
		}
		if path = known; path.TrafficClass != tc {
			marked := *known // few: a path for each is no matter
			marked.Link, marked.LinkMark, marked.TrafficClass = nil, 0, tc
			path = &marked
		}
	}
	b := p.BTH()
	b = b[:len(b)-icrcBytes]
	head := min(max(int(ib.Opcode(p.Opcode).Info().HeaderLen), ib.BTHBytes), len(b))
	tx := transport.TxPacket{Path: path, HeaderLen: uint8(head), PayloadLen: uint16(len(b) - head), ICRCXor: wrongBy(p)}
	copy(tx.Header[:], b[:head])
	if len(b) > head {
		tx.Frags[0], tx.NumFrags = b[head:], 1
	}
	return tx, true
}

// SentHeaders are the IP and UDP headers of a packet to port 4791, as far as they matter to who reads a capture, with
// identification 0.
func SentHeaders(src, dst netip.Addr, srcPort uint16, tclass uint8, payload []byte) []byte {
	return appendHeaders(nil, Near, flowKey{src, dst, srcPort}, tclass, 64, 0, len(payload))[ethBytes:]
}

// SeenHeaders are those of a packet that has come, with the identification that its ICRC fits: a socket does not show it.
func SeenHeaders(src, dst netip.Addr, srcPort uint16, tclass uint8, payload []byte) []byte {
	c := ib.NewICRC(ib.Flow{Src: src, Dst: dst, SrcPort: srcPort, DstPort: ib.UDPPort})
	return appendHeaders(nil, Far, flowKey{src, dst, srcPort}, tclass, 64, identification(&c, payload), len(payload))[ethBytes:]
}

// appendHeaders appends Ethernet, IP and UDP headers for so many bytes of payload.
func appendHeaders(b []byte, from string, k flowKey, tclass, hops uint8, id uint16, payload int) []byte {
	be := binary.BigEndian
	to := Near
	if from == Near {
		to = Far
	}
	dst, src := macs[to], macs[from]
	b = append(append(b, dst[:]...), src[:]...)
	length := ib.UDPHeaderBytes + payload
	if k.src.Is4() {
		b = append(b, 0x08, 0x00, 0x45, tclass)
		b = be.AppendUint16(b, uint16(ib.IPv4HeaderBytes+length))
		b = be.AppendUint16(b, id)
		b = append(b, 0x40, 0, hops, 17, 0, 0) // DF
		b = append(append(b, k.src.AsSlice()...), k.dst.AsSlice()...)
		ip := b[len(b)-ib.IPv4HeaderBytes:]
		be.PutUint16(ip[10:], ^fold(sum16(ip, 0)))
	} else {
		b = append(b, 0x86, 0xdd, 0x60|tclass>>4, tclass<<4, 0, 0)
		b = be.AppendUint16(b, uint16(length))
		b = append(b, 17, hops)
		b = append(append(b, k.src.AsSlice()...), k.dst.AsSlice()...)
	}
	b = be.AppendUint16(b, k.port)
	b = be.AppendUint16(b, ib.UDPPort)
	b = be.AppendUint16(b, uint16(length))
	return append(b, 0, 0)
}

// setUDPChecksum makes the checksum right over IPv6, where decoders complain of a missing one.
func setUDPChecksum(frame []byte, k flowKey) {
	if k.src.Is4() {
		return
	}
	ip := frame[ethBytes:]
	udp := ip[ib.IPv6HeaderBytes:]
	sum := fold(sum16(udp, sum16(ip[8:ib.IPv6HeaderBytes], uint32(len(udp))+17)))
	if sum = ^sum; sum == 0 {
		sum = 0xffff // 0 is "none"
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
}

// sum16 adds up the 16-bit words of b; an odd last byte counts as the high one.
func sum16(b []byte, sum uint32) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xFFFF + sum>>16
	}
	return uint16(sum)
}
