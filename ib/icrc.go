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

// icrcSeed is the raw CRC register after the eight bytes of ones that stand in
// for the local route header (annex A17).
const icrcSeed = 0xDEBB20E3

// Flow is the part of the IP and UDP headers that the ICRC covers and that is
// the same for every packet of a connection in one direction.
type Flow struct {
	Src, Dst netip.Addr // both IPv4 or both IPv6
	SrcPort  uint16
	DstPort  uint16
}

// ICRC computes the invariant CRC of packets of one flow: the CRC-32 of
// Ethernet over masked IP and UDP headers, the transport headers with byte 4
// of the BTH masked, payload and padding (annex A17). The zero value is not
// usable, see [NewICRC]. An ICRC is a small value that no method changes.
type ICRC struct {
	// base is the raw register after the masked IP and UDP headers with lengths and IPv4
	// identification zero. Tables add the effect of those.
	base uint32
	ip6  bool
}

// What the fields that vary between packets add to ICRC.base, by the number of bytes from the
// field's end to the end of the UDP header.
var (
	crcTotalLen4 = newCRCField(24)                         // IPv4 total length
	crcIdent4    = newCRCField(22)                         // IPv4 identification
	crcUDPLen    = newCRCField(2)                          // UDP length
	crcBothLen6  = newCRCField(42).and(newCRCField(2))     // IPv6 payload length, which equals the UDP length
	crcNoDF      = crcZeros(crcUpdate4(0, 0x00400000), 20) // the DF flag, bytes 4 to 7 of the header
)

// NewICRC prepares the ICRC of a flow. It assumes that IPv4 packets have the DF flag set and no
// options, as rdma_rxe and ConnectX send them; see [ICRC.WithoutDF].
func NewICRC(f Flow) ICRC {
	var pseudo [IPv6HeaderBytes + UDPHeaderBytes]byte
	c := ICRC{ip6: !f.Src.Unmap().Is4()}
	n := IPv4HeaderBytes
	if c.ip6 {
		n = IPv6HeaderBytes
		copy(pseudo[:], []byte{0x6F, 0xFF, 0xFF, 0xFF}) // traffic class and flow label masked
		pseudo[6], pseudo[7] = 17, 0xFF                 // UDP, hop limit masked
		s, d := f.Src.As16(), f.Dst.As16()
		copy(pseudo[8:], s[:])
		copy(pseudo[24:], d[:])
	} else {
		pseudo[0], pseudo[1] = 0x45, 0xFF // TOS masked
		pseudo[6] = 0x40                  // DF
		pseudo[8], pseudo[9] = 0xFF, 17   // TTL masked, UDP
		pseudo[10], pseudo[11] = 0xFF, 0xFF
		s, d := f.Src.As16(), f.Dst.As16() // the last four bytes are the IPv4 address, mapped or not
		copy(pseudo[12:], s[12:])
		copy(pseudo[16:], d[12:])
	}
	udp := pseudo[n : n+UDPHeaderBytes]
	binary.BigEndian.PutUint16(udp[0:], f.SrcPort)
	binary.BigEndian.PutUint16(udp[2:], f.DstPort)
	udp[6], udp[7] = 0xFF, 0xFF
	c.base = crcUpdate(icrcSeed, pseudo[:n+UDPHeaderBytes])
	return c
}

// WithoutDF returns the ICRC of the same flow for packets without the IPv4 flag DF. IPv6 has no
// such flag.
func (c ICRC) WithoutDF() ICRC {
	if !c.ip6 {
		c.base ^= crcNoDF
	}
	return c
}

// pseudo returns the raw register after the IP and UDP headers of a packet.
func (c *ICRC) pseudo(udpPayload int, id uint16) uint32 {
	udpLen := uint16(udpPayload + UDPHeaderBytes)
	if c.ip6 {
		return c.base ^ crcBothLen6.at(udpLen)
	}
	return c.base ^ crcTotalLen4.at(udpLen+IPv4HeaderBytes) ^ crcIdent4.at(id) ^ crcUDPLen.at(udpLen)
}

// resv8aMask covers byte 4 of the BTH, FECN, BECN and 6 reserved bits, in its
// first eight bytes as a little-endian number.
const resv8aMask = 0xFF << 32

// Head returns the CRC of the IP and UDP headers and of hdr, which has the BTH and possibly more of
// the packet. udpPayload is the length from BTH through ICRC in bytes, id the IPv4 identification
// (ignored for IPv6). Continue over the rest, payload and padding, with [Extend], and finish with
// [PutICRC]. Head is meant for short runs: Extend is faster from 64 bytes up.
func (c *ICRC) Head(udpPayload int, id uint16, hdr []byte) uint32 {
	r := c.pseudo(udpPayload, id)
	if len(hdr) < 8 {
		return ^r // not a packet: no answer is right
	}
	r = crcUpdate8(r, binary.LittleEndian.Uint64(hdr)|resv8aMask)
	return ^crcUpdate(r, hdr[8:])
}

// vectorBytes is the length from which the standard library uses carry-less multiplication (amd64).
// Below, its tables are no faster than ours, and are behind a sync.Once and a call through a
// variable.
const vectorBytes = 64

// Extend continues a CRC over payload and padding.
func Extend(crc uint32, b []byte) uint32 {
	if len(b) < vectorBytes {
		return ^crcUpdate(^crc, b)
	}
	return crc32.Update(crc, crc32.IEEETable, b)
}

// Checksum returns the ICRC of a whole UDP payload. b is everything from the BTH up to, but
// without, the ICRC, and has at least a BTH.
func (c *ICRC) Checksum(id uint16, b []byte) uint32 {
	n := min(len(b), BTHBytes)
	return Extend(c.Head(len(b)+ICRCBytes, id, b[:n]), b[n:])
}

// ChecksumFlushRxe returns the ICRC that Linux rdma_rxe puts on, and requires of, a FLUSH (rxe 6.2
// to 7.2): after the masked headers it covers all bytes from the BTH a second time, unmasked,
// because its opcode table gives FLUSH no payload offset. rxe drops a FLUSH with the checksum of
// [ICRC.Checksum], and the specification rejects one with this; a receiver should accept either. b
// is as for Checksum.
func (c *ICRC) ChecksumFlushRxe(id uint16, b []byte) uint32 {
	n := min(len(b), int(RCFlush.Info().HeaderLen))
	return Extend(c.Head(len(b)+ICRCBytes, id, b[:n]), b)
}

// PutICRC stores crc in wire order: least significant byte first.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// TrailingICRC reads the ICRC from the last four bytes of a UDP payload. It panics if there are
// fewer; anything that [Packet.Decode] accepts is long enough.
func TrailingICRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-ICRCBytes:]) }
