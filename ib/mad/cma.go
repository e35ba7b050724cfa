package mad

import (
	"encoding/binary"
	"net/netip"
)

// CMAHeaderBytes is the length of a [CMAHeader].
const CMAHeaderBytes = 36

// The sizes of the application's private data after a [CMAHeader], in bytes.
const (
	REQUserBytes     = REQPrivateBytes - CMAHeaderBytes
	SIDRReqUserBytes = SIDRReqPrivateBytes - CMAHeaderBytes
)

// CMAHeader is what RDMA-CM puts at the start of the private data of REQ and
// SIDR_REQ: both ends of the connection, in terms of IP (annex A11). The destination
// port is in the service ID. No other message has it.
type CMAHeader struct {
	SrcPort  uint16
	Src, Dst netip.Addr // both IPv4 or both IPv6
}

// Decode reads the header from private data and reports whether there is one:
// version 0, and IP version 4 or 6.
func (h *CMAHeader) Decode(b []byte) bool {
	if len(b) < CMAHeaderBytes || b[0] != 0 {
		return false
	}
	h.SrcPort = binary.BigEndian.Uint16(b[2:])
	switch b[1] >> 4 {
	case 4:
		h.Src, h.Dst = netip.AddrFrom4([4]byte(b[16:20])), netip.AddrFrom4([4]byte(b[32:36]))
	case 6:
		h.Src, h.Dst = netip.AddrFrom16([16]byte(b[4:20])), netip.AddrFrom16([16]byte(b[20:36]))
	default:
		return false
	}
	return true
}

// Put writes the header. An IPv4-mapped IPv6 address counts as IPv6, as in Decode; unmap addresses
// first to send IPv4. Put returns a [CMAError] if b is too short or the addresses are not of one
// family.
func (h *CMAHeader) Put(b []byte) error {
	switch {
	case len(b) < CMAHeaderBytes:
		return ErrCMAShort
	case !h.Src.IsValid() || !h.Dst.IsValid() || h.Src.Is4() != h.Dst.Is4():
		return ErrCMAFamily
	}
	clear(b[:CMAHeaderBytes])
	binary.BigEndian.PutUint16(b[2:], h.SrcPort)
	s, d := h.Src.As16(), h.Dst.As16()
	if h.Src.Is4() {
		b[1] = 0x40
		copy(b[16:20], s[12:])
		copy(b[32:36], d[12:])
		return nil
	}
	b[1] = 0x60
	copy(b[4:20], s[:])
	copy(b[20:36], d[:])
	return nil
}

// CMAError is a misuse of [CMAHeader.Put].
type CMAError uint8

// The misuses.
const (
	ErrCMAShort  CMAError = iota + 1 // no room for 36 bytes
	ErrCMAFamily                     // an address is missing, or they are not of one family
)

func (e CMAError) Error() string {
	if e == ErrCMAShort {
		return "mad: private data is shorter than the 36 bytes of the CMA header"
	}
	return "mad: source and destination of the CMA header are not addresses of one family"
}
