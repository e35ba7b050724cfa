package verbs

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/kind"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/transport"
)

// Device is an RDMA device on a link. See the package comment for how it runs.
type Device struct {
	s *shard.Shard

	ended      atomic.Bool   // Close has returned what there was to say
	linkDowned atomic.Uint64 // times that the interfaces under the link went down
	async      *eventQueue
	placed     uint64 // see place; under the lock
}

// Open opens a device. The error is an *OpenError that says what to do, or
// about an attribute an *ArgError.
func Open(cfg Config) (*Device, error) {
	l, base, addrs, err := openLink(&cfg)
	if err != nil {
		return nil, err
	}
	d := &Device{async: newEventQueue()}
	random := cfg.Rand
	if random == nil {
		random = rand.Reader
		if s := shard.SchedulerOf(l); s != nil {
			random = s.Rand()
		}
	}
	d.s, err = shard.New(shard.Config{
		Link: l, Base: base, Addrs: addrs, MTU: cfg.MTU, Table: mem.NewTable(random, cfg.MemLimits), Rand: random,
		Polling: cfg.Polling, Alone: cfg.alone, SpinNs: cfg.UDP.SpinNs, Owner: owner{d},
		Engine: transport.Config{Tracer: cfg.Tracer, Tuning: cfg.Tuning},
	})
	if err != nil {
		return nil, errors.Join(&OpenError{Err: err}, l.Close())
	}
	d.s.Start()
	return d, nil
}

// openLink makes or takes the link, which wraps base, and settles the addresses.
func openLink(cfg *Config) (l, base link.Link, addrs []netip.Addr, err error) {
	addrs = slices.Clone(cfg.Addrs)
	for i, a := range addrs {
		if !a.IsValid() {
			return nil, nil, nil, &ArgError{"open", "Addrs", "holds an invalid address"}
		}
		addrs[i] = a.Unmap()
	}
	if cfg.MTU != 0 && !cfg.MTU.Valid() {
		return nil, nil, nil, &ArgError{"open", "MTU", cfg.MTU.String()}
	}
	l = cfg.Link
	if l == nil {
		if len(addrs) == 0 {
			if addrs, err = DefaultAddrs(); err != nil {
				return nil, nil, nil, &OpenError{Err: err}
			}
		}
		u, err := udp.Open(addrs, cfg.UDP)
		if err != nil {
			return nil, nil, nil, openError(err)
		}
		l = u
	}
	base = l
	if cfg.WrapLink != nil {
		w, err := cfg.WrapLink(l)
		if err != nil {
			return nil, nil, nil, errors.Join(&OpenError{Err: err}, l.Close())
		}
		l = w
	}
	if len(addrs) == 0 {
		addrs = slices.Clone(l.Addrs())
	}
	if len(addrs) == 0 {
		return nil, nil, nil, errors.Join(&ArgError{"open", "Addrs", "no local address"}, l.Close())
	}
	for i, a := range addrs {
		addrs[i] = a.WithZone("") // a GID has none; the link knows the interface
	}
	return l, base, addrs, nil
}

// openError turns an error of the link into one that says what to do.
func openError(err error) error {
	var ue *udp.OpenError
	if errors.As(err, &ue) {
		return &OpenError{Addr: ue.Addr, Hint: ue.Hint, Err: ue.Err}
	}
	return &OpenError{Err: err}
}

// Close ends the device: it destroys everything made on it, lets every waiting
// call return ErrClosed, and returns when nothing of the device runs any more.
// Peers of the communication manager are told once that it is over; others will
// run into their timeouts. A second call waits for the first. The error is that of the link.
func (d *Device) Close() error {
	if d.unmade() {
		return nil
	}
	err := d.s.Close()
	if d.ended.Swap(true) {
		return nil
	}
	return err
}

// unmade reports whether there is nothing to close: the device, that of a zero value, was not
// made by Open.
func (d *Device) unmade() bool { return d == nil || d.s == nil }

func (d *Device) isClosed() bool { return d.unmade() || d.s.Closed() }

// lock takes the lock for a call of the engine. After an error it is not held.
func (d *Device) lock() error {
	if d.unmade() {
		return kind.Zero
	}
	return d.s.Lock()
}

func (d *Device) unlock() { d.s.Unlock() }

// closedErr is ErrClosed, joined with the reason if the link failed.
func (d *Device) closedErr() error {
	if d.unmade() {
		return kind.Zero
	}
	return d.s.ClosedErr()
}

// do runs a command of the engine: f with the lock held, and then whatever the engine
// wants done.
func (d *Device) do(f func(now int64) error) error {
	if d.unmade() {
		return kind.Zero
	}
	return own(d.s.Command(f))
}

// end runs the command that ends an object, and makes the rule of the package comment of what it
// says: there is nothing left to do, and no error, if the object has ended before, or its device.
// what names the object in errors.
func (d *Device) end(what string, f func() error) error {
	err := d.do(func(int64) error { return f() })
	if errors.Is(err, ErrDestroyed) || d.isClosed() {
		return nil
	}
	if op, ok := err.(*OpError); ok {
		op.Op = "close " + what // the engine's word for it is another
	}
	return err
}

// wait is Shard.Wait.
func (d *Device) wait(ctx context.Context, notify <-chan struct{}, tries int) error {
	if d.unmade() {
		return kind.Zero
	}
	return d.s.Wait(ctx, notify, tries)
}

// turn lets the calling goroutine take its turn if the device is on a simulation
// where goroutines do. The caller holds no mutex: others that want it would not be
// seen to wait.
func (d *Device) turn() {
	if !d.unmade() {
		d.s.Turn(nil)
	}
}

// simulatedIOVA is where the addresses of memory begin in such a simulation.
const simulatedIOVA = 0x10_0000_0000

// place gives memory an address of its own where goroutines take turns: its real one is
// another one in each run, and goes over the network. The lock is held.
func (d *Device) place(a *mem.RegionAttr) {
	if !d.s.Scheduled() || a.IOVASet || a.Access&ZeroBased != 0 {
		return
	}
	const page = 4096
	a.IOVA, a.IOVASet = simulatedIOVA+d.placed, true
	d.placed += (uint64(len(a.Bytes))/page + 2) * page // one is between them
}
