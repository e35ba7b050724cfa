package verbs

import (
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

// shards are what a device consists of: each has an engine, a link and a lock, and moves by
// itself. They share the table of memory.
type shards struct {
	config shard.Config // of each, but for Link, Base, Owner and Index
	link   link.Slotted // opens the links of the others; nil if there is one shard

	list atomic.Pointer[[]*shard.Shard] // in the order of their Index; never changed, but replaced
	next atomic.Uint32                  // see nextVector

	// mu guards what follows. It is taken before the lock of any shard.
	mu       sync.Mutex
	of       []*shard.Shard // by completion vector; nil: nobody has asked for it, or it could not be had
	over     bool           // the device closes: there are no more
	failed   bool           // one could not be had
	failedAt int64          // when, on the clock of the first shard
}

// all returns the shards that are open, in the order of their Index. It is not to be changed.
func (x *shards) all() []*shard.Shard {
	if p := x.list.Load(); p != nil {
		return *p
	}
	return nil
}

// end returns all that there will ever be.
func (x *shards) end() []*shard.Shard {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	return x.all()
}

// vectorsFor returns how many completion vectors a device on a link is to have.
func vectorsFor(cfg *Config, l link.Link) int {
	if _, ok := l.(link.Slotted); !ok || l.Capabilities().Slot.Bits == 0 {
		return 1
	}
	if cfg.Shards != 0 {
		return cfg.Shards
	}
	if _, simulated := l.(link.Driven); simulated {
		return 1 // a run is not to depend on the machine
	}
	return max(1, min(maxDefaultShards, runtime.GOMAXPROCS(0)/2))
}

// setVectors makes room for n completion vectors, of which the first is the shard that there is.
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

// shardOf returns the shard of a completion vector, and opens it when it is asked for the first
// time. If that fails the first shard serves what asks for it, and it is tried again after
// retryShardNs.
func (d *Device) shardOf(vector int) (*shard.Shard, error) {
	s, refused, err := d.findShard(vector)
	if refused != nil {
		d.logState(slog.LevelWarn, "roce: the first shard serves a completion vector, which cannot have its own",
			slog.Int("vector", vector), slog.Any("error", refused))
	}
	return s, err
}

// findShard is shardOf; refused is why a shard could just not be opened.
func (d *Device) findShard(vector int) (s *shard.Shard, refused, err error) {
	x := &d.shards
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return nil, nil, d.closedErr()
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
			_ = l.Close() // nobody has used it
		}
	}
	if x.failed = refused != nil; x.failed {
		x.failedAt = now
		return d.s, refused, nil
	}
	return x.of[vector], nil, nil
}

// vectorOf returns a completion vector that a shard serves: the first shard 0, others one.
func (d *Device) vectorOf(s *shard.Shard) int {
	d.shards.mu.Lock()
	defer d.shards.mu.Unlock()
	return max(0, slices.Index(d.shards.of, s))
}

// nextVector takes turns among the completion vectors, for those who do not care which they get.
func (d *Device) nextVector() int {
	n := uint32(d.CompletionVectors())
	if n < 2 {
		return 0
	}
	return int((d.shards.next.Add(1) - 1) % n)
}

// addShard makes a shard on a link, which wraps base, and sets it going. On an error the link is
// the caller's again. shards.mu is held, or nobody else has the device.
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
		d.s = s // the link may have something to tell before Start returns
	}
	after := append(before[:len(before):len(before)], s)
	x.list.Store(&after)
	s.Start()
	return s, nil
}

// quiesce returns when no shard is in the middle of something that began before: memory that nobody
// finds any more is then in nobody's hands. The caller holds no lock of a shard.
func (d *Device) quiesce() {
	for _, s := range d.shards.all() {
		s.LockAlways()
		s.Unlock()
	}
}

// lockShards takes the locks of shards, of which some may be the same, in the order of their Index.
// After an error none is held.
func lockShards(set ...*shard.Shard) (unlock func(), err error) {
	slices.SortFunc(set, func(a, b *shard.Shard) int { return a.Index() - b.Index() })
	set = slices.Compact(set)
	if err := lockAll(set); err != nil {
		return nil, err
	}
	return func() { unlockShards(set) }, nil
}

// lockAll takes the locks of shards that are in order. After an error none is held.
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

// lockedReader is a source of random numbers for all locks of a device.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(b)
}

// lockedTracer is a tracer of several engines.
type lockedTracer struct {
	mu sync.Mutex
	t  transport.Tracer
}

func (l *lockedTracer) Trace(e transport.TraceEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Trace(e)
}
