package mem

import (
	"io"

	"github.com/goroce/goroce/ib"
)

// Table is all protection domains, regions, windows and keys of one device.
// It is not locked: see the package comment.
type Table struct {
	keys   keyTable
	lim    Limits
	counts Counts
	pds    map[*PD]struct{}
	// onQP lists the type 2 windows bound on each QP, linked through Window.next.
	onQP   map[ib.QPN]*Window
	closed bool
}

// Counts says how many objects of a Table are alive.
type Counts struct {
	PDs     int
	Regions int
	Windows int
	// Bound is the number of windows that are bound.
	Bound int
}

// NewTable returns an empty table. rng is where keys come from: crypto/rand.Reader
// except in tests. A zero Limits means the defaults.
func NewTable(rng io.Reader, lim Limits) *Table {
	lim = lim.withDefaults()
	return &Table{
		keys: newKeyTable(rng, lim.Quarantine),
		lim:  lim,
		pds:  make(map[*PD]struct{}),
		onQP: make(map[ib.QPN]*Window),
	}
}

// Counts returns how many objects are alive.
func (t *Table) Counts() Counts { return t.counts }

// Limits returns the limits in force.
func (t *Table) Limits() Limits { return t.lim }

// Close revokes every key and destroys every window, region and PD, in use or
// not. Every later control call fails with ErrDestroyed; data path calls find no
// key.
func (t *Table) Close() {
	t.closed = true
	// Erasing a key may move others to where this loop has been, so it runs until
	// nothing is left. Windows go first: they hold on to regions.
	for t.counts.Windows > 0 || t.counts.Regions > 0 {
		for i := range t.keys.slots {
			switch g := t.keys.slots[i].g; {
			case g == nil:
			case g.win != nil:
				g.win.destroy()
			case t.counts.Windows == 0:
				g.region.destroy()
			}
		}
	}
	for pd := range t.pds {
		pd.dead = true
		delete(t.pds, pd)
	}
	t.counts.PDs = 0
}
