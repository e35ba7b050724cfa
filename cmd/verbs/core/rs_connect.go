package main

/*
#include <poll.h>
#include "../include/goroce_rs.h"
*/
import "C"

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

const defaultKeepAlive = 15 * time.Second

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

//export goroce_rs_bind
func goroce_rs_bind(handle C.goroce_handle, sa *C.struct_sockaddr) C.int {
	defer mirrored(handle, 0)
	asked := addrOf(sa)
	return withSocket(handle, func(s *rsSocket) C.int {
		a := localAddr(asked, s.onlyV6)
		switch {
		case s.datagram != nil:
			return bindErrno(asked, a, s.bindDatagram(a))
		case s.state != rsIdle || s.bound.IsValid() || !a.IsValid():
			return eINVAL
		}
		return bindErrno(asked, a, s.bind(a))
	})
}

// bind takes a port, which is kept until the socket listens or connects.
func (s *rsSocket) bind(a netip.AddrPort) C.int {
	ch := &cmChannel{closed: true, on: map[*verbs.Device]*rdmacm.EventChannel{}, ids: map[*cmID]struct{}{}}
	id := &cmID{ps: rdmacm.PortSpaceTCP, ch: ch, reuse: s.reuse != 0, onlyV6: s.onlyV6}
	e := id.bind(a)
	s.holds, s.holders = id.parts, ch.each()
	if e == 0 && len(id.parts) == 0 {
		id.leaveApart()
		e = C.int(syscall.ENODEV) // librspreload asks the kernel then
	}
	if e != 0 {
		s.release()
		return e
	}
	local := id.parts[0].LocalAddr()
	s.bound = netip.AddrPortFrom(a.Addr(), local.Port())
	return 0
}

// release gives the port back to whom it is for.
func (s *rsSocket) release() {
	for _, id := range s.holds {
		_ = id.Close()
	}
	for _, ch := range s.holders {
		_ = ch.Close()
	}
	s.holds, s.holders = nil, nil
}

//export goroce_rs_connect
func goroce_rs_connect(handle C.goroce_handle, sa *C.struct_sockaddr) C.int {
	defer mirrored(handle, 0)
	to := peerAddr(addrOf(sa))
	return withSocket(handle, func(s *rsSocket) C.int {
		switch {
		case s.datagram != nil:
			return s.connectDatagram(to)
		case s.state == rsConnected:
			return C.int(syscall.EISCONN)
		case s.state == rsConnecting:
			return C.int(syscall.EALREADY)
		case s.state == rsListening || !to.IsValid():
			return eINVAL
		}
		return s.connect(to)
	})
}

// connect begins to connect.
func (s *rsSocket) connect(to netip.AddrPort) C.int {
	d := deviceTo(s.bound.Addr(), to.Addr())
	if s.bound.IsValid() && s.bound.Addr().IsUnspecified() {
		d = deviceTo(netip.Addr{}, to.Addr())
	}
	if d == nil || to.Addr().IsMulticast() { // which TCP says, too
		return C.int(syscall.ENETUNREACH)
	}
	s.release()
	tellWhenGone(d)
	ctx, cancel := context.WithCancel(context.Background())
	s.state, s.cancel, s.err = rsConnecting, cancel, nil
	dialer := rsocket.Dialer{Device: d, Config: s.cfg, LocalAddr: s.bound}
	go func() {
		c, err := dialer.DialAddr(ctx, to)
		cancel()
		s.mu.Lock()
		switch {
		case s.state != rsConnecting: // closed meanwhile
			if err == nil {
				_ = c.Close()
			}
		case err != nil:
			s.state, s.err = rsFailed, err
		default:
			s.adopt(c)
		}
		s.mu.Unlock()
		s.wake.ring()
	}()
	return 0
}

//export goroce_rs_connected
func goroce_rs_connected(handle C.goroce_handle) C.int {
	defer mirrored(handle, 0)
	return withStream(handle, func(s *rsSocket) C.int {
		switch s.state {
		case rsConnected:
			return 0
		case rsConnecting:
			return C.int(syscall.EINPROGRESS)
		case rsFailed:
			s.state = rsIdle // another attempt may be made
			return rsErrno(s.err)
		}
		return C.int(syscall.ENOTCONN)
	})
}

// rsAcceptor accepts the connections of a socket that listens, on all devices that it listens on.
// Each of its goroutines has at most one connection that the program has not taken: others wait in
// the backlog of the listener.
type rsAcceptor struct {
	listeners []*rsocket.Listener
	addr      netip.AddrPort
	taken     chan struct{}

	mu    sync.Mutex
	ready []*rsocket.Conn
	done  bool
}

//export goroce_rs_listen
func goroce_rs_listen(handle C.goroce_handle, backlog, parent C.int) C.int {
	defer mirrored(handle, 0)
	return withStream(handle, func(s *rsSocket) C.int {
		switch s.state {
		case rsListening:
			return 0
		case rsIdle:
		default:
			return eINVAL
		}
		if !s.bound.IsValid() {
			if e := s.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); e != 0 {
				return e
			}
		}
		return s.listen(min(max(int(backlog), 0), 0xFFFF), int(parent))
	})
}

// listen makes the port that is held one to listen on.
func (s *rsSocket) listen(backlog, parent int) C.int {
	l := &rsAcceptor{addr: s.bound, taken: make(chan struct{})}
	var on []*verbs.Device
	for _, id := range s.holds {
		on = append(on, id.Device())
	}
	s.release()
	err := s.begin(l, on, backlog)
	switch {
	case parent >= 0 && errors.Is(err, verbs.ErrAddrInUse):
		go whenGone(parent, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.state != rsListening || !errors.Is(s.begin(l, on, backlog), verbs.ErrAddrInUse)
		})
	case err != nil:
		l.close()
		s.bound = netip.AddrPort{} // somebody else has it
		return rsErrno(err)
	}
	s.state, s.listener = rsListening, l
	return 0
}

// begin listens, on all devices or none. s.mu is held.
func (s *rsSocket) begin(l *rsAcceptor, on []*verbs.Device, backlog int) error {
	lc := rsocket.ListenConfig{Config: s.cfg, Backlog: backlog}
	var all []*rsocket.Listener
	for _, d := range on {
		tellWhenGone(d)
		lc.Device = d
		one, err := lc.ListenAddr(l.addr)
		if err != nil {
			for _, one := range all {
				_ = one.Close() // it has had no time for anything
			}
			return err
		}
		all = append(all, one)
	}
	l.listeners = all
	remark("listening on %v", l.addr)
	for _, one := range all {
		go l.serve(one, s.wake.ring)
	}
	return nil
}

// serve takes connections to the program one by one.
func (l *rsAcceptor) serve(from *rsocket.Listener, came func()) {
	for {
		c, err := from.AcceptConn()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				continue
			}
			return
		}
		l.mu.Lock()
		if l.done {
			l.mu.Unlock()
			_ = c.Close() // nobody is there to take it
			return
		}
		l.ready = append(l.ready, c)
		l.mu.Unlock()
		came()
		if _, more := <-l.taken; !more {
			return
		}
	}
}

// configure changes the properties of connections to come.
func (l *rsAcceptor) configure(cfg rsocket.Config) C.int {
	for _, one := range l.listeners {
		if err := core.Open(one).SetConfig(cfg); err != nil {
			return rsErrno(err)
		}
	}
	return 0
}

func (l *rsAcceptor) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ready) > 0
}

// take returns a connection; nil if there is none. There is a goroutine that waits for it to be
// taken.
func (l *rsAcceptor) take() *rsocket.Conn {
	l.mu.Lock()
	if len(l.ready) == 0 {
		l.mu.Unlock()
		return nil
	}
	c := l.ready[0]
	l.ready = slices.Delete(l.ready, 0, 1)
	l.mu.Unlock()
	l.taken <- struct{}{}
	return c
}

func (l *rsAcceptor) close() {
	l.mu.Lock()
	left := l.ready
	l.ready, l.done = nil, true
	l.mu.Unlock()
	close(l.taken)
	for _, one := range l.listeners {
		_ = one.Close() // which ends its goroutine
	}
	for _, c := range left {
		_ = c.Close() // its peer sees the end
	}
}

//export goroce_rs_accept
func goroce_rs_accept(handle C.goroce_handle, got *C.goroce_handle) C.int {
	defer mirrored(handle, C.POLLIN) // there may be another one already
	return withStream(handle, func(s *rsSocket) C.int {
		if s.state != rsListening {
			return eINVAL
		}
		c := s.listener.take()
		if c == nil {
			return C.int(syscall.EAGAIN)
		}
		n := &rsSocket{cfg: s.cfg}
		n.adopt(c)
		if *got = C.goroce_handle(rsSockets.put(n)); *got == 0 {
			_ = c.Close()
			return C.int(syscall.ENFILE)
		}
		return 0
	})
}
