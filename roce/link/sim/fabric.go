package sim

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
)

// Config describes a fabric. The zero value is a fast, loss-free network with 1 us from host to
// switch and from switch to host.
type Config struct {
	Seed     uint64
	Up, Down Pipe   // of every host; a zero Latency is 1 us, negative is 0
	Faults   Faults // between all pairs
	MTU      ib.MTU // 0 is 4096

	// BufferBytes is the packet buffer of the switch, which the queues of all Down pipes share; 0
	// is unlimited. A queue may have BufferShare times the free part of it; 0 is 1.
	BufferBytes int
	BufferShare float64

	PFC PFC // pauses in place of drops

	// Shuffle makes the seed choose which of the goroutines that can go on is next, rather than the
	// one that has waited longest, in a simulation whose goroutines take turns: see [Test].
	Shuffle bool
}

const defaultLatency = time.Microsecond

// Faults says what goes wrong between two addresses, in one direction. Probabilities apply to each
// packet.
type Faults struct {
	Loss         float64
	Burst        float64 // packets that a loss takes on average, if more than 1; Loss stays the share
	Duplicate    float64
	Corrupt      float64       // one bit of the UDP payload flips
	Reorder      float64       // the packet is held back by ReorderDelay
	ReorderDelay time.Duration // 0 is 20 us
	Jitter       time.Duration // uniform delay in [0, Jitter)
}

const defaultReorderDelay = 20 * time.Microsecond

// Stats counts what the fabric did to packets.
type Stats struct {
	Sent, Delivered                      uint64
	Lost, Duplicated, Corrupted, Delayed uint64
	Overflowed                           uint64 // queue full
	Pauses                               uint64 // pause frames
	Partitioned                          uint64
	Unreachable                          uint64 // no such host
	Marked                               uint64 // CE
}

// Fabric is a virtual network. See the package comment.
type Fabric struct {
	// drive is held while an event happens, so that events happen one at a time.
	drive sync.Mutex

	// mu guards the rest; it is not held while devices run.
	mu      sync.Mutex
	cfg     Config
	now     int64
	seq     uint64
	events  eventHeap
	rng     *rand.Rand
	seeds   *rand.ChaCha8
	hosts   map[netip.Addr]*node
	left    map[netip.Addr]bool          // once had a host
	groups  map[netip.Addr]map[*Link]int // multicast members, with the number of joins
	order   []*node                      // in the order in which they joined, for multicast
	faults  map[[2]netip.Addr]Faults
	bursts  map[[2]netip.Addr]bool // a burst of losses goes on
	cut     map[[2]netip.Addr]bool
	routes  map[[2]netip.Addr][]*Trunk
	changed chan struct{} // closed at the next new event; nil if not asked for
	free    []*packet
	stats   Stats

	clock      clock      // nil: see Step
	sched      *scheduler // of a Test
	transcript transcript
}

// clock lets time pass by itself: a scheduler, or the threads of a test of the shell.
type clock interface {
	now() int64
	wake() // there is a new event
}

// New makes a fabric without hosts.
func New(cfg Config) *Fabric {
	if cfg.MTU == 0 {
		cfg.MTU = ib.MTU4096
	}
	if cfg.BufferShare == 0 {
		cfg.BufferShare = 1
	}
	for _, p := range []*Pipe{&cfg.Up, &cfg.Down} {
		switch {
		case p.Latency == 0:
			p.Latency = defaultLatency
		case p.Latency < 0:
			p.Latency = 0
		}
	}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], cfg.Seed)
	return &Fabric{
		cfg:    cfg,
		rng:    rand.New(rand.NewPCG(cfg.Seed, 0x9E3779B97F4A7C15)),
		seeds:  rand.NewChaCha8(seed),
		hosts:  make(map[netip.Addr]*node),
		left:   make(map[netip.Addr]bool),
		groups: make(map[netip.Addr]map[*Link]int),
		faults: make(map[[2]netip.Addr]Faults),
		bursts: make(map[[2]netip.Addr]bool),
		cut:    make(map[[2]netip.Addr]bool),
		routes: make(map[[2]netip.Addr][]*Trunk),
	}
}

// Link attaches a host with the given addresses and the pipes of the configuration.
func (f *Fabric) Link(addrs ...netip.Addr) (*Link, error) {
	return f.LinkWith(f.cfg.Up, f.cfg.Down, addrs...)
}

// LinkWith attaches a host with pipes of its own.
func (f *Fabric) LinkWith(up, down Pipe, addrs ...netip.Addr) (*Link, error) {
	if len(addrs) == 0 {
		return nil, fmt.Errorf("sim: a link needs an address")
	}
	f.lock()
	defer f.mu.Unlock()
	h := &node{f: f, up: pipeState{Pipe: up, since: f.now}, down: pipeState{Pipe: down, egress: true, since: f.now}}
	for _, a := range addrs {
		a = a.Unmap()
		if !a.IsValid() || a.IsMulticast() || a.IsUnspecified() {
			return nil, fmt.Errorf("sim: %v is not a unicast address", a)
		}
		if f.hosts[a] != nil {
			return nil, fmt.Errorf("sim: address %v is taken", a)
		}
		h.addrs = append(h.addrs, a)
	}
	for _, a := range h.addrs {
		f.hosts[a] = h
	}
	f.order = append(f.order, h)
	return h.newLink(0), nil
}

// Rand returns a new source of random bytes that depends on the seed and on how many sources were
// taken before; for verbs.Config.Rand.
func (f *Fabric) Rand() io.Reader {
	f.lock()
	defer f.mu.Unlock()
	var seed [32]byte
	_, _ = f.seeds.Read(seed[:])
	return rand.NewChaCha8(seed)
}

// SetFaults sets the faults from one address to another from now on, in place of Config.Faults.
func (f *Fabric) SetFaults(from, to netip.Addr, x Faults) {
	f.lock()
	defer f.mu.Unlock()
	f.faults[[2]netip.Addr{from, to}] = x
}

// Partition cuts two addresses off from each other or, with on false, joins them again. Packets
// under way are lost.
func (f *Fabric) Partition(a, b netip.Addr, on bool) {
	f.lock()
	defer f.mu.Unlock()
	f.cut[[2]netip.Addr{a, b}] = on
	f.cut[[2]netip.Addr{b, a}] = on
}

// Now returns the virtual time in nanoseconds, 0 at the start.
func (f *Fabric) Now() int64 {
	f.lock()
	defer f.mu.Unlock()
	return f.now
}

// Stats returns the counters.
func (f *Fabric) Stats() Stats {
	f.lock()
	defer f.mu.Unlock()
	return f.stats
}

// At makes the fabric call fn at a time, or at once if it has passed. fn may use devices but must
// not wait or step the fabric.
func (f *Fabric) At(at int64, fn func()) {
	f.lock()
	defer f.mu.Unlock()
	f.push(event{at: max(at, f.now), kind: callback, fn: fn})
}

// lock takes mu, and updates the time.
func (f *Fabric) lock() {
	f.mu.Lock()
	if f.clock != nil {
		f.now = max(f.now, f.clock.now())
	}
}

// push adds an event; mu is held.
func (f *Fabric) push(e event) {
	f.seq++
	e.seq = f.seq
	f.events.push(e)
	if f.clock != nil {
		f.clock.wake()
	}
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// changes returns a channel that is closed when an event is added.
func (f *Fabric) changes() <-chan struct{} {
	f.lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// Step lets the next event happen. It returns false if there is none. It panics in a [Test], where
// events happen by themselves.
func (f *Fabric) Step() bool {
	f.byHand()
	return f.step(1<<63 - 1)
}

// byHand panics if the caller must not step.
func (f *Fabric) byHand() {
	if f.clock != nil {
		panic("sim: in a Test the fabric steps by itself: wait for something, or sleep")
	}
}

// step is Step up to a time.
func (f *Fabric) step(limit int64) bool {
	f.drive.Lock()
	defer f.drive.Unlock()
	f.lock()
	if e := f.first(); e == nil || e.at > limit {
		f.mu.Unlock()
		return false
	}
	e := f.events.pop()
	f.now = max(f.now, e.at)
	run := f.happen(&e)
	f.mu.Unlock()
	if run != nil {
		run()
	}
	return true
}

// first returns the next event without removing it, or nil. mu is held.
func (f *Fabric) first() *event {
	for len(f.events) > 0 {
		e := &f.events[0]
		if e.kind != timer || e.link.due(e) {
			return e
		}
		// The timer was moved or stopped: time does not pass for it.
		old := f.events.pop()
		old.link.outdated(&old)
	}
	return nil
}

// next returns when the next event happens, and whether there is one.
func (f *Fabric) next() (int64, bool) {
	f.lock()
	defer f.mu.Unlock()
	if e := f.first(); e != nil {
		return e.at, true
	}
	return 0, false
}

// happen carries out an event and returns a function to call without the lock.
func (f *Fabric) happen(e *event) func() {
	switch e.kind {
	case atSwitch:
		f.route(e.pkt)
		return nil
	case atHost:
		return f.deliver(e.host, e.pkt)
	case departs:
		e.pipe.mark(f, e.pipe.queued(f.now), e.pkt)
		f.push(event{at: f.now + e.after, kind: e.next, host: e.host, pkt: e.pkt})
		return nil
	case leaves:
		e.pipe.left(f, e)
		return nil
	case timer:
		e.link.entered = 0
		e.link.timerSet = false // the device sets it again
		return e.link.progress
	}
	return e.fn
}

// Run steps until done returns true or no event is left, and returns the last result of done. It is
// not for a [Test].
func (f *Fabric) Run(done func() bool) bool {
	for !done() {
		if !f.Step() {
			return done()
		}
	}
	return true
}

// RunFor lets virtual time pass.
func (f *Fabric) RunFor(d time.Duration) {
	if f.clock != nil {
		time.Sleep(d)
		f.turn(nil)
		return
	}
	end := f.Now() + int64(d)
	for f.step(end) {
	}
	f.pass(end)
}

// pass lets the time up to end pass, in which nothing happens.
func (f *Fabric) pass(end int64) {
	f.lock()
	defer f.mu.Unlock()
	f.now = max(f.now, end)
}
