package mem

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The operations below act on the first 8 bytes of a view, in the byte order of the host, with the
// atomic instructions of the CPU: they compose with sync/atomic on the same word anywhere in the
// process. On a fault they change nothing: FaultState if the view was revoked, FaultBounds if it is
// shorter than 8 bytes, FaultAlign if it is misaligned.

// CompareSwap stores swap if the word equals cmp, and returns what it was.
func (v View) CompareSwap(cmp, swap uint64) (orig uint64, f Fault) {
	if f := v.atomicFault(); f != FaultNone {
		return 0, f
	}
	p := v.word()
	for {
		if old := atomic.LoadUint64(p); old != cmp {
			return old, FaultNone
		}
		if atomic.CompareAndSwapUint64(p, cmp, swap) {
			return cmp, FaultNone
		}
		// The word changed between the two. Look again: the result must be a value that made the
		// comparison fail.
	}
}

// FetchAdd adds to the word, modulo 2^64, and returns what it was.
func (v View) FetchAdd(add uint64) (orig uint64, f Fault) {
	if f := v.atomicFault(); f != FaultNone {
		return 0, f
	}
	return atomic.AddUint64(v.word(), add) - add, FaultNone
}

// Store writes 8 bytes, in their order in memory, with one 64-bit store: the ATOMIC WRITE
// operation. Another length of src is FaultBounds.
func (v View) Store(src []byte) Fault {
	if f := v.atomicFault(); f != FaultNone {
		return f
	}
	if len(src) != AtomicBytes {
		return FaultBounds
	}
	atomic.StoreUint64(v.word(), binary.NativeEndian.Uint64(src))
	return FaultNone
}

// Uint64 returns the word at off bytes from the start of the region, for the application to use
// with sync/atomic beside the atomics of its peers. It returns an error (a Fault in a TableError)
// if the word is not inside the region, or not 8-aligned in memory.
func (r *Region) Uint64(off uint64) (*uint64, error) {
	const op = "word of region"
	g := r.cur.Load()
	switch g.state.Load() {
	case granted:
	case lost:
		return nil, opErr(op, "", "", FaultMemory)
	default:
		return nil, opErr(op, "", "", ErrDestroyed)
	}
	if off > g.size || g.size-off < AtomicBytes {
		return nil, opErr(op, "off", "", FaultBounds)
	}
	p := unsafe.Pointer(unsafe.SliceData(g.all()[off:]))
	if uintptr(p)%AtomicBytes != 0 {
		return nil, opErr(op, "off", "", FaultAlign)
	}
	return (*uint64)(p), nil
}

// word returns the first 8 bytes as a word. The caller has checked atomicFault.
func (v View) word() *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(v.Bytes)))
}

// addressOf returns the address of the first byte of b; 0 if b is nil. Registered memory does not
// move: the collector moves only stacks, and the bytes in a table are not on a stack.
func addressOf(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
