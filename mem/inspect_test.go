package mem

import "sync/atomic"

// This file has what only tests ask.

// Len returns the length in bytes; 0 once deregistered or lost.
func (r *Region) Len() uint64 { return uint64(len(r.Bytes())) }

// Access returns the rights granted.
func (r *Region) Access() Access { return r.cur.Load().access }

// Windows returns how many memory windows are bound to the region.
func (r *Region) Windows() int {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return r.windows
}

// Load returns the word.
func (v View) Load() (uint64, Fault) {
	if f := v.atomicFault(); f != FaultNone {
		return 0, f
	}
	return atomic.LoadUint64(v.word()), FaultNone
}

// Region returns the region that the bytes belong to, nil for a zero-length access.
func (v View) Region() *Region {
	if v.g == nil {
		return nil
	}
	return v.g.mem.region
}

// PD returns the protection domain.
func (w *Window) PD() *PD { return w.pd }

// Region returns the region that the window is bound to, or nil.
func (w *Window) Region() *Region {
	if m := w.now().mem; m != nil {
		return m.region
	}
	return nil
}

// Len returns the length of the bound range in bytes.
func (w *Window) Len() uint64 { return w.now().size }

// Access returns the rights of the current bind.
func (w *Window) Access() Access { return w.now().access }

// Len returns the number of bytes.
func (l *SGL) Len() uint64 { return l.n }
