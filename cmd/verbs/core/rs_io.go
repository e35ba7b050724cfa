package main

/*
#include <poll.h>
#include "../include/goroce_rs.h"
*/
import "C"

import (
	"io"
	"math"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rsocket"
)

// vector returns the memory of the program that a call is about.
func vector(iov *C.struct_iovec, count C.int) []C.struct_iovec {
	return unsafe.Slice(iov, int(count))
}

func memoryOf(v *C.struct_iovec) []byte {
	return unsafe.Slice((*byte)(v.iov_base), int(v.iov_len))
}

//export goroce_rs_recv
func goroce_rs_recv(handle C.goroce_handle, iov *C.struct_iovec, count, peek C.int, n *C.size_t) C.int {
	*n = 0
	e := receive(handle, iov, count, peek, n)
	if peek == 0 {
		mirrored(handle, ifShort(vector(iov, count), *n, C.POLLIN))
	}
	return e
}

//export goroce_rs_recv_wait
func goroce_rs_recv_wait(handle C.goroce_handle, iov *C.struct_iovec, count, peek C.int,
	thread C.goroce_handle, how C.int, n *C.size_t) C.int {
	t := rsThreads.get(uint32(thread))
	if t == nil {
		return goroce_rs_recv(handle, iov, count, peek, n)
	}
	item := C.struct_goroce_rs_item{socket: handle, events: C.POLLIN}
	s := rsSockets.get(uint32(handle))
	slept := how == C.GOROCE_RS_SLEPT
	// The first time a look is cheaper, which leaves receiving to doze. If the socket is in a set
	// of epoll, there is mostly something, and a look would have the goroutine receive.
	for asked := slept || s == nil || !s.is(rsConnected) || s.wake.mirror.Load() != nil; ; asked = true {
		t.begin()
		e := C.int(syscall.EAGAIN)
		if asked {
			e = goroce_rs_recv(handle, iov, count, peek, n)
		}
		if e == C.int(syscall.EAGAIN) {
			if rsLookAt(&item, t); item.revents == 0 {
				if !t.doze(slept) {
					return e
				}
				slept = false
			}
			continue
		}
		if s := rsSockets.get(uint32(handle)); s != nil {
			s.wake.remove(t)
		}
		return e
	}
}

// ifShort returns an event if a call has moved less than it was asked to.
func ifShort(v []C.struct_iovec, n C.size_t, event C.uint32_t) C.uint32_t {
	for i := range v {
		if v[i].iov_len > n {
			return event
		}
		n -= v[i].iov_len
	}
	return 0
}

func receive(handle C.goroce_handle, iov *C.struct_iovec, count, peek C.int, n *C.size_t) C.int {
	return withConn(handle, func(c *rsocket.Conn) C.int {
		read := core.Open(c).TryRead
		if peek != 0 {
			read = core.Open(c).TryPeek
			count = min(count, 1) // there is no second look behind what was seen
		}
		for i := range vector(iov, count) {
			p := memoryOf(&vector(iov, count)[i])
			if len(p) == 0 {
				continue
			}
			k, err := read(p)
			*n += C.size_t(k)
			if err != nil || k < len(p) {
				if *n > 0 || err == io.EOF {
					return 0
				}
				return rsErrno(err)
			}
		}
		return 0
	})
}

//export goroce_rs_send
func goroce_rs_send(handle C.goroce_handle, iov *C.struct_iovec, count C.int, n *C.size_t) C.int {
	*n = 0
	e := send(handle, iov, count, n)
	mirrored(handle, ifShort(vector(iov, count), *n, C.POLLOUT))
	return e
}

func send(handle C.goroce_handle, iov *C.struct_iovec, count C.int, n *C.size_t) C.int {
	return withConn(handle, func(c *rsocket.Conn) C.int {
		for i := range vector(iov, count) {
			p := memoryOf(&vector(iov, count)[i])
			if len(p) == 0 {
				continue
			}
			k, err := core.Open(c).TryWrite(p)
			*n += C.size_t(k)
			if err != nil || k < len(p) {
				if *n > 0 {
					return 0
				}
				return rsErrno(err)
			}
		}
		return 0
	})
}

//export goroce_rs_shutdown
func goroce_rs_shutdown(handle C.goroce_handle, how C.int) C.int {
	if s := rsSockets.get(uint32(handle)); s != nil && s.is(rsConnecting) {
		return C.int(syscall.ENOTCONN)
	}
	if s := rsSockets.get(uint32(handle)); s != nil && how != syscall.SHUT_RD {
		if m := s.wake.mirror.Load(); m != nil {
			m.wroteLast()
		}
	}
	defer mirrored(handle, 0)
	return withConn(handle, func(c *rsocket.Conn) C.int {
		switch how {
		case syscall.SHUT_RD:
			return rsErrno(c.CloseRead())
		case syscall.SHUT_WR:
			return rsErrno(core.Open(c).TryCloseWrite())
		case syscall.SHUT_RDWR:
			return rsErrno(core.Open(c).TryDisconnect())
		}
		return eINVAL
	})
}

func (s *rsSocket) is(state rsState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == state
}

// rsMapping is memory of the program that the peer writes.
type rsMapping struct {
	buf unsafe.Pointer
	n   int
	off int64
	m   *rsocket.Mapping
}

//export goroce_rs_iomap
func goroce_rs_iomap(handle C.goroce_handle, buf unsafe.Pointer, n C.size_t, offset *C.int64_t) C.int {
	if n == 0 || n > math.MaxUint32 {
		return eINVAL
	}
	return withStream(handle, func(s *rsSocket) C.int {
		if s.state != rsConnected {
			return C.int(syscall.ENOTCONN)
		}
		off := int64(*offset)
		if off < 0 {
			off = int64(uintptr(buf)) // as librdmacm: an address is as good as any other name
		}
		m, err := core.Open(s.conn).TryMap(unsafe.Slice((*byte)(buf), int(n)), off)
		if err != nil {
			return rsErrno(err)
		}
		s.maps = append(s.maps, &rsMapping{buf, int(n), off, m})
		*offset = C.int64_t(off)
		return 0
	})
}

//export goroce_rs_iounmap
func goroce_rs_iounmap(handle C.goroce_handle, buf unsafe.Pointer, n C.size_t) C.int {
	return withStream(handle, func(s *rsSocket) C.int {
		for i, m := range s.maps {
			if m.buf == buf && m.n == int(n) {
				s.maps = append(s.maps[:i], s.maps[i+1:]...)
				return rsErrno(m.m.Close())
			}
		}
		return eINVAL
	})
}

//export goroce_rs_iowrite
func goroce_rs_iowrite(handle C.goroce_handle, buf unsafe.Pointer, n C.size_t, offset C.int64_t, done *C.size_t) C.int {
	*done = 0
	defer mirrored(handle, C.POLLOUT)
	return withConn(handle, func(c *rsocket.Conn) C.int {
		k, err := core.Open(c).TryWriteAt(unsafe.Slice((*byte)(buf), int(n)), int64(offset))
		*done = C.size_t(k)
		if k > 0 {
			return 0
		}
		return rsErrno(err)
	})
}
