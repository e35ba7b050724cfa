package udp

import (
	"errors"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/wire"
)

// sharing is what a link has to do with other devices at its addresses.
type sharing struct {
	lease *slots.Lease // nil: the link has its addresses for itself
	alone error        // why it has
	// serving says that requests are wanted, of which there is a socket for each address.
	serving  atomic.Bool
	requests []*socket
	herd     herd
}

// openSockets opens the sockets of the addresses: those of a slot, or, where addresses cannot
// be shared, its own.
func (l *Link) openSockets() error {
	lease, err := l.leaseSlot()
	if err != nil {
		return err
	}
	l.share.lease = lease
	for i, s := range l.socks {
		if lease != nil {
			s.fd, s.leased, s.port = lease.Socket(i), true, l.local.Port()
		} else if err := s.open(); err != nil {
			return err
		}
		if err := s.setOptions(&l.opts); err != nil {
			return &OpenError{Addr: s.addr, Err: err}
		}
		if lease != nil {
			err = lease.Hear(i)
		} else {
			err = s.bind(l.local.Port())
		}
		if err == nil {
			err = s.sendGroupsBy()
		}
		if err != nil {
			return sockio.Unshared(err, l.share.alone)
		}
		s.openPorts(&l.opts)
	}
	return nil
}

// leaseSlot leases a slot of the addresses. It is nil if these cannot be shared here.
func (l *Link) leaseSlot() (*slots.Lease, error) {
	var addrs []slots.Address
	for _, s := range l.socks {
		a := slots.Address{Addr: s.addr, Port: l.local.Port()}
		if s.addr.IsLinkLocalUnicast() && s.addr.Is6() {
			a.Scope = int(s.ifIdx.Load())
		}
		addrs = append(addrs, a)
	}
	open := slots.Open
	if l.spare {
		open = slots.OpenSpare
	}
	lease, err := open(addrs)
	switch {
	case errors.Is(err, slots.ErrUnsupported), errors.Is(err, slots.ErrForeign):
		l.share.alone = err
		return nil, nil
	case err == nil:
		return lease, nil
	}
	var at *slots.AddressError
	if !errors.As(err, &at) {
		return nil, &OpenError{Err: err}
	}
	return nil, sockio.PortError(at.Addr, at.Err, l.local.Port())
}

// Another opens a link at the same addresses; see [link.Slotted].
func (l *Link) Another() (link.Link, error) {
	if l.share.lease == nil {
		return nil, &OpenError{Addr: l.local.Addrs()[0], Err: slots.ErrUnsupported}
	}
	return openSlot(l.given, l.opts, true)
}

func (s *sharing) close() {
	_ = s.herd.stop() // nothing of it is left, whatever it says
	if s.lease != nil {
		s.lease.Close()
	}
}

// ServeRequests has requests come to this link, too; see [link.Slotted].
func (l *Link) ServeRequests() error {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	if err := l.local.Life.Err(); err != nil {
		return err
	}
	if l.askers.list.Load() == nil {
		l.openAskers()
	}
	if l.share.lease == nil {
		return nil // they do
	}
	if l.share.serving.Load() {
		return nil
	}
	var socks []*socket
	for i, of := range l.socks {
		s := &socket{fd: l.share.lease.RequestSocket(i), index: i, addr: of.addr, port: l.local.Port(), leased: true}
		s.ifIdx.Store(of.ifIdx.Load())
		if err := errors.Join(s.setOptions(&l.opts), l.share.lease.HearRequests(i)); err != nil {
			return &OpenError{Addr: s.addr, Err: err}
		}
		socks = append(socks, s)
	}
	if err := l.share.herd.begin(l, socks); err != nil {
		return &OpenError{Err: err}
	}
	l.share.requests = socks
	l.share.serving.Store(true)
	l.changed.Store(true)
	l.Wake()
	return nil
}

// Announce reserves a service; see [link.Slotted].
func (l *Link) Announce(s mad.ServiceID, local netip.Addr) error {
	if l.share.lease == nil {
		return nil
	}
	switch err := l.share.lease.AnnounceAt(s, l.local.Addrs(), local); {
	case errors.Is(err, slots.ErrInUse):
		return link.ErrServiceInUse
	case err != nil:
		return os.NewSyscallError("announce", err)
	}
	return nil
}

// Withdraw undoes one Announce.
func (l *Link) Withdraw(s mad.ServiceID, local netip.Addr) {
	if l.share.lease != nil {
		l.share.lease.WithdrawAt(s, l.local.Addrs(), local)
	}
}

// handOn gives a packet of the socket being read to the device that it is for. It returns false if
// that is this one.
func (r *receiver) handOn(p *wire.RxPacket) bool {
	lease := r.l.share.lease
	own, i := int(lease.Slot().Index), r.from.index
	switch to := lease.For(i, p); to {
	case own, slots.Anyone:
		return false
	case slots.Nobody:
		r.split.Unasked.Add(1)
	default:
		lost, ok := lease.HandOn(i, to, p)
		if lost > 0 {
			r.split.Lost.Add(uint64(lost))
		}
		if ok {
			r.split.On.Add(1)
		} else {
			r.split.Nobody.Add(1)
		}
	}
	return true
}

// flushStrays sends on what was handed on.
func (r *receiver) flushStrays() {
	if lease := r.l.share.lease; lease != nil {
		if lost := lease.Flush(); lost > 0 {
			r.split.Lost.Add(uint64(lost))
		}
	}
}

// receiveAside looks where there rarely is something: requests, and what other devices
// have handed on.
func (r *receiver) receiveAside() (bool, error) {
	r.look, r.returned = false, true
	for _, s := range r.aside {
		if ok, err := r.receiveFrom(s); ok || err != nil {
			r.look = true
			return ok, err
		}
	}
	r.l.share.herd.seen()
	for _, fd := range r.inboxes {
		if r.inbox == nil {
			r.inbox = make([]byte, slots.MaxStrays)
		}
		n, err := unix.Read(fd, r.inbox)
		if err == nil {
			r.look = true
			r.strays = slots.ParseStrays(r.inbox[:n])
			return true, nil
		}
	}
	return false, nil
}

// handedIn fills a batch with what another device has handed on.
func (r *receiver) handedIn(batch []wire.RxPacket) (n int) {
	for n < len(batch) && r.strays.Next(&batch[n]) {
		if to := slots.Steer(batch[n].Data); to == slots.Requests || to == int(r.l.share.lease.Slot().Index) {
			r.split.HandedIn(&batch[n])
			n++
		}
	}
	return n
}

// noteAside notes after a poll what came aside.
func (r *receiver) noteAside() {
	if r.fds[len(r.fds)-1].Revents != 0 || r.l.share.herd.there.Load() {
		r.look, r.returned = true, true
	}
}

// initAside gets ready to look aside.
func (r *receiver) initAside() (err error) {
	if r.asideFD, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		r.asideFD = -1
		return os.NewSyscallError("epoll_create1", err)
	}
	lease := r.l.share.lease
	if lease == nil {
		return nil
	}
	r.split.Slot, r.split.HandOn = lease.Slot(), r.handOn
	for i := range r.l.socks {
		r.inboxes = append(r.inboxes, lease.Inbox(i))
		if err := r.addAside(lease.Inbox(i)); err != nil {
			return err
		}
	}
	return nil
}

// addAside has a poll see a socket in asideFD.
func (r *receiver) addAside(fd int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(r.asideFD, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
}

// Disown closes what the child of a fork has of its parent's links, of package packet, too. While a
// child has it, the addresses, and the services that were announced there, are taken, also when the
// parent has ended. The child calls it before it opens a device of its own, if it can go on at all:
// Go cannot, unless the child loads it anew, as the libraries for programs in C do.
func Disown() error { return slots.Disown() }
