package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce"
)

var (
	// ErrNoReplica is the error when no replica is left that has everything.
	ErrNoReplica = errors.New("store: no replica is left that has everything")
	// ErrStale is the error of Open when replicas are missing and none of those that are there is
	// marked as the newest.
	ErrStale = errors.New("store: replicas are missing, and those that are there may be old")
)

const (
	// staging is how many operations may be under way.
	staging = 64
	// stripes is how many locks there are for blocks.
	stripes = 256
	// silence is how long a replica may stand still before it is taken for failed.
	silence = 2 * time.Second
	// retry is the time between two dials to a replica that has failed.
	retry = 100 * time.Millisecond
)

// Volume is a client of some replicas. Its methods may be called from any goroutine.
type Volume struct {
	net   network
	free  chan int // slots of its memory for what is under way
	turn  atomic.Uint32
	last  atomic.Uint64 // version
	epoch uint64        // of this client, the upper part of its versions

	flushing lock          // held by writes; a flush keeps them out, so that it flushes what is whole
	locks    [stripes]lock // of blocks
	blocks   []block

	dirtyMu sync.Mutex
	dirty   map[int]bool // blocks that were written since the last flush

	mu       lock // held to use replicas; exclusively to change which there are
	replicas []*remote
	closed   bool

	ctx    context.Context // ends with the volume
	end    context.CancelFunc
	mender sync.WaitGroup
}

// block is what the client knows of a block.
type block struct {
	now     uint8 // the slot that has it
	flushed uint8 // the slot that has what was flushed last: it is not written to
}

// Close ends the volume. What was not flushed may be lost when the replicas lose their power.
func (v *Volume) Close() error {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return nil
	}
	v.closed = true
	v.end()
	v.mu.Unlock()
	v.mender.Wait()
	var err error
	for _, r := range v.replicas {
		if r.c != nil {
			err = errors.Join(err, r.c.Close())
		}
	}
	return errors.Join(err, v.net.close())
}

// InSync returns how many replicas have everything.
func (v *Volume) InSync() (n int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, r := range v.replicas {
		if r.inSync {
			n++
		}
	}
	return n
}

// take waits for memory for an operation.
func (v *Volume) take(ctx context.Context) (slot int, err error) {
	select {
	case slot = <-v.free:
		return slot, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (v *Volume) bytes(slot int) []byte { return v.net.staging()[slot*slotBytes:][:slotBytes] }

// check refuses what is no block.
func (v *Volume) check(block int, b []byte) error {
	if block < 0 || block >= len(v.blocks) || len(b) != BlockBytes {
		return fmt.Errorf("store: block %d of %d, %d bytes", block, len(v.blocks), len(b))
	}
	return nil
}

// WriteBlock writes a block to all replicas. When it returns nil, all of those that are in sync
// have it in memory; Flush makes it last. After an error it may be there or not. The context is
// looked at before anything is sent.
func (v *Volume) WriteBlock(ctx context.Context, block int, b []byte) error {
	if err := v.check(block, b); err != nil {
		return err
	}
	slot, err := v.take(ctx)
	if err != nil {
		return err
	}
	defer func() { v.free <- slot }()
	v.flushing.RLock()
	defer v.flushing.RUnlock()
	mine := v.locks[block%stripes]
	mine.Lock()
	defer mine.Unlock()
	v.dirtyMu.Lock()
	v.dirty[block] = true
	v.dirtyMu.Unlock()
	copy(v.bytes(slot)[slotHead:], b)
	m := miss{version: v.last.Add(1)}
	seal(v.bytes(slot), m.version)
	v.mu.RLock()
	if v.closed {
		v.mu.RUnlock()
		return roce.ErrClosed
	}
	m.slot = 1 - v.blocks[block].flushed
	failed, whole := v.write(v.replicas, block, slot, m)
	v.mu.RUnlock()
	if len(failed) > 0 || whole == 0 {
		if err := v.degrade(failed, whole); err != nil {
			return err
		}
	}
	v.blocks[block].now = m.slot
	return nil
}

// session is a replica with the connection that was used: it may have another one later.
type session struct {
	r *remote
	c wire
}

// write writes a slot to replicas side by side, and waits. It returns those that failed, and how
// many in sync have it.
func (v *Volume) write(to []*remote, block, slot int, m miss) (failed []session, whole int) {
	under := make([]pending, len(to))
	for i, r := range to {
		r.note(block, m)
		if r.c == nil {
			continue
		}
		p, err := r.c.write(v.ctx, place(block, m.slot), slot)
		if err != nil {
			failed = append(failed, session{r, r.c})
			continue
		}
		under[i] = p
	}
	m.done = true
	for i, p := range under {
		if p == nil {
			continue
		}
		if err := p.Wait(v.ctx); err != nil {
			to[i].c.Close() // nobody reads the slot any more
			failed = append(failed, session{to[i], to[i].c})
			continue
		}
		to[i].note(block, m)
		if to[i].inSync {
			whole++
		}
	}
	return failed, whole
}

// degrade takes replicas out that have failed, and marks those that are left before anything is
// acknowledged that the failed ones do not have.
func (v *Volume) degrade(failed []session, whole int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return roce.ErrClosed
	}
	news := false
	for _, f := range failed {
		if f.r.c == f.c && f.c != nil {
			f.r.drop()
			news = true
		}
	}
	if news {
		if err := v.mark(v.ctx); err != nil {
			return err
		}
	}
	if whole == 0 {
		return ErrNoReplica
	}
	return nil
}

// mark says in the superblocks of the replicas in sync which others are missing, and flushes that.
// One that fails is dropped, and is missing, too. v.mu is held.
func (v *Volume) mark(ctx context.Context) error {
	for {
		missing, left, failed := v.missing(), 0, false
		for _, r := range v.replicas {
			if !r.inSync {
				continue
			}
			if err := r.tell(ctx, missing, v.epoch); err != nil {
				r.drop()
				failed = true
			} else {
				left++
			}
		}
		switch {
		case left == 0:
			return ErrNoReplica
		case !failed:
			return nil
		}
	}
}

// missing returns the bits of the replicas that are not in sync.
func (v *Volume) missing() (bits uint64) {
	for _, r := range v.replicas {
		if !r.inSync {
			bits |= r.bit
		}
	}
	return bits
}

// admit takes replicas in that have everything on their disks. Those that were in sync say so
// first: one that fails before it has answered may still say that the others are old, so they do
// not go on without it. v.mu is held.
func (v *Volume) admit(ctx context.Context, back []*remote) error {
	missing := v.missing()
	for _, r := range back {
		missing &^= r.bit
	}
	refuse := func(err error) error {
		for _, r := range back {
			r.drop()
		}
		return errors.Join(err, v.mark(ctx))
	}
	for _, r := range v.replicas {
		if r.inSync {
			if err := r.tell(ctx, missing, v.epoch); err != nil {
				r.drop()
				return refuse(err)
			}
		}
	}
	for _, r := range back {
		if err := r.tell(ctx, missing, v.epoch); err != nil {
			return refuse(err)
		}
	}
	for _, r := range back {
		r.inSync = true
	}
	return nil
}

// Flush returns when all blocks whose WriteBlock had returned before are on the disks of all
// replicas in sync.
func (v *Volume) Flush(ctx context.Context) error {
	v.flushing.Lock()
	defer v.flushing.Unlock()
	if err := v.flush(nil); err != nil {
		return err
	}
	return ctx.Err()
}

// flush flushes the replicas in sync, and one that is on its way back. v.flushing is held.
func (v *Volume) flush(back *remote) error {
	v.mu.RLock()
	if v.closed {
		v.mu.RUnlock()
		return roce.ErrClosed
	}
	var failed []session
	whole := 0
	for _, r := range v.replicas {
		if r.c == nil || !r.inSync && r != back {
			continue
		}
		written := r.written()
		if err := r.c.flush(v.ctx, 0, r.c.size()); err != nil {
			failed = append(failed, session{r, r.c})
			continue
		}
		r.forget(written)
		if r.inSync {
			whole++
		}
	}
	v.mu.RUnlock()
	if len(failed) > 0 || whole == 0 {
		if err := v.degrade(failed, whole); err != nil {
			return err
		}
	}
	for block := range v.dirty {
		v.blocks[block].flushed = v.blocks[block].now
	}
	clear(v.dirty)
	return nil
}

// ReadBlock reads a block from one of the replicas in sync.
func (v *Volume) ReadBlock(ctx context.Context, block int, b []byte) error {
	if err := v.check(block, b); err != nil {
		return err
	}
	slot, err := v.take(ctx)
	if err != nil {
		return err
	}
	defer func() { v.free <- slot }()
	mine := v.locks[block%stripes]
	mine.RLock()
	defer mine.RUnlock()
	for {
		failed, err := v.read(block, slot)
		if err != nil {
			return err
		}
		if failed.r == nil {
			copy(b, v.bytes(slot)[slotHead:])
			return nil
		}
		if err := v.degrade([]session{failed}, 1); err != nil {
			return err
		}
	}
}

// read reads a block into a slot, from a replica in turn. A slot with a wrong checksum is a failure
// of the replica, since nobody writes to it now.
func (v *Volume) read(block, slot int) (failed session, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return failed, roce.ErrClosed
	}
	n := len(v.replicas)
	first := int(v.turn.Add(1))
	for i := range n {
		r := v.replicas[(first+i)%n]
		if !r.inSync {
			continue
		}
		p, err := r.c.read(v.ctx, place(block, v.blocks[block].now), slot)
		if err == nil {
			err = p.Wait(v.ctx)
		}
		if err != nil {
			r.c.Close()
			return session{r, r.c}, nil
		}
		if _, whole := version(v.bytes(slot)); !whole {
			return session{r, r.c}, nil
		}
		return session{}, nil
	}
	return failed, ErrNoReplica
}
