package mem

import "runtime"

// Registered memory that was mapped can go away under its region: a file is
// truncated, or the owner unmaps pages. The next access then makes a SIGBUS or a
// SIGSEGV. With debug.SetPanicOnFault, which whoever drives the engine sets, that is
// a panic at the access, and this file is what becomes of it. Memory of the Go
// heap never does that, so there is nothing to check before an access.

// FaultAddr returns the address at which memory was not there, if that is what
// the value of a recovered panic says.
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

// Lose takes notice that the memory at a real address is not there. Every region
// that holds it is lost from then on: its keys are refused with FaultMemory,
// windows on it are unbound, a View or SGL of it is not Valid. Such a region
// has to be deregistered as ever, or to be given other memory by Reregister.
// Lose returns how many regions it has met, lost before or now, or deregistered with their memory
// not given back yet; with 0 the address has nothing to do with registered memory.
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
	for _, m := range t.leaving {
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
