package main

/*
#include <poll.h>
#include "../include/goroce_rs.h"

extern struct goroce_rs_behind goroce_rs_behind;
*/
import "C"

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
)

// Sockets for librdmacm: streams here, datagrams in rs_datagram.go. The contract is
// ../include/goroce_rs.h. A program that waits does so in poll(2): see rsThread.

// rsState is what a socket is.
type rsState uint8

const (
	rsIdle rsState = iota
	rsConnecting
	rsFailed // connecting has; the program has not asked yet
	rsConnected
	rsListening
	rsClosed
)

// rsSocket is the Go half of an rsocket.
type rsSocket struct {
	mu       sync.Mutex
	state    rsState
	cfg      rsocket.Config
	bound    netip.AddrPort
	holds    []*rdmacm.ID // what keeps the port of bound until it is used
	holders  []*rdmacm.EventChannel
	reuse    int // bits of GOROCE_RS_REUSE
	onlyV6   bool
	plain    bool // see GOROCE_RS_PLAIN
	conn     *rsocket.Conn
	err      error // why connecting has failed
	cancel   func()
	listener *rsAcceptor
	maps     []*rsMapping
	datagram *rsDatagram // nil: a stream

	wake rsWaiters
}

var rsSockets table[rsSocket]

// withSocket runs f for the socket of a handle. A handle that names nothing is a descriptor that
// was closed.
func withSocket(handle C.goroce_handle, f func(s *rsSocket) C.int) C.int {
	s := rsSockets.get(uint32(handle))
	if s == nil {
		return C.int(syscall.EBADF)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == rsClosed {
		return C.int(syscall.EBADF)
	}
	return f(s)
}

// withStream is withSocket for what datagrams do not have.
func withStream(handle C.goroce_handle, f func(s *rsSocket) C.int) C.int {
	return withSocket(handle, func(s *rsSocket) C.int {
		if s.datagram != nil {
			return C.int(syscall.EOPNOTSUPP)
		}
		return f(s)
	})
}

// withConn runs f for the connection of a handle, without a lock: its calls have their own.
func withConn(handle C.goroce_handle, f func(c *rsocket.Conn) C.int) C.int {
	var conn *rsocket.Conn
	e := withStream(handle, func(s *rsSocket) C.int {
		switch s.state {
		case rsConnected:
			conn = s.conn
			return 0
		case rsConnecting:
			return C.int(syscall.EAGAIN)
		}
		return C.int(syscall.ENOTCONN)
	})
	if e != 0 {
		return e
	}
	return f(conn)
}

// rsErrno returns what librdmacm answers in the case of an error.
func rsErrno(err error) C.int {
	var number syscall.Errno
	switch {
	case err == nil, err == io.EOF:
		return 0
	case err == syscall.EAGAIN:
		return C.int(syscall.EAGAIN)
	case errors.Is(err, rsocket.ErrNoMaps):
		return C.int(syscall.ENOBUFS)
	case errors.Is(err, rsocket.ErrNotMapped):
		return eINVAL
	case errors.Is(err, net.ErrClosed):
		return C.int(syscall.EBADF)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return C.int(syscall.ETIMEDOUT)
	case errors.As(err, &number):
		return C.int(number)
	}
	return cmErrno(err)
}

//export goroce_rs_create
func goroce_rs_create(domain, kind C.int, handle *C.goroce_handle) C.int {
	s := &rsSocket{}
	if kind == C.SOCK_DGRAM {
		s.datagram = &rsDatagram{v6: domain == C.AF_INET6}
	}
	if *handle = C.goroce_handle(rsSockets.put(s)); *handle == 0 {
		return eNOMEM
	}
	return 0
}

// adopt gives a socket its connection. s.mu is held, if others know the socket.
func (s *rsSocket) adopt(c *rsocket.Conn) {
	s.conn, s.state = c, rsConnected
	core.Open(c).Notify(s.wake.ring)
}

//export goroce_rs_close
func goroce_rs_close(handle C.goroce_handle) C.int {
	s := rsSockets.drop(uint32(handle))
	if s == nil {
		return C.int(syscall.EBADF)
	}
	s.mu.Lock()
	state := s.state
	s.state = rsClosed
	s.release()
	cancel, conn, l, maps := s.cancel, s.conn, s.listener, s.maps
	s.mu.Unlock()
	if m := s.wake.mirror.Load(); m != nil {
		m.close()
	}
	s.wake.ring()
	switch {
	case s.datagram != nil:
		return s.datagram.close()
	case state == rsConnecting:
		cancel()
	case conn != nil:
		for _, m := range maps {
			_ = m.m.Close() // which the connection would do, too
		}
		return rsErrno(closeBehind(conn))
	case l != nil:
		l.close()
	}
	return 0
}

// rsLinger is how long the end of a socket waits for its peer, in librdmacm and at the end of the
// process.
const rsLinger = C.GOROCE_RS_LINGER_MS * time.Millisecond

// rsBehind are the connections that the program has closed, whose peers do not have all yet.
var rsBehind struct {
	mu    sync.Mutex
	conns map[*rsocket.Conn]struct{}
}

// closeBehind closes a connection, at once or, as TCP does, behind the program's back: a peer that
// does not read would hold up a server for all of rsLinger.
func closeBehind(c *rsocket.Conn) error {
	looked := make(chan struct{}, 1)
	core.Open(c).Notify(func() {
		select {
		case looked <- struct{}{}:
		default:
		}
	})
	err := core.Open(c).TryDisconnect()
	if err != syscall.EAGAIN {
		core.Open(c).Notify(nil)
		_ = c.Close() // what it would say was said
		return err
	}
	rsBehind.mu.Lock()
	if rsBehind.conns == nil {
		rsBehind.conns = map[*rsocket.Conn]struct{}{}
	}
	rsBehind.conns[c] = struct{}{}
	rsBehind.mu.Unlock()
	atomic.AddUint32((*uint32)(&C.goroce_rs_behind.sockets), 1) // for an _exit that comes next
	go func() {
		tick := time.NewTicker(rsAsk)
		defer tick.Stop()
		for end := time.Now().Add(rsLinger); core.Open(c).TryDisconnect() == syscall.EAGAIN && time.Now().Before(end); {
			core.Open(c).ReadyOrNotify(nil)
			atomic.AddUint32((*uint32)(&C.goroce_rs_behind.beat), 1)
			select {
			case <-looked:
			case <-tick.C:
			}
		}
		core.Open(c).Notify(nil)
		_ = closeNow(c) // there is nobody to tell
		rsBehind.mu.Lock()
		delete(rsBehind.conns, c)
		rsBehind.mu.Unlock()
		atomic.AddUint32((*uint32)(&C.goroce_rs_behind.sockets), ^uint32(0))
	}()
	return nil
}

// rsAsk is how often the end of a socket asks anew: what was poured meanwhile may make no
// completion.
const rsAsk = C.GOROCE_RS_ASK_MS * time.Millisecond

// closeNow closes a connection without waiting. What is still missing then is lost.
func closeNow(c *rsocket.Conn) error {
	err := core.Open(c).TryDisconnect()
	if err == syscall.EAGAIN {
		err = syscall.ETIMEDOUT
		_ = c.SetLinger(0) // fails if it is closed
	}
	_ = c.Close() // what it would say was said
	return err
}

//export goroce_rs_set_option
func goroce_rs_set_option(handle C.goroce_handle, option C.int, value C.int64_t) C.int {
	return withSocket(handle, func(s *rsSocket) C.int {
		if e := s.setOption(option, int(value)); e != 0 || s.listener == nil {
			return e
		}
		return s.listener.configure(s.cfg) // for the connections to come
	})
}

// setOption sets an option of a socket, whose lock is held.
func (s *rsSocket) setOption(option C.int, v int) C.int {
	if s.datagram != nil && s.datagram.conn != nil {
		switch option {
		case C.GOROCE_RS_KEEPALIVE:
		case C.GOROCE_RS_REUSE:
			return 0 // too late, which is no error for UDP: libuv sets it once more
		default:
			return eINVAL // it has its queues, and its port
		}
	}
	switch option {
	case C.GOROCE_RS_KEEPALIVE:
		s.cfg.KeepAlive = seconds(v)
		if s.conn != nil {
			d := s.cfg.KeepAlive
			if d == 0 {
				d = defaultKeepAlive
			}
			return rsErrno(core.Open(s.conn).SetKeepAlive(d))
		}
		return 0
	case C.GOROCE_RS_TOS:
		s.cfg.TrafficClass = uint8(v)
		return 0
	case C.GOROCE_RS_REUSE:
		s.reuse = v
		return 0
	case C.GOROCE_RS_V6ONLY:
		s.onlyV6 = v != 0
		return 0
	case C.GOROCE_RS_BLOCKS:
		if !rsBlocks.Swap(true) {
			spreadConns()
		}
		return 0
	case C.GOROCE_RS_PLAIN:
		s.plain = v != 0
		return 0
	}
	switch {
	case s.state == rsConnected && option == C.GOROCE_RS_SNDBUF:
		core.Open(s.conn).HoldAtMost(v)
		return 0
	case s.state == rsConnecting || s.state == rsConnected:
		return eINVAL // it has its queues already
	}
	switch option {
	case C.GOROCE_RS_SNDBUF:
		s.cfg.SendBuffer = min(v, maxRSBuffer)
	case C.GOROCE_RS_RCVBUF:
		s.cfg.RecvBuffer = min(v, maxRSBuffer)
	case C.GOROCE_RS_SQSIZE:
		s.cfg.SendQueue = min(v, maxRSQueue)
	case C.GOROCE_RS_RQSIZE:
		s.cfg.RecvQueue = min(v, maxRSQueue)
	case C.GOROCE_RS_IOMAPS:
		s.cfg.IOMaps = min(v, maxRSMaps)
	default:
		return C.int(syscall.ENOTSUP)
	}
	return 0
}

// The most that package rsocket takes.
const (
	maxRSBuffer = 1 << 30
	maxRSQueue  = 0xFFFE
	maxRSMaps   = 0x7f << 8
)

//export goroce_rs_name
func goroce_rs_name(handle C.goroce_handle, peer C.int, to *C.struct_sockaddr_storage) C.int {
	return withSocket(handle, func(s *rsSocket) C.int {
		var a netip.AddrPort
		switch {
		case s.datagram != nil:
			var ok bool
			if a, ok = s.datagram.name(peer != 0); !ok {
				return C.int(syscall.ENOTCONN)
			}
		case s.conn != nil && peer != 0:
			a = s.conn.RemoteAddr().(rsocket.Addr).AddrPort
		case s.conn != nil:
			a = s.conn.LocalAddr().(rsocket.Addr).AddrPort
		case peer != 0:
			return C.int(syscall.ENOTCONN)
		case s.listener != nil:
			a = s.listener.addr
		default:
			a = s.bound
		}
		putAddr(to, a)
		return 0
	})
}

//export goroce_rs_vector
func goroce_rs_vector(handle C.goroce_handle) C.int {
	if s := rsSockets.get(uint32(handle)); s != nil {
		if c := s.crew(); c != nil {
			return C.int(c.vector)
		}
	}
	return -1
}

//export goroce_rs_path_mtu
func goroce_rs_path_mtu(handle C.goroce_handle, bytes *C.uint32_t) C.int {
	return withSocket(handle, func(s *rsSocket) C.int {
		*bytes = 0
		if s.conn != nil {
			if d := deviceAt(s.conn.LocalAddr().(rsocket.Addr).Addr()); d != nil {
				*bytes = C.uint32_t(d.Port().ActiveMTU.Bytes())
			}
		}
		return 0
	})
}

// ready returns what there is; with notify those who wait are woken when there is more. Programs
// such as rstream take POLLHUP for the end and look no further: those that want to read get it when
// they have read all. by is the thread that waits, if it is the only one that does.
func (s *rsSocket) ready(events C.uint32_t, notify bool, by core.Sleeper) (v C.uint32_t) {
	s.mu.Lock()
	state, conn, l := s.state, s.conn, s.listener
	if s.datagram != nil && state != rsClosed {
		defer s.mu.Unlock()
		return s.datagram.ready(notify, by)
	}
	s.mu.Unlock()
	switch state {
	case rsConnected:
	case rsListening:
		if l.pending() {
			v = C.POLLIN
		}
		return v
	case rsFailed:
		return C.POLLIN | C.POLLOUT | C.POLLERR
	case rsClosed:
		return C.POLLERR | C.POLLHUP
	default:
		return 0
	}
	if notify {
		v = pollBits(core.Open(conn).ReadyOrNotify(by))
	} else {
		v = pollBits(core.Open(conn).Ready())
	}
	if v&events&C.POLLIN != 0 && v&C.POLLHUP != 0 {
		var b [1]byte
		// There is data, or somebody is reading it.
		if n, err := core.Open(conn).TryPeek(b[:]); n > 0 || err == syscall.EAGAIN {
			v &^= C.POLLHUP
		}
	}
	return v
}

// pollBits is what poll says of a socket.
func pollBits(r core.Readiness) (v C.uint32_t) {
	if r.Readable {
		v |= C.POLLIN
	}
	if r.Writable {
		v |= C.POLLOUT
	}
	if r.Err != nil {
		v |= C.POLLERR
	}
	if r.Over {
		v |= C.POLLHUP
	}
	if r.Drained {
		v |= C.GOROCE_RS_DRAINED
	}
	return v
}
