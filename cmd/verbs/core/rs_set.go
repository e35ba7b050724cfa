package main

/*
#include <errno.h>
#include "../include/goroce_rs.h"
*/
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rsSet is a set of epoll of the program that sockets are in, by its number. The thread that waits
// for it receives meanwhile, and syncs the mirrors of its sockets. It leaves to the kernel what the
// set has then. A second thread, and a thread that waits by poll or for a set with this one in it,
// wait for the kernel alone. While no thread is in a call here, the goroutine syncs.
type rsSet struct {
	waited atomic.Bool               // a thread has, and will again
	crews  atomic.Pointer[[]*rsCrew] // of its sockets; changed under mu

	mu     sync.Mutex // comes after all locks of shards
	inside *rsThread  // it will sync what is queued
	queue  []*rsMirror
	batch  []*rsMirror // only that thread uses it
}

var rsSets sync.Map // by the number

//export goroce_rs_member
func goroce_rs_member(handle C.goroce_handle, set C.int) C.int {
	s := rsSockets.get(uint32(handle))
	if s == nil || s.wake.mirror.Load() == nil {
		return eINVAL
	}
	v, ok := rsSets.Load(set)
	if !ok {
		n := new(rsSet)
		n.crews.Store(new([]*rsCrew))
		v, _ = rsSets.LoadOrStore(set, n)
	}
	s.wake.mirror.Load().set.Store(v.(*rsSet))
	return 0
}

//export goroce_rs_epoll
func goroce_rs_epoll(set C.int, events *C.struct_epoll_event, most C.int, thread C.goroce_handle, how C.int) C.int {
	v, _ := rsSets.Load(set)
	s, t := v.(*rsSet), rsThreads.get(uint32(thread))
	switch {
	case t == nil || !s.enter(t):
		return -C.EBUSY
	case how == C.GOROCE_RS_LEAVE:
		s.leave()
		t.begin()
		return 0
	}
	for _, c := range *s.crews.Load() {
		t.join(c)
	}
	if how != C.GOROCE_RS_SLEPT {
		t.comes()
		t.look()
	}
	for slept := how == C.GOROCE_RS_SLEPT; ; slept = false {
		t.begin()
		if s.sync(t) || !slept {
			n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(set), uintptr(unsafe.Pointer(events)),
				uintptr(most), 0, 0, 0)
			if e != 0 || n != 0 || how == C.GOROCE_RS_LOOK {
				s.leave()
				if e != 0 {
					return -C.int(e)
				}
				if n > 0 {
					t.goes(int(n))
				}
				return C.int(n)
			}
		}
		if !t.doze(slept) {
			return 0
		}
	}
}

// has notes the crew of a socket in the set, which who waits for the set joins.
func (s *rsSet) has(c *rsCrew) {
	if slices.Contains(*s.crews.Load(), c) {
		return
	}
	s.mu.Lock()
	all := append(slices.Clone(*s.crews.Load()), c)
	s.crews.Store(&all)
	s.mu.Unlock()
}

// enter reports whether the thread may wait here.
func (s *rsSet) enter(t *rsThread) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside != nil && s.inside != t && !s.inside.ended() {
		return false
	}
	s.inside = t
	if !s.waited.Load() {
		s.waited.Store(true)
	}
	return true
}

// leave is for the thread that is inside.
func (s *rsSet) leave() {
	s.mu.Lock()
	s.inside = nil
	left := s.queue
	s.queue = nil
	s.mu.Unlock()
	for _, m := range left {
		rsMirrors.add(m)
	}
}

// sync is for the thread that is inside. It reports whether there was anything to do.
func (s *rsSet) sync(t *rsThread) bool {
	s.mu.Lock()
	s.batch, s.queue = s.queue, s.batch[:0]
	s.mu.Unlock()
	for _, m := range s.batch {
		m.isQueued.Store(false)
		m.sync(0)
	}
	clear(s.batch)
	return len(s.batch) > 0
}

// add has the thread that is inside sync a mirror, and reports whether there is one.
func (s *rsSet) add(m *rsMirror) bool {
	s.mu.Lock()
	t := s.inside
	if t != nil && t.ended() {
		t, s.inside = nil, nil
	}
	if t != nil {
		s.queue = append(s.queue, m)
	}
	s.mu.Unlock()
	if t != nil {
		t.ring()
	}
	return t != nil
}
