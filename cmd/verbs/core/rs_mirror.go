package main

/*
#include <poll.h>
#include "../include/goroce_rs.h"
*/
import "C"

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/internal/core"
	"golang.org/x/sys/unix"
)

// rsMirror makes the descriptor of a socket readable and writable when the socket is, so that the
// kernel's epoll works for it as for any other, by level, by edge and for one shot. The descriptor
// is an end of a pair of AF_UNIX: it is readable while a byte lies in it, and writable unless it is
// filled. The contract is in ../include/goroce_rs.h.
//
// sync looks and mirrors with mu held, which comes before the locks of the socket, after it has
// asked to be told of changes: what changes after the last look brings another one. Programs that
// wait for edges stop at a call that was not done in full. Such a call syncs with again, and if
// there is more meanwhile, there is another edge.
type rsMirror struct {
	s    *rsSocket
	set  atomic.Pointer[rsSet] // the last one that it was put into
	mine int                   // our descriptor of the program's end
	far  int                   // the other end

	isQueued atomic.Bool // somebody will sync it

	mu      sync.Mutex
	in, out bool
	bytes   int // that make it readable
	shut    rsShut
	noWrite bool // the program writes no more
	closed  bool
}

// rsShut is how far a mirror has come to the end of its socket.
type rsShut uint8

const (
	rsOpen    rsShut = iota
	rsPeerEnd        // EPOLLRDHUP: nothing more will come
	rsHungUp         // EPOLLHUP, too
)

// maxMirrorBytes bounds the bytes that lie in a pair.
const maxMirrorBytes = 64

// rsMirrors are those that are to be synced by a goroutine, since no thread waits for their set: a
// socket tells of changes where nothing may be called.
var rsMirrors rsQueue

type rsQueue struct {
	start  sync.Once
	mu     sync.Mutex
	queue  []*rsMirror
	filled chan struct{}
}

//export goroce_rs_mirror
func goroce_rs_mirror(handle C.goroce_handle, mine, far C.int) C.int {
	if mine < 0 {
		if s := rsSockets.get(uint32(handle)); s != nil && s.wake.mirror.Load() != nil {
			s.wake.mirror.Load().close()
		}
		return 0
	}
	rsMirrors.start.Do(func() {
		rsMirrors.filled = make(chan struct{}, 1)
		go syncMirrors()
	})
	m := &rsMirror{mine: int(mine), far: int(far), out: true}
	e := withSocket(handle, func(s *rsSocket) C.int {
		if s.wake.mirror.Load() != nil {
			return eINVAL
		}
		m.s = s
		s.wake.mirror.Store(m)
		return 0
	})
	if e == 0 {
		m.sync(0)
	}
	return e
}

// changed has the mirror synced soon. It may be called with locks of a device or a socket held.
func (m *rsMirror) changed() {
	if m.isQueued.Swap(true) {
		return
	}
	if s := m.set.Load(); s == nil || !s.add(m) {
		rsMirrors.add(m)
	}
}

func (q *rsQueue) add(m *rsMirror) {
	q.mu.Lock()
	q.queue = append(q.queue, m)
	q.mu.Unlock()
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

func syncMirrors() {
	var batch []*rsMirror
	for range rsMirrors.filled {
		rsMirrors.mu.Lock()
		batch, rsMirrors.queue = rsMirrors.queue, batch[:0]
		rsMirrors.mu.Unlock()
		for _, m := range batch {
			m.isQueued.Store(false) // what changes from now on counts again
			m.sync(0)
		}
		clear(batch)
	}
}

// mirrored syncs the mirror of a socket, if it has one, after a call for it. again is what the call
// has found no more of.
func mirrored(handle C.goroce_handle, again C.uint32_t) {
	if s := rsSockets.get(uint32(handle)); s != nil {
		if m := s.wake.mirror.Load(); m != nil {
			m.sync(again)
		}
	}
}

func (m *rsMirror) sync(again C.uint32_t) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	var by core.Sleeper
	if s := m.set.Load(); s != nil && s.waited.Load() {
		if c := m.s.crew(); c != nil {
			s.has(c)
			by = c
		}
	}
	have := m.s.ready(C.POLLIN, true, by) // with POLLHUP when all data is read
	switch {                              // the end first: it makes the descriptor readable, too, with one edge
	case have&(C.POLLIN|C.POLLERR|C.POLLHUP) == 0:
	case have&C.POLLERR != 0, have&C.POLLHUP != 0 && m.noWrite:
		m.end(rsHungUp)
	case have&C.POLLHUP != 0, have&C.POLLIN != 0 && m.s.atEnd():
		m.end(rsPeerEnd)
	}
	m.readable(have&C.POLLIN != 0, again&C.POLLIN != 0)
	m.writable(have&C.POLLOUT != 0, again&C.POLLOUT != 0)
}

// atEnd reports whether all data is read, and no more will come.
func (s *rsSocket) atEnd() bool {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return false
	}
	var b [1]byte
	_, err := core.Open(conn).TryPeek(b[:])
	return err == io.EOF
}

// readable makes the descriptor readable or not, with an edge if it becomes readable, or is so
// again.
func (m *rsMirror) readable(is, again bool) {
	if m.shut != rsOpen || is == m.in && !(is && again) {
		return // at its end it is readable for ever
	}
	if !is || m.bytes == maxMirrorBytes {
		m.take(m.mine)
		m.bytes = 0
	}
	if is {
		_, _ = unix.Write(m.far, []byte{0}) // there is room
		m.bytes++
	}
	m.in = is
}

// writable makes the descriptor writable or not, with an edge if it becomes writable, or is so
// again.
func (m *rsMirror) writable(is, again bool) {
	if m.shut == rsHungUp || is == m.out && !(is && again) {
		return
	}
	if is && m.out {
		_, _ = unix.Write(m.mine, []byte{0}) // what is taken out of it makes the edge
	}
	if is {
		m.take(m.far)
	} else {
		m.fill()
	}
	m.out = is
}

// end says that nothing more comes, by the shutdown of a side of the pair.
func (m *rsMirror) end(how rsShut) {
	if how <= m.shut {
		return
	}
	m.take(m.far) // an end is no reason to wait
	m.shut, m.out = how, true
	_ = unix.Shutdown(m.far, unix.SHUT_WR)
	if how == rsHungUp {
		_ = unix.Shutdown(m.mine, unix.SHUT_RDWR)
	}
}

// take takes all that lies in an end.
func (m *rsMirror) take(fd int) {
	var b [4096]byte
	for {
		if n, err := unix.Read(fd, b[:]); err != unix.EINTR && n < len(b) {
			return
		}
	}
}

// fill fills the program's end: its buffer is as small as the kernel has it, and a page is enough
// for most.
func (m *rsMirror) fill() {
	var b [4096]byte
	for {
		if _, err := unix.Write(m.mine, b[:]); err != nil && err != unix.EINTR {
			return
		}
	}
}

// wroteLast notes that the program writes no more.
func (m *rsMirror) wroteLast() {
	m.mu.Lock()
	m.noWrite = true
	m.mu.Unlock()
}

// close leaves the descriptors to the C half.
func (m *rsMirror) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
}
