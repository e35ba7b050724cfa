package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

var (
	// ErrNoReplica is the error when no replica is left that has everything.
	ErrNoReplica = errors.New("store: no replica is left that has everything")
	// ErrStale is the error of Open when replicas are missing and none of those that are there is marked as the newest.
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
	device *verbs.Device
	pd     *verbs.PD
	slots  *verbs.MR // memory for what is under way
	free   chan int  // of them
	turn   atomic.Uint32
	last   atomic.Uint64 // version

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

// remote is a replica seen from the client.
type remote struct {
	addr   string
	c      *roce.Conn // nil: it has failed
	memory roce.RemoteMemory
	inSync bool // it has everything, and may be read

	mu     sync.Mutex
	missed map[int]miss // blocks that it may not have on its disk
}

// miss is the newest write of a block since the last flush.
type miss struct {
	version uint64
	slot    uint8
	done    bool // the replica has it in memory
}

// Open connects to replicas and makes them equal. d is the device to use. Some of them may be missing if one of the
// others is marked as the newest.
func Open(ctx context.Context, d *verbs.Device, addrs []string, blocks int) (*Volume, error) {
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	v := &Volume{device: d, pd: pd, blocks: make([]block, blocks), free: make(chan int, staging), dirty: map[int]bool{}}
	v.flushing, v.mu = newLock(), newLock()
	for i := range v.locks {
		v.locks[i] = newLock()
	}
	v.ctx, v.end = context.WithCancel(context.Background())
	missing, alone := 0, false
	var why error
	open := func() error {
		if v.slots, err = pd.RegisterMR(make([]byte, staging*slotBytes), verbs.LocalWrite); err != nil {
			return err
		}
		for i := range staging {
			v.free <- i
		}
		for _, addr := range addrs {
			r := &remote{addr: addr, missed: map[int]miss{}}
			v.replicas = append(v.replicas, r)
			c, memory, err := v.dial(ctx, addr)
			if err != nil {
				missing++
				why = errors.Join(why, err)
				continue
			}
			r.c, r.memory, r.inSync = c, memory, true
			var super [16]byte
			if err := c.Read(ctx, super[:], memory.Slice(0, 16)); err != nil {
				return err
			}
			alone = alone || binary.LittleEndian.Uint64(super[8:]) != 0
		}
		if missing == len(addrs) || missing > 0 && !alone {
			return errors.Join(ErrStale, why)
		}
		if err := v.reconcile(ctx); err != nil {
			return err
		}
		return v.mark(ctx, missing > 0)
	}
	if err := open(); err != nil {
		v.end()
		for _, r := range v.replicas {
			r.drop()
		}
		if v.slots != nil {
			v.slots.Close()
		}
		return nil, errors.Join(err, pd.Close())
	}
	for _, r := range v.replicas {
		if r.c == nil { // nobody knows what it misses
			for i := range blocks {
				r.missed[i] = miss{}
			}
		}
	}
	v.mender.Go(v.mend)
	return v, nil
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
	return errors.Join(err, v.slots.Close(), v.pd.Close())
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

// dial connects to a replica and learns its key.
func (v *Volume) dial(ctx context.Context, addr string) (*roce.Conn, roce.RemoteMemory, error) {
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: v.device, PD: v.pd, KeepAlive: silence / 4, SilenceTimeout: silence}, Tries: 2}
	c, err := d.Dial(ctx, addr)
	if err != nil {
		return nil, roce.RemoteMemory{}, err
	}
	memory, err := c.Shared(ctx)
	if want := diskBytes(len(v.blocks)); err == nil && int(memory.Len) != want {
		err = fmt.Errorf("store: the disk of %s has %d bytes, %d blocks are %d", addr, memory.Len, len(v.blocks), want)
	}
	if err != nil {
		return nil, memory, errors.Join(err, c.Close())
	}
	return c, memory, nil
}

func (r *remote) drop() {
	if r.c != nil {
		r.c.Close()
		r.c, r.inSync = nil, false
	}
}

// slot is where a copy of a block is in the memory of a replica.
func (r *remote) slot(block int, copy uint8) roce.RemoteMemory {
	return r.memory.Slice(superBytes+(block*copies+int(copy))*slotBytes, slotBytes)
}

// note notes a write of a block.
func (r *remote) note(block int, m miss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed[block] = m
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

func (v *Volume) bytes(slot int) []byte  { return v.slots.Bytes()[slot*slotBytes:][:slotBytes] }
func (v *Volume) sge(slot int) verbs.SGE { return v.slots.SGE(slot*slotBytes, slotBytes) }

// check refuses what is no block.
func (v *Volume) check(block int, b []byte) error {
	if block < 0 || block >= len(v.blocks) || len(b) != BlockBytes {
		return fmt.Errorf("store: block %d of %d, %d bytes", block, len(v.blocks), len(b))
	}
	return nil
}

// WriteBlock writes a block to all replicas. When it returns nil, all of those that are in sync have it in
// memory; Flush makes it last. After an error it may be there or not. The context is looked at before
// anything is sent.
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
	c *roce.Conn
}

// write writes a slot to replicas side by side, and waits. It returns those that failed, and how many in sync have it.
func (v *Volume) write(to []*remote, block, slot int, m miss) (failed []session, whole int) {
	pending := make([]*roce.Pending, len(to))
	for i, r := range to {
		r.note(block, m)
		if r.c == nil {
			continue
		}
		p, err := r.c.StartWrite(v.ctx, r.slot(block, m.slot), v.sge(slot))
		if err != nil {
			failed = append(failed, session{r, r.c})
			continue
		}
		pending[i] = p
	}
	m.done = true
	for i, p := range pending {
		if p == nil {
			continue
		}
		if err := p.Wait(v.ctx); err != nil {
			to[i].c.Close() // the device reads the slot no more
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

// degrade takes replicas out that have failed, and marks those that are left before anything is acknowledged
// that the failed ones do not have.
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
		if err := v.mark(v.ctx, true); err != nil {
			return err
		}
	}
	if whole == 0 {
		return ErrNoReplica
	}
	return nil
}

// mark says in the superblocks of replicas in sync whether they are the newest on their own, and flushes that. One
// that fails is dropped. v.mu is held.
func (v *Volume) mark(ctx context.Context, alone bool) error {
	var b [8]byte
	if alone {
		b[0] = 1
	}
	left := 0
	for _, r := range v.replicas {
		if !r.inSync {
			continue
		}
		err := r.c.Write(ctx, b[:], r.memory.Slice(8, 8))
		if err == nil {
			err = r.flush(ctx, 0, superBytes)
		}
		if err != nil {
			r.drop()
			if !alone { // now it is so
				return v.mark(ctx, true)
			}
			continue
		}
		left++
	}
	if left == 0 {
		return ErrNoReplica
	}
	return nil
}

// flush makes n bytes of a replica's disk last.
func (r *remote) flush(ctx context.Context, from, n int) error {
	m := r.memory.Slice(from, n)
	p, err := r.c.Start(ctx, verbs.SendWR{Opcode: verbs.WRFlush, RemoteAddr: m.Addr, RKey: m.RKey, FlushLength: m.Len,
		FlushType: ib.FlushPersistence | ib.FlushRange})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
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

// Flush returns when all blocks whose WriteBlock had returned before are on the disks of all replicas in sync.
func (v *Volume) Flush(ctx context.Context) error {
	v.flushing.Lock()
	defer v.flushing.Unlock()
	v.mu.RLock()
	if v.closed {
		v.mu.RUnlock()
		return roce.ErrClosed
	}
	var failed []session
	whole := 0
	for _, r := range v.replicas {
		if !r.inSync {
			continue
		}
		written := r.written()
		if err := r.flush(v.ctx, 0, int(r.memory.Len)); err != nil {
			failed = append(failed, session{r, r.c})
			continue
		}
		r.forget(written)
		whole++
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
	return ctx.Err()
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

// read reads a block into a slot, from a replica in turn. A slot with a wrong checksum is a failure of the replica, since nobody writes to it now.
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
		p, err := r.c.StartRead(v.ctx, r.slot(block, v.blocks[block].now), v.sge(slot))
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

// reconcile makes the replicas that are there equal: of each block the newest version with a right checksum.
func (v *Volume) reconcile(ctx context.Context) error {
	here := []*remote{}
	for _, r := range v.replicas {
		if r.c != nil {
			here = append(here, r)
		}
	}
	read, best := make([]byte, slotBytes), make([]byte, slotBytes)
	for block := range v.blocks {
		var newest uint64
		at := make([][copies]uint64, len(here))
		for i, r := range here {
			for copy := range uint8(copies) {
				if err := r.c.Read(ctx, read, r.slot(block, copy)); err != nil {
					return err
				}
				n, whole := version(read)
				if !whole {
					continue
				}
				at[i][copy] = n
				if n > newest {
					newest = n
					read, best = best, read
					v.blocks[block].now = copy
				}
			}
		}
		now := v.blocks[block].now
		v.blocks[block].flushed = now // before Open returns
		v.last.Store(max(v.last.Load(), newest))
		for i, r := range here {
			if newest > 0 && at[i][now] != newest {
				if err := r.c.Write(ctx, best, r.slot(block, now)); err != nil {
					return err
				}
			}
		}
	}
	for _, r := range here {
		if err := r.flush(ctx, 0, int(r.memory.Len)); err != nil {
			return err
		}
	}
	return nil
}
