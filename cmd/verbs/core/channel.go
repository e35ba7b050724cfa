package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/goroce/goroce/internal/core"
	"golang.org/x/sys/unix"
)

// userChannel is the Go half of an ibv_comp_channel. The program waits by a set of epoll, which has
// the eventfd of the events and, while a shard has lent its seat to the program's thread, what that
// shard receives by. It implements [core.Sleeper].
type userChannel struct {
	events  eventQueue[*userCQ]
	set     int
	lent    *atomic.Int32 // of the C half: some lender is there
	thread  atomic.Int32  // that has asked last
	lenders atomic.Pointer[[]core.Lender]

	mu   sync.Mutex // held by callers that hold locks of a shard
	at   map[core.Lender][]int
	dead bool
	// At the last call of Presence: the time, and the CPU time of the thread.
	then, ran time.Duration
}

var channels table[userChannel]

var began = time.Now()

//export goroce_create_channel
func goroce_create_channel(device C.goroce_handle, set, fd C.int, lent *C.int32_t, handle *C.goroce_handle) C.int {
	if contexts.get(uint32(device)) == nil {
		return eINVAL
	}
	ch := &userChannel{
		events: newEventQueue[*userCQ](int(fd)), set: int(set), lent: (*atomic.Int32)(unsafe.Pointer(lent)), at: map[core.Lender][]int{},
	}
	*handle = C.goroce_handle(channels.put(ch))
	return full(*handle)
}

//export goroce_destroy_channel
func goroce_destroy_channel(handle C.goroce_handle) C.int {
	ch := channels.drop(uint32(handle))
	if ch == nil {
		return eINVAL
	}
	ch.mu.Lock()
	ch.dead = true
	ch.mu.Unlock()
	ch.recall()
	return 0
}

// recall returns when nobody lends anything to the channel.
func (ch *userChannel) recall() {
	if p := ch.lenders.Load(); p != nil {
		for _, l := range *p {
			l.Recall()
			ch.Forget(l) // it may have been over
		}
	}
}

//export goroce_channel_recall
func goroce_channel_recall(handle C.goroce_handle) {
	if ch := channels.get(uint32(handle)); ch != nil {
		ch.recall()
	}
}

//export goroce_channel_next
func goroce_channel_next(handle C.goroce_handle, thread C.int, counted C.int, cookie *C.uint64_t) C.int {
	ch := channels.get(uint32(handle))
	if ch == nil {
		return eINVAL
	}
	if ch.thread.Load() != int32(thread) {
		ch.thread.Store(int32(thread))
	}
	taken := func(q *userCQ) {
		*cookie = q.cookie
		q.compTaken++
	}
	found := false
	if counted != 0 {
		found = ch.events.pop(taken)
	} else {
		found = ch.events.popAfter(ch.glance, taken)
	}
	if !found {
		return eNOENT
	}
	return 0
}

// glance receives.
func (ch *userChannel) glance() {
	if p := ch.lenders.Load(); p != nil {
		for _, l := range *p {
			l.Glance()
		}
	}
}

// popAfter is pop after a call of look, which may bring events, and takes a count for the event.
func (q *eventQueue[E]) popAfter(look func(), taken func(E)) bool {
	q.mu.Lock()
	q.looking++
	q.mu.Unlock()
	look()
	q.mu.Lock()
	q.looking--
	more, found := q.uncounted, len(q.events) > 0
	q.uncounted = 0
	if found {
		taken(q.events[0])
		q.events = slices.Delete(q.events, 0, 1)
		more--
	}
	q.mu.Unlock()
	for ; more > 0; more-- {
		count(q.fd)
	}
	if more < 0 && found {
		drain(q.fd)
	}
	return found
}

// Thread says which thread waits; see [core.Sleeper].
func (ch *userChannel) Thread() int { return int(ch.thread.Load()) }

// Willing reports whether the program has made the descriptor a non-blocking one. It would wait in
// ibv_get_cq_event otherwise, for an event that may not be there.
func (ch *userChannel) Willing() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(ch.set), syscall.F_GETFL, 0)
	return !ch.dead && ch.thread.Load() != 0 && errno == 0 && flags&syscall.O_NONBLOCK != 0
}

// Watch adds descriptors to the set; see [core.Sleeper].
func (ch *userChannel) Watch(l core.Lender, fds []int) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.dead {
		return false
	}
	for i, fd := range fds {
		err := unix.EpollCtl(ch.set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		if err != nil && err != unix.EEXIST { // of a parent that has gone
			ch.unwatch(fds[:i])
			return false
		}
	}
	ch.at[l] = fds
	ch.publish()
	ch.then, ch.ran = time.Since(began), ch.cpuTime()
	return true
}

// Forget undoes Watch.
func (ch *userChannel) Forget(l core.Lender) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if fds, ok := ch.at[l]; ok {
		ch.unwatch(fds)
		delete(ch.at, l)
		ch.publish()
	}
}

func (ch *userChannel) unwatch(fds []int) {
	for _, fd := range fds {
		_ = unix.EpollCtl(ch.set, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// publish tells those without the lock who lends. mu is held.
func (ch *userChannel) publish() {
	var all []core.Lender
	for l := range ch.at {
		all = append(all, l)
	}
	ch.lenders.Store(&all)
	if !ch.dead {
		ch.lent.Store(int32(len(all)))
	}
}

// cpuTime returns the CPU time of the thread; 0 if that has gone.
func (ch *userChannel) cpuTime() time.Duration {
	const perThread, scheduled = 4, 2
	var ts unix.Timespec
	_ = unix.ClockGettime(^ch.thread.Load()<<3|perThread|scheduled, &ts)
	return time.Duration(ts.Nano())
}

// Presence says what the thread does; see [core.Sleeper].
func (ch *userChannel) Presence() core.Presence {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	now, ran := time.Since(began), ch.cpuTime()
	much := ran-ch.ran > (now-ch.then)/2
	ch.then, ch.ran = now, ran
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(ch.set), Events: unix.POLLIN}}, 0)
	switch {
	case n == 0 && err == nil:
		return core.Idle
	case !much && ch.runnable():
		return core.Starved
	}
	return core.Away
}

// runnable reports whether the thread runs or waits for a CPU.
func (ch *userChannel) runnable() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", ch.thread.Load()))
	i := bytes.LastIndexByte(b, ')') // the end of its name
	return err == nil && i >= 0 && bytes.HasPrefix(b[i:], []byte(") R"))
}
