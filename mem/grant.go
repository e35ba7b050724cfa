package mem

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
)

// grant is what a key stands for: these bytes, under these addresses, with these rights. The data
// path sees nothing else. A published grant does not change, except for its state, which never
// returns to granted: binding a window or reregistering a region makes a new grant. So a lookup may
// read a grant without a lock, and a View or SGL that keeps one reads a single word to see whether
// it is still good.
//
// It has the size of a cache line, and so occupies exactly one: engines on other cores that use
// other keys do not disturb each other.
type grant struct {
	base   *byte  // the first byte: see span
	size   uint64 // bytes
	va     uint64 // address of the first byte as work requests and peers see it
	pd     *PD
	key    uint32 // anyKey in the grant of a window that is not bound
	state  atomic.Uint32
	access Access
	qpn    ib.QPN  // the only QP that may use it; 0 for all QPs of the PD
	mem    *memory // the memory of the bytes; nil for a window that is not bound
	win    *Window // the window, nil if the grant is a region's own
}

// The states of a grant.
const (
	granted uint32 = iota
	unbound        // a window that is not bound, or no longer in this way
	lost           // a region whose memory is not there
	revoked        // a region that was deregistered or reregistered
)

// fault returns the reason why a revoked, unbound or lost grant refuses everything.
func (g *grant) fault() Fault {
	switch g.state.Load() {
	case unbound:
		return FaultState
	case lost:
		return FaultMemory
	}
	return FaultKey
}

// ok reports whether the grant may be used.
func (g *grant) ok() bool { return g.state.Load() == granted }

// nothing is the grant of a region that was deregistered.
var nothing = func() *grant {
	g := new(grant)
	g.state.Store(revoked)
	return g
}()
