package verbs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/transport"
)

// Device is an RDMA device on a link. See the package comment for how it runs.
type Device struct {
	s      *shard.Shard // the first shard, which has queue pair 1
	table  *mem.Table
	shards shards

	closing    sync.Once
	closeErr   error
	ended      atomic.Bool   // Close has returned the error, if any
	failed     sync.Once     // set off when a link breaks
	linkDowned atomic.Uint64 // how often the interfaces under the link went down
	async      *eventQueue
	logger     *slog.Logger  // nil: none
	placed     atomic.Uint64 // see place

	keptMu sync.Mutex
	kept   map[any]any // what the packages above keep here: access.PerDevice
}

// Open opens a device. The error is an *OpenError that says what to do or, for an invalid option,
// an *ArgError.
func Open(cfg Config) (*Device, error) {
	l, base, addrs, err := openLink(&cfg)
	if err != nil {
		return nil, err
	}
	vectors := vectorsFor(&cfg, l)
	d := &Device{async: newEventQueue(), logger: cfg.Logger}
	random := cfg.Rand
	if s := shard.SchedulerOf(l); random == nil && s != nil {
		random = s.Rand()
	}
	if random == nil {
		random = rand.Reader
	} else {
		// The region table and each shard draw keys under locks of their own.
		random = &lockedReader{r: random}
	}
	if cfg.Tracer != nil && vectors > 1 {
		cfg.Tracer = &lockedTracer{t: cfg.Tracer}
	}
	d.table = mem.NewTable(random, cfg.MemLimits)
	d.shards.config = shard.Config{
		Addrs: addrs, MTU: cfg.MTU, Table: d.table, Rand: random,
		Polling: cfg.Polling, Alone: cfg.alone, Spin: cfg.Spin,
		Engine: transport.Config{Tracer: cfg.Tracer, Tuning: cfg.Tuning},
	}
	if d.s, err = d.addShard(l, base); err != nil {
		return nil, errors.Join(openError(err), l.Close())
	}
	d.setVectors(vectors, l)
	d.logState(slog.LevelInfo, "roce: device opened", slog.String("link", l.Capabilities().Name))
	return d, nil
}

// openLink makes or takes the link and settles the addresses. l is base, possibly wrapped.
func openLink(cfg *Config) (l, base link.Link, addrs []netip.Addr, err error) {
	addrs = slices.Clone(cfg.Addrs)
	for i, a := range addrs {
		if !a.IsValid() {
			return nil, nil, nil, argError("open", "Addrs", "holds an invalid address")
		}
		addrs[i] = a.Unmap()
	}
	if cfg.MTU != 0 && !cfg.MTU.Valid() {
		return nil, nil, nil, argError("open", "MTU", cfg.MTU.String())
	}
	if cfg.Shards < 0 || cfg.Shards > maxShards {
		return nil, nil, nil, argError("open", "Shards", fmt.Sprintf("%d, not 0 to %d", cfg.Shards, maxShards))
	}
	if cfg.Spin > maxSpin {
		return nil, nil, nil, argError("open", "Spin", fmt.Sprintf("%v, at most %v", cfg.Spin, maxSpin))
	}
	if err := cfg.MemLimits.Check(); err != nil {
		return nil, nil, nil, own(err)
	}
	l = cfg.Link
	if l == nil {
		if len(addrs) == 0 {
			if addrs, err = DefaultAddrs(); err != nil {
				return nil, nil, nil, &OpenError{Err: err}
			}
		}
		if l, err = udp.OpenAny(addrs, cfg.UDP); err != nil {
			return nil, nil, nil, openError(err)
		}
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
		return nil, nil, nil, errors.Join(argError("open", "Addrs", "no local address"), l.Close())
	}
	for i, a := range addrs {
		addrs[i] = a.WithZone("") // a GID has no zone; the link knows the interface
	}
	return l, base, addrs, nil
}

// openError turns a link's error into one that says what to do.
func openError(err error) error {
	var ae *ArgError
	if errors.As(err, &ae) {
		return ae
	}
	var oe *OpenError
	if errors.As(err, &oe) {
		return oe
	}
	return &OpenError{Err: err}
}

// Close ends the device: it destroys everything made on it, makes every waiting call return
// ErrClosed, and returns when nothing of the device runs any more. It notifies peers of the
// communication manager once; other peers run into their timeouts. A second call waits for the
// first. The error is that of the link.
func (d *Device) Close() error {
	if d.unmade() {
		return nil
	}
	d.shut(nil)
	if d.ended.Swap(true) {
		return nil
	}
	return d.closeErr
}

// shut closes the device, or waits until another call has. Waiting calls also get the reason,
// unless it is nil.
func (d *Device) shut(reason error) {
	d.closing.Do(func() {
		all := d.shards.end(reason)
		for _, s := range all {
			s.End(reason)
		}
		// Close the first shard last: its communication manager sends the goodbyes, once the others
		// have acknowledged what they received.
		for _, s := range slices.Backward(all) {
			if err := s.Close(); d.closeErr == nil {
				d.closeErr = err
			}
		}
		d.s.LockAlways()
		d.table.Close()
		d.s.Unlock()
		if reason != nil {
			d.logState(slog.LevelWarn, "roce: device closed", slog.Any("error", reason))
			return
		}
		d.logState(slog.LevelInfo, "roce: device closed")
	})
}

// unmade reports whether the device was not made by Open, such as that of a zero value, so that
// there is nothing to close.
func (d *Device) unmade() bool { return d == nil || d.s == nil }

func (d *Device) isClosed() bool { return d.unmade() || d.s.Closed() }

// lock takes the lock for a call of the engine. On an error it is not held.
func (d *Device) lock() error {
	if d.unmade() {
		return access.ErrZero
	}
	return d.s.Lock()
}

func (d *Device) unlock() { d.s.Unlock() }

// closedErr is ErrClosed, with the reason if there is one.
func (d *Device) closedErr() error {
	if d.unmade() {
		return access.ErrZero
	}
	return d.s.ClosedErr()
}

// do runs a command of the first shard's engine: see doOn.
func (d *Device) do(f func(now int64) error) error {
	if d.unmade() {
		return access.ErrZero
	}
	return doOn(d.s, f)
}

// doOn runs a command of an engine: it calls f with the lock of its shard held, and then does
// whatever the engine asks for. s is nil for an object that is a zero value.
func doOn(s *shard.Shard, f func(now int64) error) error {
	if s == nil {
		return access.ErrZero
	}
	return own(s.Command(f))
}

// end is endOn for objects of no particular engine.
func (d *Device) end(what string, f func() error) error {
	if d.unmade() {
		return nil
	}
	return endOn(d.s, what, f)
}

// endOn runs the command that ends an object, and applies the rule of the package comment: ending
// an object that has ended, or whose device has, does nothing and returns nil. what names the
// object in errors.
func endOn(s *shard.Shard, what string, f func() error) error {
	if s == nil {
		return nil
	}
	return endError(s, what, doOn(s, func(int64) error { return f() }))
}

// endMemory is end for commands that revoke access to memory. It first sends everything held back.
// f runs without the lock, because it calls quiesce.
func (d *Device) endMemory(what string, f func() error) error {
	if d.unmade() {
		return nil
	}
	err := d.settle()
	if err == nil {
		err = own(f())
	}
	return endError(d.s, what, err)
}

// endError returns the error to report for an object that ended with err.
func endError(s *shard.Shard, what string, err error) error {
	if errors.Is(err, ErrDestroyed) || s.Closed() {
		return nil
	}
	if op, ok := err.(*OpError); ok {
		op.Op = "close " + what // the engine uses another name
	}
	return err
}

// settle sends what is held back: messages that refer to memory, and acknowledgements for them.
func (d *Device) settle() error {
	if d.unmade() {
		return access.ErrZero
	}
	for _, s := range d.shards.all() {
		if err := doOn(s, func(int64) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// orClosed returns err, the error of a call without the lock, or that the device is closed if that
// is the cause.
func (d *Device) orClosed(err error) error {
	if err != nil && d.isClosed() {
		return d.closedErr()
	}
	return err
}

// wait is Shard.Wait for something that may come by any shard.
func (d *Device) wait(ctx context.Context, notify <-chan struct{}, tries int) error {
	if d.unmade() {
		return access.ErrZero
	}
	return shard.WaitAny(d.shards.all(), ctx, notify, tries)
}

// waitFor is wait for a signal.
func (d *Device) waitFor(ctx context.Context, sig *shard.Signal, tries int) error {
	if all := d.shards.all(); len(all) == 1 {
		return all[0].WaitFor(ctx, sig, tries)
	}
	return d.wait(ctx, sig.C(), tries)
}

// simulatedIOVA is where the addresses of memory begin in a simulation that schedules goroutines.
const simulatedIOVA = 0x10_0000_0000

// place gives memory an address of its own in a simulation that schedules goroutines: its real
// address differs in each run, and would go over the network.
func (d *Device) place(a *mem.RegionAttr) {
	if !d.s.Scheduled() || a.IOVASet || a.Access&ZeroBased != 0 {
		return
	}
	const page = 4096
	size := (uint64(len(a.Bytes))/page + 2) * page // a free page separates regions
	a.IOVA, a.IOVASet = simulatedIOVA+d.placed.Add(size)-size, true
}
