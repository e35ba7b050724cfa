package shard

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/edge"
)

// Mode says what runs a shard.
type Mode uint8

// The modes.
const (
	EventDriven Mode = iota // a goroutine of the shard, until somebody polls all the time
	Polling                 // the goroutine that polls or waits, until nobody does
	Driven                  // the goroutine that waits, through the simulation
)

// Owner receives the reports of the engine and the link. Its methods do not block.
type Owner interface {
	// Completed is called with the lock held when a queue that was armed has a
	// completion, unless it is the service's.
	Completed(*transport.CQ)
	// Event is called with the lock held, for all other events of the engine.
	Event(transport.Event)
	// PortChanged tells of the interfaces under the link. before is nil the first time.
	PortChanged(before, now *link.PortState)
	// Failed tells that the link is broken: what was made of it is to be closed.
	Failed(error)
	// Close closes what Failed told of. It is called without locks, and may wait.
	Close()
}

// Service owns queue pair 1. It is the user data of its completion queue. All its methods are
// called with the lock held.
type Service interface {
	Completed()                // its completion queue, which was armed, has something
	Ready() bool               // there is something to take in or to hand out
	Run(now int64)             // does it
	Expire(now, horizon int64) // runs the timers that were due at horizon
	NextTimeout() int64        // math.MaxInt64 for none
	Failed()                   // the link is broken: Shutdown follows
	Shutdown(now int64)        // the last call
	// Returned takes a datagram to queue pair 1 of a peer that has come back: see link.Link.
	Returned(now int64, b edge.Returned)
}

// Config is what a shard is made of.
type Config struct {
	Link    link.Link // the shard closes it
	Addrs   []netip.Addr
	MTU     ib.MTU // 0, and anything larger: what the link carries
	Table   *mem.Table
	Rand    io.Reader
	Base    link.Link // Link, or what is below its middlewares
	Polling bool
	Alone   bool          // with Polling, for tests: the goroutine never takes over
	Spin    time.Duration // 0 is the default, negative none
	Owner   Owner
	Index   int              // of the shards of a device
	Engine  transport.Config // Addrs, MTU, Mem, Rand and Room are filled in
}

// Shard is one engine on one link.
type Shard struct {
	index   int
	mode    Mode
	link    link.Link
	slotted link.Slotted
	driven  link.Driven    // Driven only
	sched   link.Scheduler // nil: goroutines do not take turns
	// pollable is the link if threads can sleep on its descriptors, or nil.
	pollable link.Pollable
	addrs    []netip.Addr
	mtu      ib.MTU
	rand     io.Reader
	guid     [8]byte
	spin     spinTime
	credits  bool // Tuning.EndToEndCredits
	owner    Owner
	machine  machine

	// mu guards the engine and the sending side of the link.
	mu          sync.Mutex
	eng         *transport.Engine
	table       *mem.Table
	tx          []transport.TxPacket
	txUsed      int         // places of tx that refer to something: see forgetSent
	shut        bool        // under mu: no more calls into the engine
	blocked     bool        // under mu: the loop is in link.Wait, or about to
	wakeTime    int64       // under mu: when the loop returns from link.Wait by itself
	woke        bool        // under mu: the packets being handled were waited for
	expectReply func() bool // wokeSomeone
	ack         delayedAck
	keeper      keeper
	posts       coalescer
	service     Service // nil until there is one
	yield       yielder
	slices      slices
	lease       lease       // under mu
	leaseOver   bool        // under rxMu: the goroutine in the seat is to call the keeper
	lendsTo     *Signal     // under rxMu: to whom the keeper is to leave the seat
	foreign     atomic.Bool // see ServeForeign
	threads     atomic.Bool // see SleeperSignal
	standby     standby
	poller      poller
	alarms      alarmClock
	up          upcalls

	seatMu  sync.Mutex
	seat    seat
	heir    atomic.Pointer[Signal] // that of the seat; changed under seatMu
	waiting atomic.Int32           // goroutines in WaitFor

	// rxMu guards the receiving side of the link.
	rxMu     sync.Mutex
	rx       []transport.RxPacket
	horizon  horizon // under rxMu
	watched  watched // under rxMu
	received int     // packets of the last progress; under rxMu
	answered bool    // all packets of the last progress were answers; under rxMu, of a shard that serves foreigners
	linger   linger
	pace     pace      // under rxMu
	marker   link.Link // the link; nil if it is driven
	// unverified is the link if it leaves checks to the engine: the outermost, since a middleware
	// looks at packets.
	unverified link.Unverified
	checker    transport.Checker // unverified, or nil

	// nextTimer is when the engine's next timer is due; math.MaxInt64 for none.
	nextTimer atomic.Int64

	port     atomic.Pointer[link.PortState] // nil if the link does not say
	ending   sync.Once
	closing  sync.Once
	closed   chan struct{} // closed when End is called
	ended    atomic.Bool   // the same, for who may be in another bubble of testing/synctest
	closeErr error
	fatalErr atomic.Pointer[error] // why the link failed, or the device is closed
}

// New makes a shard, which Start sets going. On an error the link is the caller's again.
func New(c Config) (*Shard, error) {
	s := &Shard{
		index: c.Index, link: c.Link, machine: machineOf(c.Link), addrs: c.Addrs, mtu: c.MTU, rand: c.Rand,
		table: c.Table, owner: c.Owner, spin: spinTimeOf(c.Spin), credits: c.Engine.Tuning.EndToEndCredits,
		closed: make(chan struct{}), tx: make([]transport.TxPacket, 2*rxBatch), rx: make([]transport.RxPacket, rxBatch),
	}
	if max := s.link.MTU(); s.mtu == 0 || s.mtu > max {
		s.mtu = max
	}
	switch drv, ok := link.As[link.Driven](s.link); {
	case ok:
		s.mode, s.driven = Driven, drv
		s.sched = SchedulerOf(s.link)
	case c.Polling:
		s.mode = Polling
	}
	if s.mode != Driven { // a simulation has handed up everything when Recv returns 0
		s.marker = s.link
	}
	if u, ok := s.link.(link.Unverified); ok {
		s.unverified, s.checker = u, u
	}
	s.pollable, _ = s.link.(link.Pollable)
	s.keeper.off.Store(c.Alone)
	s.expectReply = s.wokeSomeone
	s.nextTimer.Store(math.MaxInt64)
	if _, err := io.ReadFull(s.rand, s.guid[:]); err != nil {
		return nil, fmt.Errorf("the source of random numbers failed: %w", err)
	}
	s.guid[0] = s.guid[0]&^1 | 2 // local, individual
	ec := c.Engine
	ec.GIDs, ec.MTU, ec.Mem, ec.Rand, ec.Room = s.addrs, s.mtu, s.table, s.rand, s.link.Capabilities().Room
	ec.Slot, ec.GSO = s.Slot(), s.link.Capabilities().GSO
	s.slotted = slottedOf(c.Link, c.Base)
	var err error
	if s.eng, err = transport.New(ec); err != nil {
		return nil, err
	}
	return s, nil
}

// Start sets the shard going. It is called once.
func (s *Shard) Start() {
	s.link.Watch(s.portChanged)
	if s.mode == Driven {
		s.driven.Attach(s.drive)
		return
	}
	s.keep()
}

// SchedulerOf returns the scheduler of a simulation in which goroutines take turns; nil
// if the link is none.
func SchedulerOf(l link.Link) link.Scheduler {
	if s, ok := link.As[link.Scheduler](l); ok && s.Scheduled() {
		return s
	}
	return nil
}

// End begins to close the shard: every waiting call returns [ErrClosed], with the reason unless
// that is nil. Of several shards each ends before the first of them closes, so that a goroutine
// that learns that one is closed finds none of them open.
func (s *Shard) End(reason error) {
	s.ending.Do(func() {
		if reason != nil {
			s.fatalErr.CompareAndSwap(nil, &reason)
		}
		s.ended.Store(true)
		close(s.closed)
		s.dismiss()
		s.link.Wake()
	})
}

// Fail ends the shards of a device whose link is broken. What the queue pairs had left to do is
// flushed with the locks of all held. A call that finds a shard closed looks once more after
// Barrier, and sees what was flushed. The shards are in the order of their Index.
func Fail(all []*Shard, reason error) {
	for _, s := range all {
		s.mu.Lock()
		s.fatalErr.CompareAndSwap(nil, &reason)
		s.ended.Store(true)
	}
	for _, s := range all {
		if s.shut {
			continue
		}
		s.eng.Fail(s.link.Now())
		if s.service != nil {
			s.service.Failed()
		}
		s.handOut()
	}
	for _, s := range all {
		s.End(nil)
		s.mu.Unlock()
	}
}

// Close ends the shard; nothing of it runs after Close returns. The service may send its peers a
// last message. Closing again does nothing and returns the same. The table of memory is left to the
// caller, since it may have other users.
func (s *Shard) Close() error {
	s.End(nil)
	s.closing.Do(func() {
		s.keeper.stop()
		if s.driven != nil {
			s.driven.Attach(nil)
		}
		// Nobody receives any more, and after this nobody sends.
		s.machine.Lock(&s.rxMu)
		s.mu.Lock()
		s.eng.AcknowledgeAll()
		s.Settle(s.link.Now())
		if s.service != nil {
			s.service.Shutdown(s.link.Now())
		}
		s.shut = true
		s.forgetWatch()
		s.closeErr = s.link.Close()
		s.mu.Unlock()
		s.rxMu.Unlock()
		s.endAlarms()
		s.lapse(math.MaxInt64)
	})
	return s.closeErr
}

// Lock takes the lock for calls of the engine. After an error it is not held.
func (s *Shard) Lock() error {
	s.mu.Lock()
	// Closed comes before shut: a caller that was told that the shard is closed is not
	// to find it half open.
	if s.shut || s.Closed() {
		s.mu.Unlock()
		return s.ClosedErr()
	}
	return nil
}

// LockAlways takes the lock even if the shard is closed, for calls that only read.
func (s *Shard) LockAlways() { s.mu.Lock() }

// Unlock gives the lock back.
func (s *Shard) Unlock() { s.mu.Unlock() }

// Command runs f with the lock held, after all that was held back was sent, and then
// does what the engine wants done.
func (s *Shard) Command(f func(now int64) error) error {
	if err := s.Lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := s.link.Now()
	s.Settle(now)
	err := f(now)
	s.Flush(now)
	return err
}

// Closed reports whether End was called.
func (s *Shard) Closed() bool { return s.ended.Load() }

// Barrier reports whether the shard has ended. If so, what [Fail] has to hand out is handed out,
// and the caller looks again.
func (s *Shard) Barrier() bool {
	if !s.Closed() {
		return false
	}
	s.LockAlways() // Fail holds it meanwhile
	s.Unlock()
	return true
}

// Done is closed when End is called.
func (s *Shard) Done() <-chan struct{} { return s.closed }

// ClosedErr is ErrClosed, with the reason if there is one, such as that the link has failed.
func (s *Shard) ClosedErr() error {
	if p := s.fatalErr.Load(); p != nil {
		return fmt.Errorf("%w: %w", ErrClosed, *p)
	}
	return ErrClosed
}

// Engine returns the engine. It is used with the lock held.
func (s *Shard) Engine() *transport.Engine { return s.eng }

// Table returns the table of memory, which has a lock of its own.
func (s *Shard) Table() *mem.Table { return s.table }

// Link returns the link.
func (s *Shard) Link() link.Link { return s.link }

// Now returns the time on the clock of the link, ns.
func (s *Shard) Now() int64 { return s.link.Now() }

// Rand returns the source of random numbers. It is used with the lock held.
func (s *Shard) Rand() io.Reader { return s.rand }

// GUID returns a number that is new each time the device is opened. The device then knows nothing
// of its earlier connections, and peers take its requests for those of another device.
func (s *Shard) GUID() uint64 { return binary.BigEndian.Uint64(s.guid[:]) }

// Index is the place among the shards of a device. The first has queue pair 1. Callers take the
// locks of several shards in this order.
func (s *Shard) Index() int { return s.index }

// Mode says what makes the shard move.
func (s *Shard) Mode() Mode { return s.mode }

// Ticks reports whether time passes by itself: in a simulation that is driven by the
// goroutines that wait it does not.
func (s *Shard) Ticks() bool { return s.driven == nil || s.sched != nil }

// Scheduled reports whether goroutines take turns.
func (s *Shard) Scheduled() bool { return s.sched != nil }

// Addrs returns the local addresses, in the order of the GID table. They are not to be changed.
func (s *Shard) Addrs() []netip.Addr { return s.addrs }

// AddrIndex returns the index of a local address, -1 if it is none.
func (s *Shard) AddrIndex(a netip.Addr) int {
	for i, l := range s.addrs {
		if l.WithZone("") == a {
			return i
		}
	}
	return -1
}

// SetService makes something the owner of queue pair 1. The lock is held.
func (s *Shard) SetService(v Service) { s.service = v }

// Service returns what has queue pair 1; nil if nothing has. The lock is held.
func (s *Shard) Service() Service { return s.service }

// MTU is the path MTU that the shard was made for.
func (s *Shard) MTU() ib.MTU { return s.mtu }

// ActiveMTU is the largest path MTU for new connections.
func (s *Shard) ActiveMTU() ib.MTU { return s.MTUOf(s.port.Load()) }

// MTUOf is what a state of the port leaves of MTU.
func (s *Shard) MTUOf(p *link.PortState) ib.MTU {
	if p == nil {
		return s.mtu
	}
	return min(s.mtu, max(p.MTU, ib.MTU256)) // if even that does not pass, the link says so
}

// Up reports whether packets can be sent: the shard is open and, if the link follows
// them, its interfaces are up.
func (s *Shard) Up() bool {
	p := s.port.Load()
	return !s.Closed() && (p == nil || p.Up)
}

// portChanged takes notice of the interfaces under the link.
func (s *Shard) portChanged(p link.PortState) {
	s.owner.PortChanged(s.port.Swap(&p), &p)
}
