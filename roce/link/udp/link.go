package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// Link is the udp link; see the package comment. It is a [link.Slotted].
type Link struct {
	opts   Options
	port   uint16
	start  time.Time
	addrs  []netip.Addr
	given  []netip.Addr // addrs with their zones
	mtu    ib.MTU       // at Open
	socks  []*socket    // of addrs, same order
	spare  bool         // made by Another
	share  sharing
	ifaces follower

	tx sender
	rx receiver

	askers askers
	waker  *sockio.Poller
	life   sockio.Life

	// groups are the sockets of multicast groups; the receiving side looks at
	// them when changed is set, and closes those left.
	groupMu sync.Mutex
	groups  []*socket
	left    []*socket
	changed atomic.Bool
}

var (
	_ link.Slotted    = (*Link)(nil)
	_ link.Unverified = (*Link)(nil)
)

// Open opens sockets on the local addresses. The error is an *OpenError that
// says what to do, or about an option a [*wire.ArgError].
func Open(addrs []netip.Addr, o Options) (*Link, error) { return openSlot(addrs, o, false) }

func openSlot(addrs []netip.Addr, o Options, spare bool) (*Link, error) {
	l := &Link{spare: spare, opts: o, port: o.Port, start: time.Now(), addrs: slices.Clone(addrs), given: slices.Clone(addrs)}
	l.rx.asideFD = -1
	if l.port == 0 {
		l.port = ib.UDPPort
	}
	if err := l.open(); err != nil {
		l.release()
		return nil, err
	}
	l.tx.init(l)
	if err := l.rx.init(l); err != nil {
		l.release()
		return nil, &OpenError{Err: err}
	}
	return l, nil
}

func (l *Link) open() error {
	if err := sockio.CheckBuffers(l.opts.SocketBufferBytes, l.opts.RxBuffers); err != nil {
		return err
	}
	if len(l.addrs) == 0 {
		return &OpenError{Err: errors.New("no local address given")}
	}
	var err error
	if l.waker, err = sockio.NewPoller(); err != nil {
		return &OpenError{Err: err}
	}
	l.mtu = ib.MTU4096
	for i, a := range l.addrs {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
			return &OpenError{Addr: a, Hint: "give the address of an interface: peers and the ICRC need it", Err: errors.New("not a unicast address")}
		}
		a = a.Unmap()
		l.addrs[i] = a.WithZone("")
		if slices.Contains(l.addrs[:i], l.addrs[i]) {
			return &OpenError{Addr: a, Err: errors.New("given twice")}
		}
		ifi, err := sockio.InterfaceOf(a)
		if err != nil {
			return &OpenError{Addr: a, Err: err}
		}
		if ifi == nil && a.Zone() != "" {
			return &OpenError{Addr: a, Hint: "see `ip addr`", Err: fmt.Errorf("no interface %s with this address: %w", a.Zone(), unix.EADDRNOTAVAIL)}
		}
		if err := l.limitMTU(a, ifi); err != nil {
			return err
		}
		l.socks = append(l.socks, newSocket(i, l.addrs[i], ifi))
	}
	if err := l.openSockets(); err != nil {
		return err
	}
	if l.opts.MTU.Valid() {
		l.mtu = l.opts.MTU
	}
	l.ifaces.open(l)
	return nil
}

// limitMTU lowers the MTU to what the interface of an address carries, if there is one.
func (l *Link) limitMTU(a netip.Addr, ifi *net.Interface) error {
	if ifi == nil {
		return nil
	}
	m, ok := ib.MTUForInterface(ifi.MTU)
	if !ok {
		return &OpenError{Addr: a, Hint: "raise the MTU of " + ifi.Name, Err: fmt.Errorf("interface MTU %d is too small for RoCE", ifi.MTU)}
	}
	l.mtu = min(l.mtu, m)
	return nil
}

// Now returns the time since the link was opened, in nanoseconds.
func (l *Link) Now() int64 { return int64(time.Since(l.start)) }

// Addrs returns the local addresses.
func (l *Link) Addrs() []netip.Addr { return slices.Clone(l.addrs) }

// MTU returns the largest path MTU that the interfaces carry at the moment.
func (l *Link) MTU() ib.MTU { return l.ifaces.port.MTU() }

// Watch calls f with the state of the interfaces now and whenever it changes.
// f must not call Watch or Close.
func (l *Link) Watch(f func(link.PortState)) { l.ifaces.port.Watch(f) }

// Capabilities says what is on; the buffers are the smallest of all sockets.
func (l *Link) Capabilities() link.Capabilities {
	c := link.Capabilities{Name: "udp", ICRCBits: 32, ECN: true, GSO: l.tx.gso.Load(), GRO: true}
	if l.share.lease != nil {
		c.Slot = l.share.lease.Slot()
	} else if l.share.alone != nil {
		c.Alone = l.share.alone.Error()
	}
	for i, s := range l.socks {
		if s.addr.Is4() {
			c.ICRCBits = 16
		}
		c.GRO = c.GRO && s.gro
		if i == 0 || s.sndbuf < c.SendBufferBytes {
			c.SendBufferBytes = s.sndbuf
		}
		if i == 0 || s.rcvbuf < c.RecvBufferBytes {
			c.RecvBufferBytes = s.rcvbuf
		}
	}
	c.Room = sockio.Room(c.RecvBufferBytes, c.GRO)
	return c
}

// Stats returns the counters.
func (l *Link) Stats() link.Stats {
	var s link.Stats
	l.tx.stats.Read(&s)
	l.rx.split.Read(&s)
	if l.share.lease != nil && !l.spare {
		s.RxNobody += l.share.lease.Unheld()
	}
	return s
}

// Wake makes Wait return.
func (l *Link) Wake() { l.waker.Wake() }

// Wait blocks in ppoll. See [link.Link].
func (l *Link) Wait(timeout time.Duration) error {
	if err := l.life.Err(); err != nil {
		return err
	}
	l.rx.refresh()
	fds := l.rx.fds
	fds[fullFD].Fd = -1
	if l.tx.blocked.Load() {
		fds[fullFD].Fd = l.tx.full.Load()
	}
	l.waker.Worked(l.rx.split.Work() + l.tx.stats.Work())
	if err := l.waker.Poll(fds, timeout); err != nil {
		l.fail(err)
		return err
	}
	l.rx.noteAside()
	return nil
}

// fail ends the use of the link, because of an error of one of its sockets.
func (l *Link) fail(err error) {
	if l.life.Fail(err) {
		l.Wake()
	}
}

// Close closes the sockets.
func (l *Link) Close() error {
	if !l.life.Close() {
		return nil
	}
	return l.release()
}

func (l *Link) release() error {
	var errs []error
	shut := func(fd int) {
		if err := unix.Close(fd); err != nil {
			errs = append(errs, os.NewSyscallError("close", err))
		}
	}
	if l.waker != nil {
		errs = append(errs, l.waker.Close())
	}
	errs = append(errs, l.ifaces.close())
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	for _, list := range [][]*socket{l.socks, l.groups, l.left} {
		for _, s := range list {
			if s.fd >= 0 && !s.leased {
				shut(s.fd)
			}
			for _, p := range s.ports {
				shut(p.fd)
			}
		}
	}
	l.groups, l.left = nil, nil
	errs = append(errs, l.closeAskers()...)
	if l.rx.asideFD >= 0 {
		shut(l.rx.asideFD) // first: it refers to sockets that others keep
	}
	l.share.close()
	return errors.Join(errs...)
}
