package peer

import (
	"encoding/hex"
	"testing"
)

// The first bytes as the agent's C code makes them (seed 3, read from a guest).
func TestPatternMatchesAgent(t *testing.T) {
	b := make([]byte, 16)
	FillPattern(b, 3, 0)
	if got := hex.EncodeToString(b); got != "ed8f01dbe4140b1d89a9817b8a6f46b3" {
		t.Fatal(got)
	}
	if CheckPattern(b[5:], 3, 5) != -1 || CheckPattern(b, 4, 0) != 0 {
		t.Fatal("CheckPattern")
	}
	b[9] ^= 1
	if got := CheckPattern(b, 3, 0); got != 9 {
		t.Fatal(got)
	}
}

// Words at a time make the same pattern as bytes, wherever they begin and end.
func TestPatternInWords(t *testing.T) {
	for base := range 17 {
		for n := range 33 {
			b := make([]byte, n)
			FillPattern(b, 7, base)
			for i := range b {
				if b[i] != patternByte(7, base+i) {
					t.Fatalf("base %d, byte %d of %d", base, i, n)
				}
				b[i] ^= 0x40
				if got := CheckPattern(b, 7, base); got != i {
					t.Fatalf("base %d, byte %d of %d: CheckPattern says %d", base, i, n, got)
				}
				b[i] ^= 0x40
			}
			if CheckPattern(b, 7, base) != -1 {
				t.Fatalf("base %d, %d bytes", base, n)
			}
		}
	}
}
