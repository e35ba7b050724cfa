package store

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/goroce/goroce/roce/verbs"
)

// Open connects to replicas, named in the same order each time, and makes them equal. d is the
// device to use. Some of them may be missing if the others know that they are.
func Open(ctx context.Context, d *verbs.Device, addrs []string, blocks int) (*Volume, error) {
	n, err := newRoCENetwork(d)
	if err != nil {
		return nil, err
	}
	return openOn(ctx, n, addrs, blocks)
}

func openOn(ctx context.Context, n network, addrs []string, blocks int) (*Volume, error) {
	v := &Volume{net: n, blocks: make([]block, blocks), free: make(chan int, staging), dirty: map[int]bool{}}
	v.flushing, v.mu = newLock(), newLock()
	for i := range v.locks {
		v.locks[i] = newLock()
	}
	if len(addrs) > 64 {
		return nil, errors.Join(errors.New("store: more than 64 replicas"), n.close())
	}
	v.ctx, v.end = context.WithCancel(context.Background())
	var why error
	open := func() error {
		for i := range staging {
			v.free <- i
		}
		var absent, old uint64 // servers that are not there, and that are not believed
		missing := map[*remote]uint64{}
		for i, addr := range addrs {
			r := &remote{addr: addr, bit: 1 << i, missed: map[int]miss{}}
			v.replicas = append(v.replicas, r)
			c, err := v.dial(ctx, addr)
			if err != nil {
				absent |= r.bit
				why = errors.Join(why, err)
				continue
			}
			r.c = c
			var super [24]byte
			if err := c.get(ctx, 0, super[:]); err != nil {
				return err
			}
			missing[r] = binary.LittleEndian.Uint64(super[8:])
			old |= missing[r]
			v.epoch = max(v.epoch, binary.LittleEndian.Uint64(super[16:]))
		}
		v.epoch++
		v.last.Store(v.epoch << epochShift)
		var believed, back []*remote
		var known uint64 // who may be absent
		for _, r := range v.replicas {
			switch {
			case r.c == nil:
			case old&r.bit != 0:
				back = append(back, r)
			default:
				believed = append(believed, r)
				r.inSync = true
				known |= missing[r]
			}
		}
		if len(believed) == 0 || absent&^known != 0 {
			return errors.Join(ErrStale, why)
		}
		for _, r := range believed { // before anything is written in this epoch
			if err := r.tell(ctx, missing[r], v.epoch); err != nil {
				return err
			}
		}
		var err error
		if old == 0 {
			err = v.reconcile(ctx, believed)
		} else {
			err = v.renew(ctx, believed, back)
		}
		if err != nil {
			return err
		}
		return v.admit(ctx, back)
	}
	if err := open(); err != nil {
		v.end()
		for _, r := range v.replicas {
			r.drop()
		}
		return nil, errors.Join(err, n.close())
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

// newest finds the newest version of a block with a right checksum at some replicas, and leaves its
// slot in b. at says which versions there are.
func (v *Volume) newest(ctx context.Context, from []*remote, block int,
	b []byte) (newest uint64, at [][copies]uint64, err error) {
	read := make([]byte, slotBytes)
	at = make([][copies]uint64, len(from))
	clear(b)
	for i, r := range from {
		for slot := range uint8(copies) {
			if err := r.c.get(ctx, place(block, slot), read); err != nil {
				return 0, nil, err
			}
			n, whole := version(read)
			if !whole {
				continue
			}
			at[i][slot] = n
			if n > newest {
				newest = n
				copy(b, read)
				v.blocks[block].now = slot
			}
		}
	}
	return newest, at, nil
}

// reconcile makes the replicas equal when all are there and believed: of each block the newest
// version.
func (v *Volume) reconcile(ctx context.Context, all []*remote) error {
	best := make([]byte, slotBytes)
	for block := range v.blocks {
		newest, at, err := v.newest(ctx, all, block, best)
		if err != nil {
			return err
		}
		now := v.blocks[block].now
		v.blocks[block].flushed = now // before Open returns
		for i, r := range all {
			if newest > 0 && at[i][now] != newest {
				if err := r.c.put(ctx, place(block, now), best); err != nil {
					return err
				}
			}
		}
	}
	return flush(ctx, all)
}

// renew writes all that the believed replicas have again, to all that are there, with versions of
// this epoch.
func (v *Volume) renew(ctx context.Context, believed, back []*remote) error {
	if err := flush(ctx, believed); err != nil { // the other slots are overwritten
		return err
	}
	best := make([]byte, slotBytes)
	for block := range v.blocks {
		if _, _, err := v.newest(ctx, believed, block, best); err != nil {
			return err
		}
		seal(best, v.last.Add(1))
		now := 1 - v.blocks[block].now
		v.blocks[block].now, v.blocks[block].flushed = now, now
		for _, r := range slices.Concat(believed, back) {
			if err := r.c.put(ctx, place(block, now), best); err != nil {
				return err
			}
		}
	}
	return flush(ctx, slices.Concat(believed, back))
}

// flush makes all of some replicas last.
func flush(ctx context.Context, all []*remote) error {
	for _, r := range all {
		if err := r.c.flush(ctx, 0, r.c.size()); err != nil {
			return err
		}
	}
	return nil
}
