package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// Replica lends a disk to the newest client.
type Replica struct {
	l    *roce.Listener
	disk Disk

	mu    sync.Mutex
	owner *roce.Conn
	mr    *verbs.MR // the owner's
}

// Listen makes a replica. d is the device to use, nil that of the process.
func Listen(ctx context.Context, d *verbs.Device, addr string, disk Disk) (*Replica, error) {
	super := disk.Bytes()[:superBytes]
	switch binary.LittleEndian.Uint64(super) {
	case magic:
	case 0:
		binary.LittleEndian.PutUint64(super, magic)
		if err := disk.Persist(0, superBytes); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("store: the disk has something else on it")
	}
	r := &Replica{disk: disk}
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d}}
	l, err := lc.Listen(ctx, addr)
	r.l = l
	return r, err
}

// Serve lends the disk until the context ends or the replica is closed.
func (r *Replica) Serve(ctx context.Context) error { return r.l.Serve(ctx, r.client) }

// client gives a client the disk, and takes it from the one before.
func (r *Replica) client(ctx context.Context, c *roce.Conn) error {
	persist := func(b []byte) error { return r.disk.Persist(offset(r.disk.Bytes(), b), len(b)) }
	mr, err := c.PD().RegisterMR(r.disk.Bytes(), verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.FlushGlobal|verbs.FlushPersistent, &verbs.MROptions{Persist: persist})
	if err != nil {
		return err
	}
	defer mr.Close()
	r.mu.Lock()
	if r.owner != nil {
		r.mr.Close() // when this has returned, nothing of the client before can come any more
		r.owner.Close()
	}
	r.owner, r.mr = c, mr
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.owner == c {
			r.owner, r.mr = nil, nil
		}
	}()
	key, err := mr.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	if err := c.Send(ctx, key); err != nil {
		return fmt.Errorf("store: telling the key: %w", err)
	}
	return c.Wait(ctx)
}

// Close ends the replica; the disk is the caller's to close.
func (r *Replica) Close() error {
	err := r.l.Close()
	r.mu.Lock()
	owner, mr := r.owner, r.mr
	r.mu.Unlock()
	if owner != nil {
		mr.Close()
		owner.Close()
	}
	return err
}
