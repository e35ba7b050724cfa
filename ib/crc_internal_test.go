package ib

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// crcMulSlow multiplies term by term.
func crcMulSlow(a, b uint32) (r uint32) {
	for i := 31; i >= 0; i-- { // bit 31 is x^0
		if a>>i&1 != 0 {
			r ^= b
		}
		b = b>>1 ^ crcPoly&-(b&1) // times x
	}
	return r
}

func TestCRCMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const one = 1 << 31
	values := []uint32{0, 1, one, one >> 1, ^uint32(0), crcPoly, 0x11111111, 0x88888888, 0xAAAAAAAA}
	for range 1000 {
		values = append(values, rng.Uint32())
	}
	for i, a := range values {
		b := values[(i*7+3)%len(values)]
		if got, want := crcMul(a, b), crcMulSlow(a, b); got != want {
			t.Fatalf("%08x * %08x = %08x, want %08x", a, b, got, want)
		}
		if crcMul(a, one) != a {
			t.Fatalf("%08x * 1 = %08x", a, crcMul(a, one))
		}
		if crcUnshift8(crcZeros(a, 1)) != a || crcZeros(crcUnshift8(a), 1) != a {
			t.Fatalf("a zero byte after %08x is not undone", a)
		}
	}
}

func TestCRCUpdate(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	b := make([]byte, 100)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	for n := range len(b) {
		seed := rng.Uint32()
		if got, want := ^crcUpdate(^seed, b[:n]), crc32.Update(seed, crc32.IEEETable, b[:n]); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", n, got, want)
		}
	}
	if seed := ^crc32.ChecksumIEEE([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}); seed != icrcSeed {
		t.Errorf("eight bytes of ones leave %08x, want %08x", seed, uint32(icrcSeed))
	}
}
