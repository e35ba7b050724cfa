package mem

// This file gives back memory whose key was revoked. Engines look a key up without a lock, so one
// of them may have found the key just before, and may still be copying when the revocation returns.
// It does so under a lock of its own, for a batch of packets at most. So a revocation has three
// steps:
//
//  1. Revoke: lookups no longer find the key, and no View or SGL is Valid.
//  2. Quiesce: a function of the caller returns when each engine has been seen at rest. Packets
//     that referred to the memory have left by then.
//  3. Release: the memory is given back to its owner.
//
// The table's lock is held in the first step only. The second needs the locks of the engines, and
// an engine takes the table's lock with its own held.

// memory is bytes as they were registered. It does not change; the grants of the region and of its
// windows share it.
type memory struct {
	region    *Region
	bytes     []byte
	onRelease func()
	persist   func([]byte) error
}

func newMemory(r *Region, a *RegionAttr) *memory {
	return &memory{region: r, bytes: a.Bytes, onRelease: a.OnRelease, persist: a.Persist}
}

// leave notes that memory was taken from its region and will be released. The lock is held.
func (t *Table) leave(m *memory) {
	m.region.leaving++
	t.leaving[m] = struct{}{}
}

// release completes a revocation. The lock is not held.
func (t *Table) release(quiesce func(), gone ...*memory) {
	settle(quiesce)
	for _, m := range gone {
		if m.onRelease != nil {
			m.onRelease()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range gone {
		m.region.leaving--
		delete(t.leaving, m)
	}
	t.released.Broadcast()
}

// awaitReleased waits until all memory that was taken from r has been given back. The lock is held,
// and released while it waits.
func (r *Region) awaitReleased() {
	for r.leaving > 0 {
		r.table.released.Wait()
	}
}

// settle waits until no engine uses what was revoked.
func settle(quiesce func()) {
	if quiesce != nil {
		quiesce()
	}
}
