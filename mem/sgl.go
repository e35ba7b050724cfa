package mem

import "github.com/goroce/goroce/ib"

// SGE is one element of a scatter/gather list (ibv_sge).
type SGE struct {
	Addr   uint64 // in the address space of the region
	Length uint32 // bytes
	LKey   ib.LKey
}

// segment is one checked element.
type segment struct {
	bytes []byte
	g     *grant
}

// SGL is a scatter/gather list of checked elements. The zero value is an empty list. An SGL is
// reused: Resolve allocates nothing once the list has been as long before.
type SGL struct {
	segs []segment
	n    uint64
}

// Resolve checks every element of sges as Local does and replaces the content of l with them.
// Elements of length 0 are skipped. On a fault l is empty; more than MaxSGE elements are
// FaultBounds.
func (t *Table) Resolve(pd *PD, sges []SGE, need Access, l *SGL) Fault {
	l.Reset()
	if len(sges) > MaxSGE {
		return FaultBounds
	}
	if cap(l.segs) < len(sges) {
		l.grow(len(sges))
	}
	segs := l.segs
	for i := range sges {
		e := &sges[i]
		b, g, f := t.local(pd, e.LKey, e.Addr, e.Length, need)
		if f != FaultNone {
			l.Reset()
			return f
		}
		if g == nil {
			continue
		}
		segs = segs[:len(segs)+1]
		segs[len(segs)-1] = segment{b, g}
		l.segs = segs
		l.n += uint64(len(b))
	}
	return FaultNone
}

// grow makes room for n elements. Two fill a cache line: the lists of two engines share none.
//
//go:noinline
func (l *SGL) grow(n int) { l.segs = make([]segment, 0, max(n, 2)) }

// Reset empties the list and drops its references.
func (l *SGL) Reset() {
	clear(l.segs)
	l.segs = l.segs[:0]
	l.n = 0
}

// Valid reports whether no region of the list has been revoked since Resolve.
func (l *SGL) Valid() bool {
	for i := range l.segs {
		if !l.segs[i].g.ok() {
			return false
		}
	}
	return true
}

// Cursor returns a cursor at the first byte.
func (l *SGL) Cursor() Cursor { return Cursor{l: l} }
