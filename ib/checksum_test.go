package ib_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
)

func TestInternetSum(t *testing.T) {
	// The example of RFC 1071, section 3.
	if got := ib.InternetSum(0, []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != 0xddf2 {
		t.Errorf("%04x", got)
	}
	b := make([]byte, 67)
	for i := range b {
		b[i] = byte(rand.N(256))
	}
	for n := range b {
		for _, start := range []uint32{0, 17, 0xFFFF, 0xFFFFFFFF} {
			want := uint64(start)
			for i := 0; i < n; i += 2 {
				want += uint64(binary.BigEndian.Uint16(append(b[i:min(i+2, n):min(i+2, n)], 0)))
			}
			for want > 0xFFFF {
				want = want>>16 + want&0xFFFF
			}
			if got := ib.InternetSum(start, b[:n]); uint64(got) != want {
				t.Errorf("%x and %d bytes: %04x, want %04x", start, n, got, want)
			}
			if got := ib.InternetSum(start, b[:n/4*2], b[n/4*2:n]); uint64(got) != want {
				t.Errorf("%x and %d bytes in two parts: %04x, want %04x", start, n, got, want)
			}
		}
	}
}
