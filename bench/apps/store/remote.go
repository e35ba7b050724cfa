package store

import (
	"context"
	"encoding/binary"
	"sync"
)

// remote is a replica seen from the client.
type remote struct {
	addr   string
	bit    uint64 // its own in the superblocks of the others
	c      wire   // nil: it has failed
	inSync bool   // it has everything, and may be read

	mu     sync.Mutex
	missed map[int]miss // blocks that it may not have on its disk
}

// miss is the newest write of a block since the last flush.
type miss struct {
	version uint64
	slot    uint8
	done    bool // the replica has it in memory
}

func (r *remote) drop() {
	if r.c != nil {
		r.c.Close()
		r.c, r.inSync = nil, false
	}
}

// place is where a copy of a block is on the disk of a replica.
func place(block int, copy uint8) int { return superBytes + (block*copies+int(copy))*slotBytes }

// note notes a write of a block.
func (r *remote) note(block int, m miss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed[block] = m
}

// tell writes to a replica's superblock who is missing, and the epoch, and flushes that.
func (r *remote) tell(ctx context.Context, missing, epoch uint64) error {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], missing)
	binary.LittleEndian.PutUint64(b[8:], epoch)
	if err := r.c.put(ctx, 8, b[:]); err != nil {
		return err
	}
	return r.c.flush(ctx, 0, superBytes)
}

// written returns what a replica has in memory and maybe not on its disk.
func (r *remote) written() map[int]miss {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[int]miss{}
	for block, m := range r.missed {
		if m.done {
			all[block] = m
		}
	}
	return all
}

// forget takes out what was flushed, unless it was written again meanwhile.
func (r *remote) forget(flushed map[int]miss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for block, m := range flushed {
		if r.missed[block] == m {
			delete(r.missed, block)
		}
	}
}
