package roce

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/transport"
)

// mode is who makes a device move.
type mode uint8

const (
	modeEvent   mode = iota // a goroutine of the device
	modePolling             // whoever polls or waits
	modeDriven              // whoever waits, through the simulation
)

// Device is an RDMA device on a link. See the package comment for how it runs.
type Device struct {
	mode      mode
	link      link.Link
	driven    link.Driven    // modeDriven only
	sched     link.Scheduler // nil: goroutines do not take turns
	placed    uint64         // see place; under mu
	addrs     []netip.Addr
	mtu       ib.MTU
	cmGUID    uint64 // of this opening of the device
	rand      io.Reader
	memLimits mem.Limits
	spinNs    int64
	credits   bool // Tuning.EndToEndCredits

	// mu guards the engine, the table of memory, and the sending side of the
	// link.
	mu       sync.Mutex
	eng      *transport.Engine
	table    *mem.Table
	tx       []transport.TxPacket
	shut     bool    // under mu: no more calls into the engine
	blocked  bool    // under mu: the loop is in link.Wait, or about to
	wakeTime int64   // under mu: when the loop returns from link.Wait by itself
	hold     ackHold // under mu
	join     joinedPosts
	yield    yielder
	cm       *cmAgent // under mu: nil until the communication manager is used
	alarms   alarmClock

	// rxMu guards the receiving side of the link.
	rxMu    sync.Mutex
	rx      []transport.RxPacket
	horizon horizon     // under rxMu
	marker  link.Marker // of the link; nil if it is none

	// nextTimer is when the engine's next timer is due; math.MaxInt64 for none.
	nextTimer atomic.Int64

	// port is the state of the interfaces under the link; nil if it does not say.
	port       atomic.Pointer[link.PortState]
	linkDowned atomic.Uint64 // times that they went down

	async    *eventQueue
	closing  sync.Once
	closed   chan struct{} // closed when Close begins
	loopDone chan struct{} // closed when the goroutine has ended
	closeErr error
	fatalErr atomic.Pointer[error] // why the link failed
}

// Open opens a device. The error is an *OpenError that says what to do, or
// about an attribute an *ArgError.
func Open(cfg Config) (*Device, error) {
	d := &Device{
		addrs:    slices.Clone(cfg.Addrs),
		rand:     cfg.Rand,
		closed:   make(chan struct{}),
		loopDone: make(chan struct{}),
		async:    newEventQueue(),
		tx:       make([]transport.TxPacket, txBatch),
		rx:       make([]transport.RxPacket, rxBatch),
		spinNs:   cfg.UDP.SpinNs,
		credits:  cfg.Tuning.EndToEndCredits,
	}
	if d.spinNs == 0 {
		d.spinNs = defaultSpinNs
	}
	if err := d.openLink(&cfg); err != nil {
		return nil, err
	}
	switch {
	case d.rand != nil:
	case d.sched != nil:
		d.rand = d.sched.Rand()
	default:
		d.rand = rand.Reader
	}
	if err := d.start(&cfg); err != nil {
		return nil, errors.Join(err, d.link.Close())
	}
	return d, nil
}

// openLink makes or takes the link, and settles addresses and MTU.
func (d *Device) openLink(cfg *Config) error {
	for i, a := range d.addrs {
		if !a.IsValid() {
			return &ArgError{"open", "Addrs", "holds an invalid address"}
		}
		d.addrs[i] = a.Unmap()
	}
	if cfg.MTU != 0 && !cfg.MTU.Valid() {
		return &ArgError{"open", "MTU", cfg.MTU.String()}
	}
	d.link = cfg.Link
	if d.link == nil {
		if len(d.addrs) == 0 {
			var err error
			if d.addrs, err = DefaultAddrs(); err != nil {
				return &OpenError{Err: err}
			}
		}
		l, err := udp.Open(d.addrs, cfg.UDP)
		if err != nil {
			return openError(err)
		}
		d.link = l
	}
	if cfg.WrapLink != nil {
		l, err := cfg.WrapLink(d.link)
		if err != nil {
			return errors.Join(&OpenError{Err: err}, d.link.Close())
		}
		d.link = l
	}
	if len(d.addrs) == 0 {
		d.addrs = d.link.Addrs()
	}
	if len(d.addrs) == 0 {
		return errors.Join(&ArgError{"open", "Addrs", "no local address"}, d.link.Close())
	}
	for i, a := range d.addrs {
		d.addrs[i] = a.WithZone("") // a GID has none; the link knows the interface
	}
	d.mtu = cfg.MTU
	if max := d.link.MTU(); d.mtu == 0 || d.mtu > max {
		d.mtu = max
	}
	d.marker, _ = link.As[link.Marker](d.link)
	switch drv, ok := link.As[link.Driven](d.link); {
	case ok:
		d.mode, d.driven = modeDriven, drv
		if s, ok := link.As[link.Scheduler](d.link); ok && s.Scheduled() {
			d.sched = s
		}
	case cfg.Polling:
		d.mode = modePolling
	}
	return nil
}

// openError turns an error of the link into one that says what to do.
func openError(err error) error {
	var ue *udp.OpenError
	if errors.As(err, &ue) {
		return &OpenError{Addr: ue.Addr, Hint: ue.Hint, Err: ue.Err}
	}
	return &OpenError{Err: err}
}

// start makes the engine and sets the device going.
func (d *Device) start(cfg *Config) error {
	// Peers take requests of a device that was opened anew, and knows nothing of its
	// connections, for those of another.
	var guid [8]byte
	if _, err := io.ReadFull(d.rand, guid[:]); err != nil {
		return &OpenError{Err: err, Hint: "the source of random numbers failed"}
	}
	guid[0] = guid[0]&^1 | 2 // local, individual
	d.cmGUID = binary.BigEndian.Uint64(guid[:])
	d.table = mem.NewTable(d.rand, cfg.MemLimits)
	d.memLimits = d.table.Limits()
	d.nextTimer.Store(math.MaxInt64)
	var err error
	d.eng, err = transport.New(transport.Config{
		GIDs: d.addrs, MTU: d.mtu, Mem: d.table, Rand: d.rand, Tracer: cfg.Tracer, Tuning: cfg.Tuning,
		Room: d.link.Capabilities().Room,
	})
	if err != nil {
		return &OpenError{Err: err}
	}
	if w, ok := link.As[link.Watcher](d.link); ok {
		w.Watch(d.portChanged)
	}
	switch d.mode {
	case modeEvent:
		go d.loop()
	case modeDriven:
		close(d.loopDone)
		d.driven.Attach(d.drivenProgress)
	default:
		close(d.loopDone)
	}
	return nil
}

// Close ends the device: it destroys everything made on it, lets every waiting
// call return ErrClosed, and returns when nothing of the device runs any more.
// Peers of the communication manager are told once that it is over; others will
// run into their timeouts. Closing again does nothing and returns the same.
func (d *Device) Close() error {
	if d.unmade() {
		return errZero
	}
	d.closing.Do(func() {
		close(d.closed)
		d.link.Wake()
		<-d.loopDone
		if d.driven != nil {
			d.driven.Attach(nil)
		}
		// Nobody receives any more, and after this nobody sends.
		d.rxMu.Lock()
		d.mu.Lock()
		d.settle(d.link.Now())
		if d.cm != nil {
			d.cm.shutdown()
		}
		d.shut = true
		if d.hold.guard != nil {
			d.hold.guard.Stop()
		}
		d.table.Close()
		d.closeErr = d.link.Close()
		d.mu.Unlock()
		d.rxMu.Unlock()
		d.endAlarms()
	})
	return d.closeErr
}

// portChanged takes notice of the interfaces under the link.
func (d *Device) portChanged(s link.PortState) {
	old := d.port.Swap(&s)
	if old == nil {
		return
	}
	if d.mtuOf(old) != d.mtuOf(&s) {
		d.async.push(Event{Type: EventPortMTU})
	}
	switch {
	case old.Up == s.Up:
	case s.Up:
		d.async.push(Event{Type: EventPortActive})
	default:
		d.linkDowned.Add(1)
		d.async.push(Event{Type: EventPortError})
	}
}

// activeMTU is the largest path MTU for new connections.
func (d *Device) activeMTU() ib.MTU { return d.mtuOf(d.port.Load()) }

// mtuOf is what a state of the port leaves of the MTU that the device was opened with.
func (d *Device) mtuOf(s *link.PortState) ib.MTU {
	if s == nil {
		return d.mtu
	}
	return min(d.mtu, max(s.MTU, ib.MTU256)) // if even that does not pass, the link says so
}

// unmade reports whether there is nothing to close: the device, that of a zero value, was not
// made by Open.
func (d *Device) unmade() bool { return d == nil || d.eng == nil }

func (d *Device) isClosed() bool {
	if d.unmade() {
		return true
	}
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

// lock takes the lock for a call of the engine. After an error it is not held.
func (d *Device) lock() error {
	if d.unmade() {
		return errZero
	}
	d.mu.Lock()
	// Closed comes before shut: whoever was told that the device is closed is
	// not to find it half open.
	if d.shut || d.isClosed() {
		d.mu.Unlock()
		return d.closedErr()
	}
	return nil
}

// closedErr is ErrClosed, joined with the reason if the link failed.
func (d *Device) closedErr() error {
	if d.unmade() {
		return errZero
	}
	if p := d.fatalErr.Load(); p != nil {
		return errors.Join(ErrClosed, *p)
	}
	return ErrClosed
}

// do runs f with the lock held, and then whatever the engine wants done.
func (d *Device) do(f func(now int64) error) error {
	if err := d.lock(); err != nil {
		return err
	}
	defer d.mu.Unlock()
	now := d.link.Now()
	d.settle(now)
	err := f(now)
	d.flush(now)
	return own(err)
}

// settle sends all that waits for something else to be sent, before a command that
// may end a queue pair: acknowledgements that are held or being gathered above all. Of
// what they acknowledge the application knows already, and may close for that
// reason; its peer must not take that for a failure. mu is held.
func (d *Device) settle(now int64) {
	if d.hold.held.Load() {
		d.releaseHold(now)
		return
	}
	d.drain(now)
}
