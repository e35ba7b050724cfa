package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/rtnl"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// Link is the packet link; see the package comment. It implements [link.Link],
// [link.Multicaster] and [link.Watcher].
type Link struct {
	opts     Options
	port     uint16
	start    time.Time
	addrs    []netip.Addr
	ifIndex  []int // of addrs, same order
	holds    []int // UDP sockets of addrs, same order
	loopback int   // index of the loopback interface, 0 if there is none
	hops     *nexthop.Table

	tx sender
	rx receiver

	waker  *sockio.Waker
	closed atomic.Bool

	// groupMu guards groups, and with it the filters.
	groupMu sync.Mutex
	groups  map[membership]int // joins

	port1 port
}

var (
	_ link.Link        = (*Link)(nil)
	_ link.Multicaster = (*Link)(nil)
	_ link.Watcher     = (*Link)(nil)
)

// Open opens the link. The error is an *OpenError that says what to do.
func Open(o Options) (*Link, error) {
	l := &Link{
		opts: o, port: o.Port, start: time.Now(), addrs: slices.Clone(o.Addrs),
		groups: make(map[membership]int), tx: sender{fd: -1},
	}
	if l.port == 0 {
		l.port = ib.UDPPort
	}
	if err := l.open(); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func (l *Link) open() error {
	if len(l.addrs) == 0 {
		return &OpenError{Err: errors.New("no local address given")}
	}
	if l.opts.VLAN > 4094 {
		return &OpenError{Err: fmt.Errorf("VLAN %d is not between 1 and 4094", l.opts.VLAN)}
	}
	var err error
	if l.waker, err = sockio.NewWaker(); err != nil {
		return &OpenError{Err: err}
	}
	// First, because its error is the one that says what is missing.
	if l.tx.fd, err = openRaw(); err != nil {
		return err
	}
	ports := make([]int, 0, len(l.addrs))
	for i, a := range l.addrs {
		index, err := l.check(i, a)
		if err != nil {
			return err
		}
		ports = append(ports, index)
	}
	l.ifIndex = ports
	if err := l.openTable(); err != nil {
		return err
	}
	if err := l.port1.init(l); err != nil {
		return err
	}
	for i, a := range l.addrs {
		fd, err := l.holdPort(a, l.ifIndex[i])
		if err != nil {
			return err
		}
		l.holds = append(l.holds, fd)
	}
	if err := l.tx.init(l); err != nil {
		return err
	}
	return l.rx.init(l)
}

// check normalises address i and returns the index of its interface, 0 if
// there is none, which holding the port will report.
func (l *Link) check(i int, a netip.Addr) (int, error) {
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
		return 0, &OpenError{Addr: a, Hint: "give the address of an interface: peers and the ICRC need it", Err: errors.New("not a unicast address")}
	}
	a = a.Unmap().WithZone("")
	if slices.Contains(l.addrs[:i], a) {
		return 0, &OpenError{Addr: a, Err: errors.New("given twice")}
	}
	l.addrs[i] = a
	ifi, err := sockio.InterfaceOf(a)
	if err != nil {
		return 0, &OpenError{Addr: a, Err: err}
	}
	if ifi == nil {
		return 0, nil
	}
	return ifi.Index, nil
}

func (l *Link) openTable() error {
	o := nexthop.Options{Changed: l.hopsChanged, LinkChanged: l.port1.changed, Poke: l.poke}
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

// Now returns the time since the link was opened, in nanoseconds.
func (l *Link) Now() int64 { return int64(time.Since(l.start)) }

// Addrs returns the local addresses.
func (l *Link) Addrs() []netip.Addr { return slices.Clone(l.addrs) }

// MTU returns the largest path MTU that the interfaces carry at the moment.
func (l *Link) MTU() ib.MTU { return l.port1.mtu() }

// Capabilities says what is on; the buffers are the smallest of all sockets.
func (l *Link) Capabilities() link.Capabilities {
	c := link.Capabilities{
		Name: "packet", ICRCBits: 32, ECN: true, SourcePort: true,
		GSO: l.tx.gso.Load(), GRO: true, SendBufferBytes: l.tx.sndbuf,
	}
	for i, s := range l.rx.socks {
		c.GRO = c.GRO && s.vnet
		if i == 0 || s.rcvbuf < c.RecvBufferBytes {
			c.RecvBufferBytes = s.rcvbuf
		}
	}
	return c
}

// Stats returns the counters.
func (l *Link) Stats() link.Stats {
	var s link.Stats
	l.tx.stats.read(&s)
	l.rx.readStats(&s)
	return s
}

// Wake makes Wait return.
func (l *Link) Wake() { l.waker.Wake() }

// Wait blocks in ppoll. See [link.Link].
func (l *Link) Wait(timeoutNs int64) error {
	if l.closed.Load() {
		return link.ErrClosed
	}
	if l.tx.retry.Load() {
		return nil // the sending side has something to do
	}
	fds := l.rx.fds
	for i := range fds {
		fds[i].Revents = 0
	}
	fds[1].Fd = -1
	if l.tx.blocked.Load() {
		fds[1].Fd = int32(l.tx.fd)
	}
	var ts *unix.Timespec
	if timeoutNs >= 0 {
		l.rx.timeout = unix.NsecToTimespec(timeoutNs)
		ts = &l.rx.timeout
	}
	_, err := unix.Ppoll(fds, ts, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("ppoll", err)
	}
	if fds[0].Revents != 0 {
		l.waker.Clear()
	}
	return nil
}

// Close closes the sockets.
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
	if l.waker != nil {
		errs = append(errs, l.waker.Close())
	}
	shut := func(fd int) { errs = append(errs, os.NewSyscallError("close", unix.Close(fd))) }
	if l.tx.fd >= 0 {
		shut(l.tx.fd)
	}
	l.rx.close(shut)
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	for _, fd := range l.holds {
		shut(fd)
	}
	return errors.Join(errs...)
}

// linkOf returns the interface of an index, for messages.
func (l *Link) linkOf(index int) rtnl.Link {
	k, _ := l.hops.Link(index)
	return k
}
