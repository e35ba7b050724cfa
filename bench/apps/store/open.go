package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

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
		if v.slots, err = pd.RegisterMR(make([]byte, staging*slotBytes), verbs.LocalWrite, nil); err != nil {
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
