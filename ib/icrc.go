package ib

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// UDPPort is the destination port of RoCE v2.
const UDPPort = 4791

// Lengths of the encapsulation that the ICRC covers, in bytes.
const (
	IPv4HeaderBytes = 20
	IPv6HeaderBytes = 40
	UDPHeaderBytes  = 8
)

// icrcSeed is the CRC register after the eight bytes of ones that stand in
// for the local route header, in the form that [crc32.Update] takes (annex
// A17; the raw register is 0xDEBB20E3).
var icrcSeed = crc32.ChecksumIEEE([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})

// Flow is the part of the IP and UDP headers that the ICRC covers and that is
// the same for every packet of a connection in one direction.
type Flow struct {
	Src, Dst netip.Addr // both IPv4 or both IPv6
	SrcPort  uint16
	DstPort  uint16
}

// ICRC computes the invariant CRC of packets of one flow. It holds a prepared
// pseudo header; the zero value is not usable, see [NewICRC]. An ICRC may be
// shared by readers: its methods do not change it.
type ICRC struct {
	// pseudo is the masked IP and UDP header; length fields and the IPv4
	// identification are filled in for each packet.
	pseudo [IPv6HeaderBytes + UDPHeaderBytes]byte
	ip6    bool
}

// NewICRC prepares the ICRC of a flow.
func NewICRC(f Flow) ICRC {
	var c ICRC
	var udp []byte
	if f.Src.Unmap().Is4() {
		b := c.pseudo[:IPv4HeaderBytes]
		b[0], b[1] = 0x45, 0xFF // TOS masked
		b[6] = 0x40             // DF
		b[8], b[9] = 0xFF, 17   // TTL masked, UDP
		b[10], b[11] = 0xFF, 0xFF
		s, d := f.Src.Unmap().As4(), f.Dst.Unmap().As4()
		copy(b[12:], s[:])
		copy(b[16:], d[:])
		udp = c.pseudo[IPv4HeaderBytes:]
	} else {
		c.ip6 = true
		b := c.pseudo[:IPv6HeaderBytes]
		copy(b, []byte{0x6F, 0xFF, 0xFF, 0xFF}) // traffic class and flow label masked
		b[6], b[7] = 17, 0xFF                   // UDP, hop limit masked
		s, d := f.Src.As16(), f.Dst.As16()
		copy(b[8:], s[:])
		copy(b[24:], d[:])
		udp = c.pseudo[IPv6HeaderBytes:]
	}
	binary.BigEndian.PutUint16(udp[0:], f.SrcPort)
	binary.BigEndian.PutUint16(udp[2:], f.DstPort)
	udp[6], udp[7] = 0xFF, 0xFF
	return c
}

// Head returns the CRC of the pseudo header and of the transport headers hdr
// (BTH first, at most [MaxHeaderBytes] of them; payload bytes may follow the
// headers within that limit). udpPayload is the length from BTH through ICRC
// in bytes, id the IPv4 identification (ignored for IPv6). Continue over the
// rest of the payload and the padding with [Extend], and finish with
// [PutICRC].
func (c *ICRC) Head(udpPayload int, id uint16, hdr []byte) uint32 {
	var b [IPv6HeaderBytes + UDPHeaderBytes + MaxHeaderBytes]byte
	n := IPv4HeaderBytes + UDPHeaderBytes
	if c.ip6 {
		n = IPv6HeaderBytes + UDPHeaderBytes
		copy(b[:n], c.pseudo[:n])
		binary.BigEndian.PutUint16(b[4:], uint16(udpPayload+UDPHeaderBytes))
	} else {
		copy(b[:n], c.pseudo[:n])
		binary.BigEndian.PutUint16(b[2:], uint16(udpPayload+IPv4HeaderBytes+UDPHeaderBytes))
		binary.BigEndian.PutUint16(b[4:], id)
	}
	binary.BigEndian.PutUint16(b[n-4:], uint16(udpPayload+UDPHeaderBytes))
	m := copy(b[n:], hdr)
	b[n+4] = 0xFF // BTH resv8a: FECN, BECN and 6 reserved bits
	return crc32.Update(icrcSeed, crc32.IEEETable, b[:n+m])
}

// Extend continues a CRC over payload and padding.
func Extend(crc uint32, b []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, b) }

// Checksum returns the ICRC of a whole UDP payload, of which b is everything
// from the BTH up to, but without, the ICRC. b holds at least a BTH.
func (c *ICRC) Checksum(id uint16, b []byte) uint32 {
	n := min(len(b), MaxHeaderBytes)
	return Extend(c.Head(len(b)+ICRCBytes, id, b[:n]), b[n:])
}

// ChecksumFlushRxe returns the ICRC that Linux rdma_rxe puts on, and demands
// of, a FLUSH (rxe 6.2 to 7.2): after the masked headers it covers all bytes
// from the BTH a second time, unmasked, because its opcode table gives FLUSH
// no payload offset. A FLUSH that carries the checksum of [ICRC.Checksum] is
// dropped by rxe, and one that carries this is wrong by the specification; a
// receiver accepts either. b is as for Checksum.
func (c *ICRC) ChecksumFlushRxe(id uint16, b []byte) uint32 {
	n := min(len(b), int(RCFlush.Info().HeaderLen))
	return Extend(c.Head(len(b)+ICRCBytes, id, b[:n]), b)
}

// PutICRC stores crc as it goes over the wire: least significant byte first.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// TrailingICRC reads the ICRC from the last four bytes of a UDP payload.
func TrailingICRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-ICRCBytes:]) }
