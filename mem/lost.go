package mem

import "runtime"

// Registered memory that was mapped can go away under its region: a file is truncated, or the owner
// unmaps pages. The next access then raises SIGBUS or SIGSEGV. If the program that drives the
// engine has called debug.SetPanicOnFault, that is a panic at the access, which this file handles.
// Memory of the Go heap never goes away, so there is nothing to check before an access.

// FaultAddr returns the address at which memory was not there, if the value of a recovered panic
// tells it.
func FaultAddr(recovered any) (addr uint64, ok bool) {
	f, ok := recovered.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		return 0, false // anything else, a nil pointer among them
	}
	return uint64(f.Addr()), true
}

// Lose marks every region that contains the real address addr as lost: its memory is not there. The
// region's keys are refused with FaultMemory from then on, windows on it are unbound, and a View or
// SGL of it is not Valid. A lost region must be deregistered as usual, or be given other memory by
// Reregister. Lose returns how many regions contain addr: those lost before or now, and those
// deregistered whose memory has not been given back yet. 0 means that the address has nothing to do
// with registered memory.
func (t *Table) Lose(addr uint64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for g := range t.keys.all {
		if g.win != nil || !Holds(g.mem.bytes, addr) {
			continue
		}
		n++
		if g.ok() {
			g.state.Store(lost)
			t.dropWindows(g.mem)
		}
	}
	// An engine may have begun the access before the key was revoked.
	for m := range t.leaving {
		if Holds(m.bytes, addr) {
			n++
		}
	}
	return n
}

// Holds reports whether the byte at a real address is in b.
func Holds(b []byte, addr uint64) bool {
	from := addressOf(b)
	return addr >= from && addr-from < uint64(len(b))
}

// dropWindows unbinds the windows on some memory. The lock is held.
func (t *Table) dropWindows(m *memory) {
	if m.region.windows == 0 {
		return
	}
	for g := range t.keys.all {
		if g.win != nil && g.mem == m {
			g.win.unbind()
		}
	}
}

// Lost reports whether the region's memory turned out not to be there.
func (r *Region) Lost() bool { return r.cur.Load().state.Load() == lost }
