package link

import "github.com/goroce/goroce/ib"

// A UDP socket does not show the IPv4 identification of a packet, yet the ICRC
// covers it. CRC-32 is linear: two packets that differ in the identification
// only have checksums whose difference is the difference of the
// identifications times x^(8n), modulo the CRC polynomial, where n counts the
// bytes from the identification to the end. Dividing by x^(8n) gives the
// difference back; if that does not fit 16 bits, the packet differs in more
// than the identification.
//
// Polynomials are in the reflected form of the CRC: bit 31 is x^0.

const (
	crcPoly = 0xEDB88320
	polyOne = 1 << 31
	// polyInvX is 1/x: times x it is crcPoly ^ polyInvX>>1 = 1.
	polyInvX = 0xDB710641

	// identTail is how many bytes lie from the start of the identification to
	// the start of the UDP payload.
	identTail = ib.IPv4HeaderBytes - 4 + ib.UDPHeaderBytes
)

// polyMul multiplies modulo the CRC polynomial.
func polyMul(a, b uint32) uint32 {
	var p uint32
	for m := uint32(polyOne); m != 0 && a != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
			a &^= m
		}
		b = b>>1 ^ crcPoly&-(b&1)
	}
	return p
}

// invX8Pow[k] is 1/x^(8*2^k).
var invX8Pow = func() (t [17]uint32) {
	p := uint32(polyInvX)
	for range 3 {
		p = polyMul(p, p)
	}
	for k := range t {
		t[k] = p
		p = polyMul(p, p)
	}
	return t
}()

// invX8 returns 1/x^(8n).
func invX8(n int) uint32 {
	p := uint32(polyOne)
	for k := 0; n != 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			p = polyMul(p, invX8Pow[k])
		}
	}
	return p
}

// identSolver solves for identifications; it remembers the divisor of the
// last length, as packets come in runs of one length.
type identSolver struct {
	n   int
	inv uint32
}

// solve returns the identification of a packet whose checksum is want, and
// would be got with the identification guess. n is the number of bytes that
// the checksum covers after the UDP header.
func (s *identSolver) solve(guess uint16, got, want uint32, n int) (uint16, bool) {
	if n != s.n || s.inv == 0 {
		s.n, s.inv = n, invX8(n+identTail)
	}
	// The identification is big-endian on the wire, the CRC takes low bytes
	// first.
	d := polyMul(got^want, s.inv)
	return guess ^ uint16(d<<8|d>>8&0xFF), d>>16 == 0
}
