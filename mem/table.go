package mem

import (
	"io"
	"sync"

	"github.com/goroce/goroce/ib"
)

// Table is all protection domains, regions, windows and keys of one device. The engines of
// the device share it: see Concurrency in the package comment.
type Table struct {
	keys keyTable
	lim  Limits

	// mu guards all that follows, the writing side of keys, and the fields of PDs, Regions and
	// Windows that are not constant or atomic. It is a leaf: its holder takes no other lock, calls
	// no function of the owner except the random source, and touches no registered memory.
	mu     sync.Mutex
	counts Counts
	pds    map[*PD]struct{}
	// onQP lists the type 2 windows bound on each QP, linked through Window.next.
	onQP   map[ib.QPN]*Window
	closed bool
	// leaving is memory that was revoked and has not been given back yet: see release.go.
	leaving  map[*memory]struct{}
	released sync.Cond // on mu: leaving became shorter
}

// Counts says how many objects of a Table are alive.
type Counts struct {
	PDs     int
	Regions int
	Windows int
	// Bound is the number of windows that are bound.
	Bound int
}

// NewTable returns an empty table. rng is the source of keys: crypto/rand.Reader except in tests.
// The table reads rng under its own lock, so rng must allow other readers at the same time if there
// are any. A zero Limits means the defaults.
func NewTable(rng io.Reader, lim Limits) *Table {
	lim = lim.withDefaults()
	t := &Table{
		lim:  lim,
		pds:  make(map[*PD]struct{}),
		onQP: make(map[ib.QPN]*Window),

		leaving: make(map[*memory]struct{}),
	}
	t.keys.init(rng, lim.Quarantine)
	t.released.L = &t.mu
	return t
}

// Counts returns how many objects are alive.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// Limits returns the limits in force.
func (t *Table) Limits() Limits { return t.lim }

// Close revokes every key, destroys every window, region and PD, in use or not, and gives all
// memory back. Every later control call fails with ErrDestroyed; data path calls find no key. No
// engine may use memory of the table any more. A Deregister that runs at the same time gives its
// memory back itself.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	gone := t.destroyAll(nil)
	for pd := range t.pds {
		pd.dead = true
		delete(t.pds, pd)
	}
	t.counts.PDs = 0
	t.mu.Unlock()
	t.release(nil, gone...)
}

// destroyAll destroys the windows and regions of a PD, or of all PDs if pd is nil, and returns the
// memory to release. The lock is held.
func (t *Table) destroyAll(pd *PD) (gone []*memory) {
	// Windows go first: they are bound to regions.
	for g := range t.keys.all {
		if g.win != nil && (pd == nil || g.pd == pd) {
			g.win.destroy()
		}
	}
	for g := range t.keys.all {
		if g.win == nil && (pd == nil || g.pd == pd) {
			gone = append(gone, g.mem.region.destroy())
		}
	}
	return gone
}
