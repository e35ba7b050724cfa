package mem

import "fmt"

// PD is a protection domain: regions, windows, QPs, SRQs and address handles
// work together only inside one.
type PD struct {
	table *Table
	// Under the lock of the table:
	regions int
	windows int
	others  int // QPs, SRQs, AHs: see Retain
	dead    bool
}

// AllocPD makes a protection domain.
func (t *Table) AllocPD() (*PD, error) {
	const op = "alloc PD"
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, opErr(op, "", "device closed", ErrDestroyed)
	}
	if t.counts.PDs >= t.lim.PDs {
		return nil, opErr(op, "", fmt.Sprintf("%d PDs", t.lim.PDs), ErrLimit)
	}
	pd := &PD{table: t}
	t.pds[pd] = struct{}{}
	t.counts.PDs++
	return pd, nil
}

// Retain notes that a QP, SRQ or address handle uses the PD. It fails with
// ErrDestroyed if the PD is gone.
func (pd *PD) Retain() error {
	pd.table.mu.Lock()
	defer pd.table.mu.Unlock()
	if pd.dead {
		return opErr("use PD", "pd", "", ErrDestroyed)
	}
	pd.others++
	return nil
}

// Release undoes one Retain. It panics without one.
func (pd *PD) Release() {
	pd.table.mu.Lock()
	defer pd.table.mu.Unlock()
	if pd.others == 0 {
		panic("mem: PD.Release without Retain")
	}
	pd.others--
}

// Of reports whether the PD belongs to t.
func (pd *PD) Of(t *Table) bool { return pd.table == t }

// Refs returns how many objects use the PD.
func (pd *PD) Refs() int {
	pd.table.mu.Lock()
	defer pd.table.mu.Unlock()
	return pd.refs()
}

func (pd *PD) refs() int { return pd.regions + pd.windows + pd.others }

// Dealloc destroys the PD. It fails with ErrBusy while objects use it, and with
// ErrDestroyed the second time.
func (pd *PD) Dealloc() error {
	const op = "dealloc PD"
	pd.table.mu.Lock()
	defer pd.table.mu.Unlock()
	if pd.dead {
		return opErr(op, "", "", ErrDestroyed)
	}
	if pd.refs() != 0 {
		return opErr(op, "", fmt.Sprintf("%d regions, %d windows, %d queue pairs, SRQs and address handles",
			pd.regions, pd.windows, pd.others), ErrBusy)
	}
	pd.dead = true
	delete(pd.table.pds, pd)
	pd.table.counts.PDs--
	return nil
}

// Clear deregisters all regions of the PD and deallocates its windows, so that only queue pairs,
// SRQs and address handles can keep it from Dealloc. It looks through the whole table, so it is not
// for the usual end of a PD. quiesce is that of [Region.Deregister].
func (pd *PD) Clear(quiesce func()) {
	t := pd.table
	t.mu.Lock()
	gone := t.destroyAll(pd)
	t.mu.Unlock()
	t.release(quiesce, gone...)
}

// check returns an error unless pd is a live PD of t. The lock is held.
func (pd *PD) check(t *Table, op string) error {
	switch {
	case t.closed:
		return opErr(op, "", "device closed", ErrDestroyed)
	case pd == nil:
		return opErr(op, "pd", "nil", ErrInvalid)
	case pd.table != t:
		return opErr(op, "pd", "of another device", ErrInvalid)
	case pd.dead:
		return opErr(op, "pd", "", ErrDestroyed)
	}
	return nil
}
