package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// network is how a client reaches the disks of replicas: over RoCE, or over TCP to compare.
type network interface {
	// staging returns the memory for what is under way, slot after slot.
	staging() []byte
	dial(ctx context.Context, addr string) (wire, error)
	close() error
}

// wire is the way to the disk of one replica. Its methods may be called from any goroutine.
type wire interface {
	size() int // of the disk
	// write and read copy one slot between the disk and the staging memory; the slot is the
	// network's until the operation has ended, or Close has returned.
	write(ctx context.Context, at, slot int) (pending, error)
	read(ctx context.Context, at, slot int) (pending, error)
	// put and get copy any bytes.
	put(ctx context.Context, at int, b []byte) error
	get(ctx context.Context, at int, b []byte) error
	// flush makes n bytes of the disk last.
	flush(ctx context.Context, at, n int) error
	Close() error // more than once is fine
}

// pending is an operation under way.
type pending interface{ Wait(context.Context) error }

// roceNetwork reads and writes the memory of the replicas.
type roceNetwork struct {
	device *verbs.Device
	pd     *verbs.PD
	slots  *verbs.MR
}

func newRoCENetwork(d *verbs.Device) (*roceNetwork, error) {
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	mr, err := pd.RegisterMR(make([]byte, staging*slotBytes), verbs.LocalWrite, nil)
	if err != nil {
		return nil, errors.Join(err, pd.Close())
	}
	return &roceNetwork{device: d, pd: pd, slots: mr}, nil
}

func (n *roceNetwork) staging() []byte { return n.slots.Bytes() }
func (n *roceNetwork) close() error    { return errors.Join(n.slots.Close(), n.pd.Close()) }

// dial connects to a replica and learns its key.
func (n *roceNetwork) dial(ctx context.Context, addr string) (wire, error) {
	d := roce.Dialer{ConnConfig: roce.ConnConfig{
		Device: n.device, PD: n.pd, KeepAlive: silence / 4, SilenceTimeout: silence,
	}, Tries: 2}
	c, err := d.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	memory, err := c.Shared(ctx)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &roceWire{c: c, memory: memory, slots: n.slots}, nil
}

// roceWire is a connection, and the key to the memory at its end.
type roceWire struct {
	c      *roce.Conn
	memory roce.RemoteMemory
	slots  *verbs.MR
}

func (w *roceWire) size() int { return int(w.memory.Len) }

func (w *roceWire) write(ctx context.Context, at, slot int) (pending, error) {
	return w.c.StartWrite(ctx, w.memory.Slice(at, slotBytes), w.slots.SGE(slot*slotBytes, slotBytes))
}

func (w *roceWire) read(ctx context.Context, at, slot int) (pending, error) {
	return w.c.StartRead(ctx, w.memory.Slice(at, slotBytes), w.slots.SGE(slot*slotBytes, slotBytes))
}

func (w *roceWire) put(ctx context.Context, at int, b []byte) error {
	return w.c.Write(ctx, b, w.memory.Slice(at, len(b)))
}

func (w *roceWire) get(ctx context.Context, at int, b []byte) error {
	return w.c.Read(ctx, b, w.memory.Slice(at, len(b)))
}

func (w *roceWire) flush(ctx context.Context, at, n int) error {
	m := w.memory.Slice(at, n)
	p, err := w.c.Start(ctx, verbs.SendWR{Opcode: verbs.WRFlush, RemoteAddr: m.Addr, RKey: m.RKey, FlushLength: m.Len,
		FlushType: ib.FlushPersistence | ib.FlushRange})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

func (w *roceWire) Close() error { return w.c.Close() }

// dial connects to a replica whose disk has the right size.
func (v *Volume) dial(ctx context.Context, addr string) (wire, error) {
	w, err := v.net.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if want := diskBytes(len(v.blocks)); w.size() != want {
		err := fmt.Errorf("store: the disk of %s has %d bytes, %d blocks are %d", addr, w.size(), len(v.blocks), want)
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}
