package peer

import "encoding/binary"

// patternByte is byte i of the pattern of a seed: byte i%8, least significant first, of
// splitmix64's output number i/8. The verbs agent makes the same one.
func patternByte(seed uint64, i int) byte {
	return byte(pattern8(seed, uint64(i/8)) >> (8 * (i % 8)))
}

func pattern8(seed, word uint64) uint64 {
	z := seed + (word+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Registered memory is a peer's to write at any time, as it is an adapter's: a UC message whose end
// was lost, or came late, is no event in Go's memory model, and nothing could order it with what
// the program does there. So the functions that touch such memory are not for the race detector.
// What they find is held against the pattern.

// FillPattern writes bytes base.. of the pattern to b.
//
//go:norace
func FillPattern(b []byte, seed uint64, base int) {
	for len(b) > 0 {
		if base%8 == 0 && len(b) >= 8 {
			binary.LittleEndian.PutUint64(b, pattern8(seed, uint64(base/8)))
			b, base = b[8:], base+8
			continue
		}
		b[0] = patternByte(seed, base)
		b, base = b[1:], base+1
	}
}

// CheckPattern returns the index of the first byte of b that is not the pattern's, or -1.
//
//go:norace
func CheckPattern(b []byte, seed uint64, base int) int {
	for i := 0; i < len(b); {
		if at := base + i; at%8 == 0 && len(b)-i >= 8 &&
			binary.LittleEndian.Uint64(b[i:]) == pattern8(seed, uint64(at/8)) {
			i += 8
			continue
		}
		if b[i] != patternByte(seed, base+i) {
			return i
		}
		i++
	}
	return -1
}

// CopyMemory copies to or from registered memory as many bytes as the shorter one has.
//
//go:norace
func CopyMemory(dst, src []byte) {
	for i := range min(len(dst), len(src)) {
		dst[i] = src[i]
	}
}
