package ib

import "encoding/binary"

// InternetSum returns sum and the 16-bit words of parts, added up in ones' complement (RFC 1071).
// The checksum of IP and UDP headers is its complement. Behind an odd number of bytes a 0 is
// assumed.
func InternetSum(sum uint32, parts ...[]byte) uint16 {
	be, s := binary.BigEndian, uint64(sum)
	for _, b := range parts {
		for ; len(b) >= 8; b = b[8:] {
			w := be.Uint64(b)
			s += w>>32 + w&0xFFFFFFFF
		}
		for ; len(b) >= 2; b = b[2:] {
			s += uint64(be.Uint16(b))
		}
		if len(b) == 1 {
			s += uint64(b[0]) << 8
		}
	}
	for s>>16 != 0 {
		s = s>>16 + s&0xFFFF
	}
	return uint16(s)
}
