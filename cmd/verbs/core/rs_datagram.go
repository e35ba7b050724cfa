package main

/*
#include <poll.h>
#include "../include/goroce_rs.h"
*/
import "C"

import (
	"errors"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// rsDatagram is what a socket for datagrams has beside an rsSocket, whose lock guards it.
type rsDatagram struct {
	v6   bool
	conn *rsocket.PacketConn // nil: it has no port yet
}

// Of a buffer size in bytes a datagram takes this much, as in librdmacm, which also has the other
// defaults.
const (
	datagramBytes  = 2048
	defaultBuffers = 1 << 17
	defaultQueues  = 384
)

// datagrams returns how many datagrams may wait, by the size of the buffer and of the queue that a
// program has set; 0 is the default.
func datagrams(buffer, queue int) int {
	if buffer == 0 {
		buffer = defaultBuffers
	}
	if queue == 0 {
		queue = defaultQueues
	}
	const most = 16384 // that of package rsocket
	return min(max(buffer/datagramBytes, 1), queue, most)
}

// open takes a port. s.mu is held.
func (s *rsSocket) open(a netip.AddrPort) C.int {
	reuse := s.reuse
	cfg := rsocket.PacketConfig{
		SendQueue: datagrams(s.cfg.SendBuffer, s.cfg.SendQueue), RecvQueue: datagrams(s.cfg.RecvBuffer,
			s.cfg.RecvQueue),
		TrafficClass: s.cfg.TrafficClass, DualStack: !s.onlyV6,
		DeviceFor: func(local, peer netip.Addr) (*verbs.Device, error) {
			if d := deviceTo(local, peer); d != nil {
				return d, nil
			}
			return nil, syscall.ENETUNREACH
		},
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			for i, name := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
				if reuse&(1<<i) == 0 {
					continue
				}
				if e := c.Control(func(fd uintptr) {
					err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, name, 1)
				}); e != nil || err != nil {
					return errors.Join(e, err)
				}
			}
			return nil
		},
	}
	conn, err := cfg.ListenAddr(a)
	if err != nil {
		return rsErrno(err)
	}
	if s.plain {
		core.Open(conn).SpeakPlain()
	}
	core.Open(conn).Notify(s.wake.ring)
	s.datagram.conn = conn
	return 0
}

// opened returns the socket with a port, which it gets if it has none. s.mu is held.
func (s *rsSocket) opened() C.int {
	if s.datagram.conn != nil {
		return 0
	}
	any := netip.IPv4Unspecified()
	if s.datagram.v6 {
		any = netip.IPv6Unspecified()
	}
	return s.open(netip.AddrPortFrom(any, 0))
}

func (s *rsSocket) bindDatagram(a netip.AddrPort) C.int {
	switch {
	case s.datagram.conn != nil || !a.IsValid():
		return eINVAL
	case !a.Addr().IsUnspecified() && deviceAt(a.Addr()) == nil:
		return C.int(syscall.EADDRNOTAVAIL)
	}
	e := s.open(a)
	if e == 0 {
		remark("listening on %v", s.datagram.conn.LocalAddr().(rsocket.Addr).AddrPort)
	}
	return e
}

func (s *rsSocket) connectDatagram(to netip.AddrPort) C.int {
	if !to.IsValid() {
		return eINVAL
	}
	if e := s.opened(); e != 0 {
		return e
	}
	return rsErrno(s.datagram.conn.Connect(to))
}

func (d *rsDatagram) close() C.int {
	if d.conn == nil {
		return 0
	}
	core.Open(d.conn).Notify(nil)
	return rsErrno(d.conn.Close())
}

// name returns an address; ok is false if there is no peer.
func (d *rsDatagram) name(peer bool) (a netip.AddrPort, ok bool) {
	if !peer {
		if d.conn != nil {
			a = d.conn.LocalAddr().(rsocket.Addr).AddrPort
		}
		return a, true
	}
	if d.conn == nil || d.conn.RemoteAddr() == nil {
		return a, false
	}
	return d.conn.RemoteAddr().(rsocket.Addr).AddrPort, true
}

// ready returns what there is. A socket without a port gets one when it sends.
func (d *rsDatagram) ready(notify bool, by core.Sleeper) C.uint32_t {
	if d.conn == nil {
		return C.POLLOUT
	}
	if notify {
		return pollBits(core.Open(d.conn).ReadyOrNotify(by))
	}
	return pollBits(core.Open(d.conn).Ready())
}

// withDatagram runs f for the datagram socket of a handle, without a lock: its calls have their
// own.
func withDatagram(handle C.goroce_handle, open bool, f func(c *rsocket.PacketConn) C.int) C.int {
	var conn *rsocket.PacketConn
	e := withSocket(handle, func(s *rsSocket) C.int {
		if s.datagram == nil {
			return C.int(syscall.EOPNOTSUPP)
		}
		if open {
			if e := s.opened(); e != 0 {
				return e
			}
		}
		if conn = s.datagram.conn; conn == nil {
			return eINVAL // as librdmacm: nobody could send to it
		}
		return 0
	})
	if e != 0 {
		return e
	}
	return f(conn)
}

//export goroce_rs_recv_from
func goroce_rs_recv_from(handle C.goroce_handle, buf unsafe.Pointer, n C.size_t, peek C.int,
	from *C.struct_sockaddr_storage, whole *C.size_t) C.int {
	*whole = 0
	defer mirrored(handle, C.POLLIN)
	return withDatagram(handle, false, func(c *rsocket.PacketConn) C.int {
		read := core.Open(c).TryReadFrom
		if peek != 0 {
			read = core.Open(c).TryPeekFrom
		}
		var p []byte
		if n > 0 {
			p = unsafe.Slice((*byte)(buf), int(n))
		}
		_, k, a, err := read(p)
		if err != nil {
			return rsErrno(err)
		}
		*whole = C.size_t(k)
		putAddr(from, a)
		return 0
	})
}

//export goroce_rs_send_to
func goroce_rs_send_to(handle C.goroce_handle, buf unsafe.Pointer, n C.size_t, sa *C.struct_sockaddr) C.int {
	var to netip.AddrPort
	if sa != nil {
		to = peerAddr(addrOf(sa))
	}
	defer mirrored(handle, C.POLLOUT)
	return withDatagram(handle, true, func(c *rsocket.PacketConn) C.int {
		var p []byte
		if n > 0 {
			p = unsafe.Slice((*byte)(buf), int(n))
		}
		return rsErrno(core.Open(c).TryWriteTo(p, to))
	})
}
