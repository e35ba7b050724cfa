package mem

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
)

// grant is what a key stands for: these bytes, under these addresses, with
// these rights. The data path sees nothing else. A grant is not changed once it has been published,
// except for its state, which never comes back to granted: binding a window
// and reregistering a region make a new one. So whoever has found a grant may read it
// without a lock, and whoever keeps it (a View, an SGL) asks one word whether it is still good.
//
// It has the size of a cache line, and so one of its own: engines on other cores that use other
// keys do not disturb each other.
type grant struct {
	base   *byte  // the first byte: see span
	size   uint64 // bytes
	va     uint64 // address of the first byte as work requests and peers see it
	pd     *PD
	key    uint32 // anyKey in the grant of a window that is not bound
	state  atomic.Uint32
	access Access
	qpn    ib.QPN  // the only QP that may use it; 0 for all of the PD
	mem    *memory // whose bytes; nil for a window that is not bound
	win    *Window // the window, nil if the grant is a region's own
}

// The states of a grant.
const (
	granted uint32 = iota
	unbound        // a window that is not bound, or not in this way any more
	lost           // a region whose memory is not there
	revoked        // a region that was deregistered, or registered anew
)

// fault says why a grant that is not granted refuses everything.
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
