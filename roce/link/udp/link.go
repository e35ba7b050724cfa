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
	"github.com/goroce/goroce/roce/link/internal/endpoint"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// Link is the udp link; see the package comment. It is a [link.Slotted].
type Link struct {
	face
	slotted
	opts   Options
	local  endpoint.Base
	given  []netip.Addr // the addresses with their zones
	mtu    ib.MTU       // at Open
	socks  []*socket    // one for each address, in the same order
	share  sharing
	ifaces follower

	tx sender
	rx receiver

	askers askers

	// groups has the sockets of multicast groups. If changed is set, the receiving side looks at
	// them, and closes those in left.
	groupMu sync.Mutex
	groups  []*socket
	left    []*socket
	changed atomic.Bool
}

type (
	face    = endpoint.Face
	slotted = endpoint.Slotted
)

var (
	_ link.Slotted    = (*Link)(nil)
	_ link.Unverified = (*Link)(nil)
	_ link.Pollable   = (*Link)(nil)
)

// Open opens sockets on the local addresses. The error is an *OpenError that says what to do or,
// for an invalid option, a [*edge.ArgError].
func Open(addrs []netip.Addr, o Options) (*Link, error) { return openSlot(addrs, o, false) }

func openSlot(addrs []netip.Addr, o Options, spare bool) (*Link, error) {
	l := &Link{share: sharing{Share: endpoint.Share{Spare: spare}}, opts: o, given: slices.Clone(addrs),
		mtu: ib.MTU4096}
	l.face, l.slotted = l.local.Face(), l.share.Slotted()
	l.rx.asideFD = -1
	if err := l.open(); err != nil {
		l.release()
		return nil, err
	}
	l.tx.init(l)
	if err := l.rx.init(l); err != nil {
		l.release()
		return nil, &OpenError{Err: err, Hint: sockio.CallHint(err)}
	}
	return l, nil
}

func (l *Link) open() error {
	if err := sockio.CheckBuffers(l.opts.SocketBufferBytes, l.opts.RxBuffers); err != nil {
		return err
	}
	if err := sockio.CheckCalls(); err != nil {
		return err
	}
	if err := l.local.Open(l.given, l.opts.Port, l.foundAt); err != nil {
		return err
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

// foundAt records the interface of an address. An address need not be on one: others are local by a
// route.
func (l *Link) foundAt(i int, a netip.Addr, ifi *net.Interface) error {
	switch {
	case ifi != nil:
		m, err := endpoint.CheckMTU(a, ifi.Name, ifi.MTU)
		if err != nil {
			return err
		}
		l.mtu = min(l.mtu, m)
	case a.Zone() != "":
		return &OpenError{Addr: a, Hint: "see `ip addr`",
			Err: fmt.Errorf("no interface %s with this address: %w", a.Zone(), unix.EADDRNOTAVAIL)}
	}
	l.socks = append(l.socks, newSocket(i, a.WithZone(""), ifi))
	return nil
}

// Capabilities says what is on; the buffers are the smallest of all sockets.
func (l *Link) Capabilities() link.Capabilities {
	c := link.Capabilities{Name: "udp", ICRCBits: 32, ECN: true, GSO: l.tx.GSO.Load(), GRO: true}
	l.share.Describe(&c)
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
	l.tx.Stats.Read(&s)
	l.rx.split.Read(&s)
	l.share.Read(&s)
	return s
}

// Wait blocks in ppoll. See [link.Link].
func (l *Link) Wait(timeout time.Duration) error {
	if err := l.local.Life.Err(); err != nil {
		return err
	}
	l.rx.refresh()
	fds := l.rx.fds
	fds[fullFD].Fd = -1
	if l.tx.Blocked() {
		fds[fullFD].Fd = l.tx.Full.Load()
	}
	l.local.Waker.Worked(l.rx.split.Work() + l.tx.Stats.Work())
	if err := l.local.Waker.Poll(fds, timeout); err != nil {
		l.local.Fail(err)
		return err
	}
	l.rx.noteAside()
	return nil
}

// Descriptors returns what Wait waits for, without what comes aside; see [link.Pollable].
func (l *Link) Descriptors() []int {
	l.rx.refresh()
	fds := []int{l.local.Waker.FD()}
	for _, s := range l.rx.socks {
		fds = append(fds, s.fd)
	}
	return fds
}

// Attend takes notice of a Wake; see [link.Pollable].
func (l *Link) Attend() {
	l.local.Waker.Take()
	if l.share.herd.there.Load() {
		l.share.Look, l.rx.returned = true, true
	}
}

// Close closes the sockets.
func (l *Link) Close() error {
	if !l.local.Life.Close() {
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
	errs = append(errs, l.ifaces.close(), l.local.Stop())
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
