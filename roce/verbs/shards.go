package verbs

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// shards are the parts of a device: each has an engine, a link and a lock, and runs independently.
// They share the region table.
type shards struct {
	config shard.Config // of each shard, without Link, Base, Owner and Index
	link   link.Slotted // opens the links of the other shards; nil if there is one shard

	list atomic.Pointer[[]*shard.Shard] // in the order of their Index; replaced, never changed
	next atomic.Uint32                  // see nextVector
	most atomic.Uint32                  // vectors that nextVector takes; 0: all

	// mu guards what follows. It is taken before the lock of any shard.
	mu       sync.Mutex
	of       []*shard.Shard // by completion vector; nil: not asked for yet, or could not be opened
	over     error          // ErrClosed, with the reason, if the device is closing: there will be no more
	failed   bool           // a shard could not be opened
	failedAt int64          // when, on the clock of the first shard
}

// all returns the open shards, in the order of their Index. The caller must not change it.
func (x *shards) all() []*shard.Shard {
	if p := x.list.Load(); p != nil {
		return *p
	}
	return nil
}

// end stops the opening of shards, for a reason or nil, and returns all of them.
func (x *shards) end(reason error) []*shard.Shard {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.over != nil:
	case reason != nil:
		x.over = fmt.Errorf("%w: %w", ErrClosed, reason)
	default:
		x.over = ErrClosed
	}
	return x.all()
}

// vectorsFor returns how many completion vectors a device on a link gets.
func vectorsFor(cfg *Config, l link.Link) int {
	if _, ok := l.(link.Slotted); !ok || l.Capabilities().Slot.Bits == 0 {
		return 1
	}
	if cfg.Shards != 0 {
		return cfg.Shards
	}
	if _, simulated := l.(link.Driven); simulated {
		return 1 // a run must not depend on the machine
	}
	return max(1, min(maxDefaultShards, runtime.GOMAXPROCS(0)/2))
}

// setVectors makes room for n completion vectors; the existing shard is the first.
func (d *Device) setVectors(n int, l link.Link) {
	d.shards.of = make([]*shard.Shard, n)
	d.shards.of[0] = d.s
	if n > 1 {
		d.shards.link = l.(link.Slotted)
	}
}

// CompletionVectors returns how many completion vectors the device has (num_comp_vectors): see
// [CQOptions].
func (d *Device) CompletionVectors() int {
	if d.unmade() {
		return 0
	}
	return len(d.shards.of)
}

// shardOf returns the shard of a completion vector, and opens it at the first call. If that fails,
// the first shard takes its place, and a call after retryShardNs tries again.
func (d *Device) shardOf(vector int) (*shard.Shard, error) {
	s, refused, err := d.findShard(vector)
	if refused != nil {
		d.logState(slog.LevelWarn, "roce: the first shard serves a completion vector, which cannot have its own",
			slog.Int("vector", vector), slog.Any("error", refused))
	}
	return s, err
}

// findShard is shardOf; refused is why opening a shard just failed.
func (d *Device) findShard(vector int) (s *shard.Shard, refused, err error) {
	x := &d.shards
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over != nil {
		return nil, nil, x.over
	}
	if s := x.of[vector]; s != nil {
		return s, nil, nil
	}
	now := d.s.Now()
	if x.failed && now-x.failedAt < retryShardNs {
		return d.s, nil, nil
	}
	l, refused := x.link.Another()
	if refused == nil {
		if x.of[vector], refused = d.addShard(l, l); refused != nil {
			_ = l.Close() // nothing has used it
		}
	}
	if x.failed = refused != nil; x.failed {
		x.failedAt = now
		return d.s, refused, nil
	}
	return x.of[vector], nil, nil
}

// vectorOf returns a completion vector that a shard serves: 0 for the first shard, which may serve
// several.
func (d *Device) vectorOf(s *shard.Shard) int {
	d.shards.mu.Lock()
	defer d.shards.mu.Unlock()
	return max(0, slices.Index(d.shards.of, s))
}

// nextVector takes turns among the completion vectors, for callers that have no preference.
func (d *Device) nextVector() int {
	n := uint32(d.CompletionVectors())
	if most := d.shards.most.Load(); most != 0 {
		n = min(n, most)
	}
	if n < 2 {
		return 0
	}
	return int((d.shards.next.Add(1) - 1) % n)
}

// addShard makes a shard on a link, which wraps base, and starts it. On an error the caller owns
// the link again. shards.mu is held, or no one else has the device.
func (d *Device) addShard(l, base link.Link) (*shard.Shard, error) {
	x := &d.shards
	before := x.all()
	o := &owner{d: d, first: len(before) == 0}
	c := x.config
	c.Link, c.Base, c.Owner, c.Index = l, base, o, len(before)
	s, err := shard.New(c)
	if err != nil {
		return nil, err
	}
	o.s = s
	if o.first {
		d.s = s // the link may report something before Start returns
	}
	after := append(before[:len(before):len(before)], s)
	x.list.Store(&after)
	s.Start()
	return s, nil
}

// quiesce returns when every shard has finished what it was doing at the call: memory that can no
// longer be looked up is then not in use any more. The caller holds no lock of a shard.
func (d *Device) quiesce() {
	for _, s := range d.shards.all() {
		s.LockAlways()
		s.Unlock()
	}
}

// lockShards takes the locks of shards in the order of their Index; set may contain duplicates. On
// an error none is held.
func lockShards(set ...*shard.Shard) (unlock func(), err error) {
	slices.SortFunc(set, func(a, b *shard.Shard) int { return a.Index() - b.Index() })
	set = slices.Compact(set)
	if err := lockAll(set); err != nil {
		return nil, err
	}
	return func() { unlockShards(set) }, nil
}

// lockAll takes the locks of shards that are in order. On an error none is held.
func lockAll(set []*shard.Shard) error {
	for i, s := range set {
		if err := s.Lock(); err != nil {
			unlockShards(set[:i])
			return err
		}
	}
	return nil
}

func unlockShards(set []*shard.Shard) {
	for _, s := range slices.Backward(set) {
		s.Unlock()
	}
}

// lockedReader makes a source of random numbers safe for all shards of a device.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(b)
}

// lockedTracer makes a tracer safe for several engines.
type lockedTracer struct {
	mu sync.Mutex
	t  transport.Tracer
}

func (l *lockedTracer) Trace(e transport.TraceEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Trace(e)
}
