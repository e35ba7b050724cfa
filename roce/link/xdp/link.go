package xdp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/raw"
	"github.com/goroce/goroce/roce/link/internal/rtnl"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"golang.org/x/sys/unix"
)

const needsHint = "the xdp link needs CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW: run as root, or setcap cap_net_admin,cap_bpf,cap_net_raw+ep on the program, or use the udp link, which needs nothing"

// Link is the xdp link; see the package comment. It implements [link.Link],
// [link.Multicaster] and [link.Watcher].
type Link struct {
	opts    Options
	port    uint16
	start   time.Time
	addrs   []netip.Addr
	ifIndex []int       // of addrs, same order
	holds   []*raw.Hold // of addrs, same order
	hops    *nexthop.Table
	state   raw.Port

	ifaces  []*iface
	byIndex map[int]*iface
	names   string // of the modes

	tx sender
	rx receiver

	waker  *sockio.Waker
	woken  atomic.Bool // as long as the waker is; for those who spin
	closed atomic.Bool
	failed atomic.Pointer[error] // the UMEM is not to be trusted any more

	// mu guards groups, and what Close takes away from those who may be there
	// at the same time.
	mu     sync.Mutex
	groups map[membership]int // joins
	gone   bool
}

var (
	_ link.Link        = (*Link)(nil)
	_ link.Multicaster = (*Link)(nil)
	_ link.Watcher     = (*Link)(nil)
)

// Open attaches to the interfaces of the addresses. The error is an *OpenError
// that says what to do.
func Open(o Options) (*Link, error) {
	l := &Link{
		opts: o, port: cmp.Or(o.Port, ib.UDPPort), start: time.Now(), addrs: slices.Clone(o.Addrs),
		byIndex: make(map[int]*iface), groups: make(map[membership]int),
	}
	if err := l.open(); err != nil {
		_ = l.release()
		return nil, err
	}
	return l, nil
}

// check looks at the options and fills in what is left open.
func (o *Options) check() error {
	o.RxFrames = cmp.Or(o.RxFrames, defaultRxFrames)
	o.TxFrames = cmp.Or(o.TxFrames, defaultTxFrames)
	for _, n := range []int{o.RxFrames, o.TxFrames} {
		if n < minFrames || n > maxFrames || n&(n-1) != 0 {
			return fmt.Errorf("%d frames: give a power of two from %d to %d", n, minFrames, maxFrames)
		}
	}
	switch {
	case len(o.Addrs) == 0:
		return errors.New("no local address given")
	case o.VLAN > 4094:
		return fmt.Errorf("VLAN %d is not between 1 and 4094", o.VLAN)
	case o.Queues < 0 || o.BusyPoll < 0 || o.Spin < 0:
		return errors.New("a negative number of queues or of packets to poll for, or time to spin")
	}
	return nil
}

func (l *Link) open() (err error) {
	if err := l.opts.check(); err != nil {
		return &OpenError{Err: err}
	}
	for i := range l.addrs {
		if err := l.checkAddr(i); err != nil {
			return err
		}
	}
	if l.waker, err = sockio.NewWaker(); err != nil {
		return &OpenError{Err: err}
	}
	if err := l.openTable(); err != nil {
		return err
	}
	for i, a := range l.addrs {
		h, err := raw.NewHold(a, l.ifIndex[i], l.port)
		if err != nil {
			return err
		}
		l.holds = append(l.holds, h)
	}
	links := make(map[int]rtnl.Link)
	for i, index := range l.ifIndex {
		k, _ := l.hops.Link(index)
		switch {
		case !k.Ethernet():
			return &OpenError{Addr: l.addrs[i], Hint: "use the udp link", Err: fmt.Errorf("interface %s is not Ethernet", k.Name)}
		case l.byIndex[index] != nil:
			continue
		}
		f, err := openIface(l, k)
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.byIndex[index] = f
		l.mu.Unlock()
		l.ifaces = append(l.ifaces, f)
		links[index] = k
		if _, ok := ib.MTUForInterface(min(k.MTU, f.longest())); !ok {
			return &OpenError{Addr: l.addrs[i], Hint: "raise the MTU of " + k.Name, Err: fmt.Errorf("interface MTU %d is too small for RoCE", k.MTU)}
		}
	}
	var names []string
	for _, f := range l.ifaces {
		if s := f.mode.String(); !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	l.names = strings.Join(names, ", ")
	l.state.Init(links, func(index int) int { return l.byIndex[index].longest() }, l.opts.MTU)
	for index, k := range links {
		l.catchUp(index, k)
	}
	l.tx.init(l)
	l.rx.init(l)
	return nil
}

// catchUp takes notice of changes of an interface since it was looked at.
func (l *Link) catchUp(index int, seen rtnl.Link) {
	for {
		k, ok := l.hops.Link(index)
		if !ok {
			l.linkChanged(seen, true)
			return
		}
		if k == seen {
			return
		}
		// A notification may have been faster: then k is old, and not what is found next.
		l.linkChanged(k, false)
		seen = k
	}
}

// checkAddr normalises address i and finds its interface.
func (l *Link) checkAddr(i int) error {
	a := l.addrs[i]
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
		return &OpenError{Addr: a, Hint: "give the address of an interface: peers and the ICRC need it", Err: errors.New("not a unicast address")}
	}
	a = a.Unmap().WithZone("")
	if slices.Contains(l.addrs[:i], a) {
		return &OpenError{Addr: a, Err: errors.New("given twice")}
	}
	l.addrs[i] = a
	ifi, err := sockio.InterfaceOf(a)
	if err != nil {
		return &OpenError{Addr: a, Err: err}
	}
	if ifi == nil {
		return &OpenError{Addr: a, Hint: sockio.BindHint(unix.EADDRNOTAVAIL, l.port), Err: unix.EADDRNOTAVAIL}
	}
	l.ifIndex = append(l.ifIndex, ifi.Index)
	return nil
}

func (l *Link) openTable() error {
	o := nexthop.Options{Changed: l.hopsChanged, LinkChanged: l.linkChanged, Poke: l.poke}
	if l.opts.VLAN != 0 {
		o.Index = l.ifIndex[0]
		for _, i := range l.ifIndex {
			if i != o.Index {
				return &OpenError{Err: errors.New("with a VLAN, all addresses must be on one interface")}
			}
		}
	}
	var err error
	if l.hops, err = nexthop.Open(o); err != nil {
		return &OpenError{Err: err}
	}
	return nil
}

// hopsChanged is called when destinations have become reachable or not.
func (l *Link) hopsChanged() {
	if l.tx.kept.Load() {
		l.tx.retry.Store(true)
		l.Wake()
	}
}

// linkChanged is called when an interface has changed.
func (l *Link) linkChanged(k rtnl.Link, gone bool) {
	l.mu.Lock()
	if f := l.byIndex[k.Index]; f != nil && !l.gone && f.program != nil {
		// Should it fail, packets to the new address pass to the stack: they are lost.
		_ = f.program.setStation(k.MAC, l.opts.VLAN)
	}
	l.mu.Unlock()
	l.state.Changed(k, gone)
}

// poke makes the kernel resolve a neighbour.
func (l *Link) poke(dst, src netip.Addr) {
	if i := slices.Index(l.addrs, src); i >= 0 && i < len(l.holds) {
		l.holds[i].Poke(dst)
	}
}

// Now returns the time since the link was opened, in nanoseconds.
func (l *Link) Now() int64 { return int64(time.Since(l.start)) }

// Addrs returns the local addresses.
func (l *Link) Addrs() []netip.Addr { return slices.Clone(l.addrs) }

// MTU returns the largest path MTU that the interfaces and the mode carry at
// the moment.
func (l *Link) MTU() ib.MTU { return l.state.MTU() }

// Watch calls f with the state of the interfaces now and whenever it changes.
// f must not call Watch or Close.
func (l *Link) Watch(f func(link.PortState)) { l.state.Watch(f) }

// Capabilities says what is on; Mode is how the link is attached.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{Name: "xdp", Mode: l.names, ICRCBits: 32, ECN: true, SourcePort: true,
		RecvBufferBytes: l.opts.RxFrames * chunkBytes, SendBufferBytes: l.opts.TxFrames * chunkBytes}
}

// Stats returns the counters.
func (l *Link) Stats() link.Stats {
	var s link.Stats
	l.tx.stats.read(&s)
	l.rx.readStats(&s)
	return s
}

// Wake makes Wait return.
func (l *Link) Wake() {
	l.woken.Store(true)
	l.waker.Wake()
}

// fail makes the link useless: frames of the UMEM got mixed up, and what is read
// or sent from now on could be anything.
func (l *Link) fail(err error) {
	l.failed.CompareAndSwap(nil, &err)
}

// usable returns why the link cannot be used any more.
func (l *Link) usable() error {
	if l.closed.Load() {
		return link.ErrClosed
	}
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Wait looks at the rings for as long as Options.Spin says, then blocks in
// ppoll. See [link.Link].
func (l *Link) Wait(timeoutNs int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	if l.tx.retry.Load() {
		return nil // the sending side has something to do
	}
	r := &l.rx
	if timeoutNs != 0 && l.opts.Spin > 0 && l.spin(timeoutNs) {
		if l.woken.Load() {
			l.clear()
		}
		return nil
	}
	if l.tx.blocked.Load() && (timeoutNs < 0 || timeoutNs > int64(retryEvery)) {
		timeoutNs = int64(retryEvery)
	}
	for i := range r.fds {
		r.fds[i].Revents = 0
	}
	var ts *unix.Timespec
	if timeoutNs >= 0 {
		r.timeout = unix.NsecToTimespec(timeoutNs)
		ts = &r.timeout
	}
	_, err := unix.Ppoll(r.fds, ts, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("ppoll", err)
	}
	if r.fds[0].Revents != 0 {
		l.clear()
	}
	return nil
}

// clear takes the wakes that happened.
func (l *Link) clear() {
	// In this order: a Wake after the first line sets it again, and then wakes.
	l.woken.Store(false)
	l.waker.Clear()
}

// spin reports whether something came up before Spin or the timeout passed.
func (l *Link) spin(timeoutNs int64) bool {
	limit := int64(l.opts.Spin)
	if timeoutNs > 0 {
		limit = min(limit, timeoutNs)
	}
	for end := l.Now() + limit; ; {
		for range 16 {
			if l.woken.Load() || l.tx.retry.Load() || l.tx.blocked.Load() {
				return true
			}
			for _, f := range l.ifaces {
				for _, q := range f.queues {
					if q.rx.pending() {
						return true
					}
				}
			}
		}
		if l.Now() >= end {
			return false
		}
	}
}

// Close detaches from the interfaces.
func (l *Link) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	return l.release()
}

func (l *Link) release() error {
	var errs []error
	if l.hops != nil {
		errs = append(errs, l.hops.Close())
	}
	l.state.Watch(nil)
	if l.waker != nil {
		errs = append(errs, l.waker.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rx.keepStats()
	l.gone = true
	for _, f := range l.ifaces {
		errs = append(errs, f.shut())
	}
	for _, h := range l.holds {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}
