package mem

import "unsafe"

// A grant keeps the address and the length of its bytes instead of a slice, whose capacity would
// repeat the length. So it fits in a cache line.

// newGrant returns a grant of b.
func newGrant(b []byte) *grant {
	return &grant{base: unsafe.SliceData(b), size: uint64(len(b))}
}

// all returns the bytes of the grant.
func (g *grant) all() []byte { return unsafe.Slice(g.base, int(g.size)) }

// span returns the n bytes at address va, if they are all inside. It forms no sum that can wrap. n
// must not be 0: the address after the last byte belongs to other memory.
func (g *grant) span(va, n uint64) ([]byte, bool) {
	off := va - g.va
	if va < g.va || off > g.size || n > g.size-off {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(g.base), off)), int(n)), true
}
