package udp

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/endpoint"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

// sharing is how a link shares its addresses with other devices.
type sharing struct {
	endpoint.Share
	// serving says that requests are wanted; there is a socket for them at each address.
	serving  atomic.Bool
	requests []*socket
	herd     herd
}

// openSockets opens the sockets of the addresses: those of a slot or, if the addresses cannot be
// shared, its own.
func (l *Link) openSockets() error {
	var indexes []int
	for _, s := range l.socks {
		indexes = append(indexes, int(s.ifIdx.Load()))
	}
	err := l.share.Open(&l.local, indexes)
	if err != nil {
		return err
	}
	lease := l.share.Lease
	for i, s := range l.socks {
		if lease != nil {
			s.fd, s.leased, s.port = lease.Socket(i), true, l.local.Port()
		} else if err := s.open(); err != nil {
			return err
		}
		if err := s.setOptions(&l.opts); err != nil {
			return &OpenError{Addr: s.addr, Err: err, Hint: sockio.CallHint(err)}
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
			return sockio.Unshared(err, l.share.Alone)
		}
		s.openPorts(&l.opts)
	}
	return nil
}

// Another opens a link at the same addresses; see [link.Slotted].
func (l *Link) Another() (link.Link, error) {
	if err := l.share.More(); err != nil {
		return nil, err
	}
	return openSlot(l.given, l.opts, true)
}

func (s *sharing) close() {
	_ = s.herd.stop() // nothing of it is left, even on an error
	s.Close()
}

// ServeRequests makes requests also come to this link; see [link.Slotted].
func (l *Link) ServeRequests() error {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	if err := l.local.Life.Err(); err != nil {
		return err
	}
	if l.askers.list.Load() == nil {
		l.openAskers()
	}
	if l.share.Lease == nil {
		return nil // they do already
	}
	if l.share.serving.Load() {
		return nil
	}
	var socks []*socket
	for i, of := range l.socks {
		s := &socket{fd: l.share.Lease.RequestSocket(i), index: i, addr: of.addr, port: l.local.Port(), leased: true}
		s.ifIdx.Store(of.ifIdx.Load())
		if err := errors.Join(s.setOptions(&l.opts), l.share.Lease.HearRequests(i)); err != nil {
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

// handOn gives a packet from the current socket to the device that it is for. It returns false if
// that is this one.
func (r *receiver) handOn(p *edge.RxPacket) bool {
	lease := r.l.share.Lease
	own, i := int(lease.Slot().Index), r.from.index
	switch to := lease.For(i, p); to {
	case own, slots.Anyone:
		return false
	case slots.Nobody:
		r.split.Unasked.Add(1)
	default:
		r.l.share.HandOn(i, to, p)
	}
	return true
}

// lookAside looks where there is rarely something: at requests, and packets that other devices have
// handed on. What it finds waits until all that had come to the other sockets by then is handled:
// what a peer sent before its request comes before that, as it would by one socket.
func (r *receiver) lookAside() {
	r.returned = true
	switch n, err := unix.Poll(r.asideFDs, 0); {
	case err != nil:
		return
	case n == 0:
		r.nothingAside(true)
		return
	}
	r.awaits = true
	for _, s := range r.socks {
		s.before.Mark(s.rcvbuf)
	}
}

// drained reports whether what waits aside has waited long enough.
func (r *receiver) drained() bool {
	for _, s := range r.socks {
		if !s.before.None() {
			return false
		}
	}
	return true
}

// receiveAside takes a datagram that lookAside has found. Those behind it may have come later, and
// after something that is still in socks.
func (r *receiver) receiveAside() (ok bool, err error) {
	r.awaits = false
	for i := range r.asideFDs {
		if r.asideFDs[i].Revents == 0 {
			continue
		}
		if n := i - len(r.aside); n >= 0 {
			ok = r.l.share.ReadInboxes(r.inboxes[n : n+1])
		} else {
			ok, err = r.receiveFrom(r.aside[i], 1)
		}
		if ok || err != nil {
			r.l.share.Look = true
			return ok, err
		}
	}
	r.nothingAside(false) // another device has taken it, or it cannot be read
	return false, nil
}

func (r *receiver) nothingAside(took bool) {
	r.l.share.Look = false
	r.l.share.herd.seen(took)
}

// noteAside records after a poll that something came aside.
func (r *receiver) noteAside() {
	if r.fds[len(r.fds)-1].Revents != 0 || r.l.share.herd.there.Load() {
		r.l.share.Look, r.returned = true, true
	}
}

// initAside prepares receiveAside.
func (r *receiver) initAside() (err error) {
	if r.asideFD, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		r.asideFD = -1
		return os.NewSyscallError("epoll_create1", err)
	}
	r.inboxes = r.l.share.Inboxes()
	for _, fd := range r.inboxes {
		if err := r.addAside(fd); err != nil {
			return err
		}
	}
	return nil
}

// addAside makes a poll see a socket through asideFD.
func (r *receiver) addAside(fd int) error {
	return os.NewSyscallError("epoll_ctl",
		unix.EpollCtl(r.asideFD, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
}

// Disown closes what the child of a fork has inherited of its parent's links, including those of
// package packet. While a child holds it, the addresses, and the services announced there, stay
// taken, even after the parent has ended. The child calls Disown before it opens a device of its
// own, if it can go on at all: Go cannot, unless the child loads it anew, as the libraries for
// programs in C do.
func Disown() error { return slots.Disown() }
