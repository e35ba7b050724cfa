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

	mu     sync.Mutex
	owner  *owner
	closed bool
}

// owner is the client that has the disk.
type owner struct {
	end func() // when it has returned, nothing of that client can come any more
}

// take gives the disk to a client, and takes it from the one before. It returns false if the
// replica is closed.
func (r *Replica) take(o *owner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.owner != nil {
		r.owner.end()
	}
	r.owner = o
	return true
}

// leave says that a client has gone.
func (r *Replica) leave(o *owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner == o {
		r.owner = nil
	}
}

// Listen makes a replica. d is the device to use, nil that of the process.
func Listen(ctx context.Context, d *verbs.Device, addr string, disk Disk) (*Replica, error) {
	r, err := newReplica(disk)
	if err != nil {
		return nil, err
	}
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d}}
	r.l, err = lc.Listen(ctx, addr)
	return r, err
}

// newReplica makes a replica that listens nowhere.
func newReplica(disk Disk) (*Replica, error) {
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
	return &Replica{disk: disk}, nil
}

// Serve lends the disk until the context ends or the replica is closed.
func (r *Replica) Serve(ctx context.Context) error { return r.l.Serve(ctx, r.client) }

// client gives a client the disk, and takes it from the one before.
func (r *Replica) client(ctx context.Context, c *roce.Conn) error {
	persist := func(b []byte) error { return r.disk.Persist(offset(r.disk.Bytes(), b), len(b)) }
	mr, err := c.PD().RegisterMR(r.disk.Bytes(),
		verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.FlushGlobal|verbs.FlushPersistent,
		&verbs.MROptions{Persist: persist})
	if err != nil {
		return err
	}
	defer mr.Close()
	o := &owner{end: func() {
		mr.Close()
		c.Close()
	}}
	if !r.take(o) {
		return roce.ErrClosed
	}
	defer r.leave(o)
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
	var err error
	if r.l != nil {
		err = r.l.Close()
	}
	r.mu.Lock()
	o := r.owner
	r.closed = true
	r.mu.Unlock()
	if o != nil {
		o.end()
	}
	return err
}
