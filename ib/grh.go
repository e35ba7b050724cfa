package ib

import (
	"encoding/binary"
	"net/netip"
)

// GRHBytes is the length of the header that precedes a datagram in the receive buffer of a UD queue
// pair: an IPv6 header, or 20 zero bytes and an IPv4 header (annex A17).
const GRHBytes = IPv6HeaderBytes

// GRH is the IP header of a received datagram as the application sees it, from which the path back
// to the sender is made. It is named after the InfiniBand header that it replaces.
type GRH struct {
	Src, Dst     netip.Addr // both IPv4 or both IPv6
	TrafficClass uint8      // with the ECN bits
	HopLimit     uint8
	FlowLabel    uint32 // IPv6: 20 bits
	Ident        uint16 // IPv4: 0 if the link does not see it
	// PayloadBytes is the length of UDP header and UDP payload, including the ICRC.
	PayloadBytes int
}

const protocolUDP = 17

// Put writes the 40 bytes. The IPv4 header has DF set and a valid checksum, by which libibverbs
// tells the two forms apart.
func (g *GRH) Put(b *[GRHBytes]byte) {
	be := binary.BigEndian
	if g.Src.Unmap().Is4() {
		src, dst := g.Src.As16(), g.Dst.As16()
		*b = [GRHBytes]byte{}
		h := (*[IPv4HeaderBytes]byte)(b[GRHBytes-IPv4HeaderBytes:])
		h[0], h[1] = 0x45, g.TrafficClass
		be.PutUint16(h[2:], uint16(IPv4HeaderBytes+g.PayloadBytes))
		be.PutUint16(h[4:], g.Ident)
		h[6] = 0x40 // DF
		h[8], h[9] = g.HopLimit, protocolUDP
		copy(h[12:], src[12:])
		copy(h[16:], dst[12:])
		be.PutUint16(h[10:], ^InternetSum(0, h[:]))
		return
	}
	src, dst := g.Src.As16(), g.Dst.As16()
	be.PutUint32(b[:], 6<<28|uint32(g.TrafficClass)<<20|g.FlowLabel&maxFlowLabel)
	be.PutUint16(b[4:], uint16(g.PayloadBytes))
	b[6], b[7] = protocolUDP, g.HopLimit
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
}

// Decode reads the 40 bytes in either form and reports whether they are valid. It recognises the
// IPv4 form by its version, header length and checksum.
func (g *GRH) Decode(b *[GRHBytes]byte) bool {
	be := binary.BigEndian
	if b[0]>>4 == 6 {
		w := be.Uint32(b[:])
		*g = GRH{
			Src: netip.AddrFrom16([16]byte(b[8:24])), Dst: netip.AddrFrom16([16]byte(b[24:40])),
			TrafficClass: uint8(w >> 20), HopLimit: b[7], FlowLabel: w & maxFlowLabel,
			PayloadBytes: int(be.Uint16(b[4:])),
		}
		// An IPv4-mapped address stands for IPv4 and is never on the wire.
		return !g.Src.Is4In6() && !g.Dst.Is4In6()
	}
	h := (*[IPv4HeaderBytes]byte)(b[GRHBytes-IPv4HeaderBytes:])
	total := int(be.Uint16(h[2:]))
	if h[0] != 0x45 || InternetSum(0, h[:]) != 0xFFFF || total < IPv4HeaderBytes {
		return false
	}
	*g = GRH{
		Src: netip.AddrFrom4([4]byte(h[12:16])), Dst: netip.AddrFrom4([4]byte(h[16:20])),
		TrafficClass: h[1], HopLimit: h[8], Ident: be.Uint16(h[4:]), PayloadBytes: total - IPv4HeaderBytes,
	}
	return true
}
