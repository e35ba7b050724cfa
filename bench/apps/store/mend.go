package store

import (
	"time"
)

// mend brings replicas that have failed back, until the volume ends.
func (v *Volume) mend() {
	for {
		t := time.NewTimer(retry)
		select {
		case <-t.C:
		case <-v.ctx.Done():
			t.Stop()
			return
		}
		for _, r := range v.replicas {
			v.mu.RLock()
			failed := r.c == nil
			v.mu.RUnlock()
			if failed {
				v.mendOne(r)
			}
		}
	}
}

// mendOne tries to bring one replica back. From the moment that it is connected it gets what is
// written; then it gets what it misses, and is flushed. If that fails it is tried again later.
func (v *Volume) mendOne(r *remote) {
	c, err := v.dial(v.ctx, r.addr)
	if err != nil {
		return
	}
	v.mu.Lock()
	r.c = c
	r.mu.Lock()
	blocks := make([]int, 0, len(r.missed))
	for block, m := range r.missed {
		m.done = false // it may have lost its memory
		r.missed[block] = m
		blocks = append(blocks, block)
	}
	r.mu.Unlock()
	v.mu.Unlock()
	ok := v.resync(r, blocks)
	if ok { // what it got lasts; the writes go on meanwhile
		written := r.written()
		if ok = c.flush(v.ctx, 0, c.size()) == nil; ok {
			r.forget(written)
		}
	}
	// Then without writes: what was flushed while it was away is on all disks again, in the slots
	// that are kept, before it counts.
	v.flushing.Lock()
	defer v.flushing.Unlock()
	ok = ok && v.flush(r) == nil
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.c != c { // it failed again
		return
	}
	if !ok || v.closed {
		r.drop()
		return
	}
	v.admit(v.ctx, []*remote{r}) // one that fails now is dropped, and comes here again
}

// resync copies blocks to a replica from one that is in sync.
func (v *Volume) resync(r *remote, blocks []int) bool {
	for _, block := range blocks {
		if !v.copy(r, block) {
			return false
		}
	}
	return true
}

// copy copies a block to a replica, with nobody writing to it meanwhile.
func (v *Volume) copy(r *remote, block int) bool {
	slot, err := v.take(v.ctx)
	if err != nil {
		return false
	}
	defer func() { v.free <- slot }()
	mine := v.locks[block%stripes]
	mine.Lock()
	defer mine.Unlock()
	failed, err := v.read(block, slot)
	if err != nil {
		return false
	}
	if failed.r != nil {
		v.degrade([]session{failed}, 1)
		return false
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if r.c == nil || v.closed {
		return false
	}
	n, _ := version(v.bytes(slot))
	m := miss{version: n, slot: v.blocks[block].now}
	if n == 0 { // it was never written
		m.done = true
		r.note(block, m)
		return true
	}
	bad, _ := v.write([]*remote{r}, block, slot, m)
	return len(bad) == 0
}
