package ib

import "encoding/binary"

// crcPoly is the CRC-32 polynomial of Ethernet, lowest power in the highest bit.
const crcPoly = 0xEDB88320

// crcTable[k][x] is the CRC register after byte x and k zero bytes, started from 0: the tables of
// slicing-by-8. The standard library does not export its own, and its Update makes its argument
// escape, which would cost an allocation for the headers of every packet.
var crcTable = func() (t [8][256]uint32) {
	for x := range t[0] {
		r := uint32(x)
		for range 8 {
			r = r>>1 ^ crcPoly&-(r&1)
		}
		t[0][x] = r
	}
	for k := 1; k < len(t); k++ {
		for x := range t[k] {
			r := t[k-1][x]
			t[k][x] = r>>8 ^ t[0][r&0xFF]
		}
	}
	return t
}()

// crcUpdate8 feeds eight bytes, as a little-endian number, to the raw register r.
func crcUpdate8(r uint32, x uint64) uint32 {
	x ^= uint64(r)
	return crcTable[7][x&0xFF] ^ crcTable[6][x>>8&0xFF] ^ crcTable[5][x>>16&0xFF] ^ crcTable[4][x>>24&0xFF] ^
		crcTable[3][x>>32&0xFF] ^ crcTable[2][x>>40&0xFF] ^ crcTable[1][x>>48&0xFF] ^ crcTable[0][x>>56]
}

// crcUpdate4 feeds four bytes, as a little-endian number, to the raw register
// r. With x 0 it multiplies r by x^32 modulo the polynomial.
func crcUpdate4(r, x uint32) uint32 {
	x ^= r
	return crcTable[3][x&0xFF] ^ crcTable[2][x>>8&0xFF] ^ crcTable[1][x>>16&0xFF] ^ crcTable[0][x>>24]
}

// crcUpdate feeds a short run of bytes to the raw register r.
func crcUpdate(r uint32, b []byte) uint32 {
	for len(b) >= 8 {
		r = crcUpdate8(r, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	if len(b) >= 4 {
		r = crcUpdate4(r, binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	for _, x := range b {
		r = r>>8 ^ crcTable[0][byte(r)^x]
	}
	return r
}

// crcZeros feeds n zero bytes to the raw register r. It is slow, and used to make tables.
func crcZeros(r uint32, n int) uint32 {
	for range n {
		r = r>>8 ^ crcTable[0][r&0xFF]
	}
	return r
}

// crcField is what a big-endian 16-bit field contributes to the register, by its high and its low
// byte. A CRC is linear: the register after a string is the xor of the register after the string
// with the field zeroed, and that after zeros with only the field in place.
type crcField struct{ hi, lo [256]uint32 }

func (f *crcField) at(v uint16) uint32 { return f.hi[v>>8] ^ f.lo[v&0xFF] }

// newCRCField returns a field that is followed by n bytes.
func newCRCField(n int) *crcField {
	f := new(crcField)
	for x := range 256 {
		f.hi[x] = crcZeros(crcTable[0][x], n+1)
		f.lo[x] = crcZeros(crcTable[0][x], n)
	}
	return f
}

// and returns the sum of two fields that always hold the same value.
func (f *crcField) and(g *crcField) *crcField {
	for x := range 256 {
		f.hi[x] ^= g.hi[x]
		f.lo[x] ^= g.lo[x]
	}
	return f
}

// crcMul multiplies two polynomials modulo the CRC's. The factors and the
// product have the lowest power in the highest bit, like the register.
func crcMul(a, b uint32) uint32 {
	// 32 x 32 -> 63 bits without carries, by integer multiplications of every fourth bit: at most
	// eight ones meet in a column, and four bits hold their sum.
	const m0, m1, m2, m3 = 0x1111111111111111, 0x2222222222222222, 0x4444444444444444, 0x8888888888888888
	a0, a1, a2, a3 := uint64(a)&m0, uint64(a)&m1, uint64(a)&m2, uint64(a)&m3
	b0, b1, b2, b3 := uint64(b)&m0, uint64(b)&m1, uint64(b)&m2, uint64(b)&m3
	p := (a0*b0^a1*b3^a2*b2^a3*b1)&m0 | (a0*b1^a1*b0^a2*b3^a3*b2)&m1 |
		(a0*b2^a1*b1^a2*b0^a3*b3)&m2 | (a0*b3^a1*b2^a2*b1^a3*b0)&m3
	// Align the lowest power with bit 63; the low half is then the part from
	// x^32 up, which four zero bytes reduce.
	p <<= 1
	return uint32(p>>32) ^ crcUpdate4(uint32(p), 0)
}

// crcUnshift8 divides r by x^8 modulo the polynomial: it undoes a zero byte.
func crcUnshift8(r uint32) uint32 {
	for range 8 {
		top := r >> 31
		r = (r^crcPoly&-top)<<1 | top
	}
	return r
}
