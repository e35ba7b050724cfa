package main

/*
#include "../include/goroce_core.h"
#include "aio.h"
*/
import "C"

import (
	"cmp"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/goroce/goroce/internal/core"
	"golang.org/x/sys/unix"
)

// userChannel is the Go half of an ibv_comp_channel. Its eventfd, of semaphore kind, counts events
// until the program takes them, so that the program can wait by any means. The C half reads one
// count and then takes one event. The events are bounded by how often the program asks for them.
//
// It implements [core.Sleeper]: while a shard has lent its seat to the program's thread, what that
// shard receives by counts the eventfd as well, once, and anew after the program has looked. A
// count without an event, as the end of an object may also leave, means nothing.
type userChannel struct {
	handle  C.goroce_handle
	fd      int
	thread  atomic.Int32             // that has asked last
	lenders atomic.Pointer[[]lender] // changed under mu
	watch   atomic.Uint32
	bare    atomic.Bool // the last look has found no event
	told    atomic.Bool // epoll may have told the program of a count, before it called ibv_get_cq_event
	asked   atomic.Uint32
	epolled atomic.Bool

	mu     sync.Mutex // comes after all locks of shards
	events []*userCQ
	queues []*userCQ
	last   *userCQ // of which the program has taken an event; else any of them
	set    int     // of epoll, with what the lenders receive by; 0: none yet
	dead   bool
	// While a thread receives, the events that come are not counted. It settles that.
	looking, uncounted int
}

// What watch says of the set.
const (
	unwatched = iota
	watched   // it will count
	counted   // it has
)

type lender struct {
	core.Lender
	fds []int
}

var channels table[userChannel]

// polls guards the calls of aio.c.
var polls sync.Mutex

//export goroce_create_channel
func goroce_create_channel(device C.goroce_handle, fd C.int, handle *C.goroce_handle) C.int {
	if contexts.get(uint32(device)) == nil {
		return eINVAL
	}
	ch := &userChannel{fd: int(fd)}
	ch.lenders.Store(new([]lender))
	ch.named()
	*handle = ch.handle
	return full(*handle)
}

// named gives the channel its handle.
func (ch *userChannel) named() { ch.handle = C.goroce_handle(channels.put(ch)) }

//export goroce_destroy_channel
func goroce_destroy_channel(handle C.goroce_handle) C.int {
	ch := channels.drop(uint32(handle))
	if ch == nil {
		return eINVAL
	}
	ch.mu.Lock()
	ch.dead = true
	askers.moved(ch.thread.Load(), 0)
	ch.mu.Unlock()
	ch.recall()
	if ch.set != 0 {
		// What can be read ends the watch, which has a reference to the set.
		count(ch.fd)
		_ = unix.EpollCtl(ch.set, unix.EPOLL_CTL_ADD, ch.fd, &unix.EpollEvent{Events: unix.EPOLLIN})
		unix.Close(ch.set)
	}
	return 0
}

// recall returns when nobody lends anything to the channel.
func (ch *userChannel) recall() {
	for _, l := range *ch.lenders.Load() {
		l.Recall()
		ch.Forget(l.Lender) // it may have been over
	}
}

//export goroce_channel_next
func goroce_channel_next(handle C.goroce_handle, thread C.int, cookie *C.uint64_t) C.int {
	ch := channels.get(uint32(handle))
	if ch == nil {
		return eINVAL
	}
	ch.asks(int32(thread))
	return ch.cookieOf(ch.next(ch.look()), cookie)
}

//export goroce_channel_look
func goroce_channel_look(handle C.goroce_handle, thread, first C.int, cookie *C.uint64_t) C.int {
	ch := channels.get(uint32(handle))
	if ch == nil {
		return eINVAL
	}
	ch.asks(int32(thread))
	ch.told.Store(first != 0 && ch.tells())
	return ch.cookieOf(ch.await(), cookie)
}

func (ch *userChannel) cookieOf(q *userCQ, cookie *C.uint64_t) C.int {
	ch.bare.Store(q == nil)
	if q == nil {
		return eNOENT
	}
	*cookie = q.cookie
	return 0
}

// asks notes which thread asks.
func (ch *userChannel) asks(thread int32) {
	if ch.thread.Load() == thread {
		return
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.dead {
		askers.moved(ch.thread.Swap(thread), thread)
	}
}

// askers are the threads that ask channels for events.
var askers threadCount

type threadCount struct {
	n        atomic.Int32
	mu       sync.Mutex // comes after all others
	channels map[int32]int
}

// moved notes that a channel which one thread asked is asked by another; 0 is none.
func (c *threadCount) moved(from, to int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channels == nil {
		c.channels = make(map[int32]int)
	}
	if c.channels[from]--; c.channels[from] <= 0 {
		delete(c.channels, from)
	}
	if to != 0 {
		c.channels[to]++
	}
	c.n.Store(int32(len(c.channels)))
}

// await receives before the thread sleeps, for as long as that costs less than a sleep, and returns
// the first event; nil if the thread is to sleep.
func (ch *userChannel) await() *userCQ {
	l := ch.inside()
	if l == nil {
		return nil
	}
	ch.mu.Lock()
	ch.looking++
	ch.mu.Unlock()
	if !ch.some() {
		l.Await(ch.some, false)
	}
	none := !ch.some()
	q := ch.next(true)
	// What has come may have counted the eventfd as well. That stays while there are events.
	if none && ch.counted() {
		drain(ch.fd)
		ch.watchAgain()
	}
	return q
}

// some reports whether there are events.
func (ch *userChannel) some() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return len(ch.events) > 0
}

// blocks reports whether the program waits for events in ibv_get_cq_event.
func (ch *userChannel) blocks() bool {
	flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(ch.fd), syscall.F_GETFL, 0)
	return errno != 0 || flags&syscall.O_NONBLOCK == 0
}

// inside returns what lends its seat to the thread in ibv_get_cq_event; nil if several do, or none.
// It is nil, too, where more threads ask than half of the CPUs: their peers may be on this machine,
// and need the other half.
func (ch *userChannel) inside() core.Lender {
	all := *ch.lenders.Load()
	if len(all) == 1 && int(askers.n.Load()) <= max(runtime.NumCPU()/2, 1) && ch.blocks() {
		return all[0].Lender
	}
	return nil
}

// look receives after the eventfd was read, if that is the thread's turn. After true, call next.
func (ch *userChannel) look() bool {
	if !ch.counted() {
		return false
	}
	ch.mu.Lock()
	ch.looking++
	ch.mu.Unlock()
	if l := ch.inside(); l != nil && !ch.some() {
		l.Await(ch.some, true)
	} else {
		for _, l := range *ch.lenders.Load() {
			l.Glance()
		}
	}
	ch.watchAgain()
	return true
}

// tells reports whether the program may call because epoll has told it of a count.
func (ch *userChannel) tells() bool { return ch.counts() && ch.byEpoll() }

// byEpoll reports whether the program waits for the channel by epoll. One that just calls, as
// perftest does, sends more after each event, and so must have no event without a completion. The
// first call finds out, the 64th, the 4,096th and so on.
func (ch *userChannel) byEpoll() bool {
	if n := ch.asked.Add(1); n&(n-1) == 0 && bits.TrailingZeros32(n)%6 == 0 && !ch.epolled.Load() {
		ch.epolled.Store(epolled(ch.fd))
	}
	return ch.epolled.Load()
}

// counted is counts, after which the set is to be watched again.
func (ch *userChannel) counted() bool {
	return ch.counts() && ch.watch.CompareAndSwap(counted, unwatched)
}

// counts reports whether the set has counted the eventfd.
func (ch *userChannel) counts() bool {
	if ch.watch.Load() == unwatched {
		return false
	}
	polls.Lock()
	for {
		name := C.goroce_aio_next()
		if name == 0 {
			break
		}
		if c := channels.get(uint32(name)); c != nil {
			c.watch.CompareAndSwap(watched, counted)
		}
	}
	polls.Unlock()
	return ch.watch.Load() == counted
}

// watchAgain is rearm, or else has the shards receive.
func (ch *userChannel) watchAgain() {
	ch.mu.Lock()
	ok := ch.rearm()
	ch.mu.Unlock()
	if !ok {
		ch.recall()
	}
}

// rearm watches the set, if anything is in it. mu is held.
func (ch *userChannel) rearm() bool {
	if len(*ch.lenders.Load()) == 0 || !ch.watch.CompareAndSwap(unwatched, watched) {
		return true
	}
	polls.Lock()
	defer polls.Unlock()
	if C.goroce_aio_open() == 0 && C.goroce_aio_poll(C.int(ch.set), C.int(ch.fd), C.uint64_t(ch.handle)) == 0 {
		return true
	}
	ch.watch.Store(unwatched)
	return false
}

// push is called by the thread that has met the event, and wakes the program. That may run at once,
// and asks for it, so the lock is free by then: to wait for one of Go's in a call from C costs
// four switches of threads.
func (ch *userChannel) push(q *userCQ) {
	ch.mu.Lock()
	counts := ch.looking == 0
	ch.events = append(ch.events, q)
	if !counts {
		ch.uncounted++
	}
	ch.mu.Unlock()
	if counts {
		count(ch.fd)
	}
}

// next takes the first event, before forget can look; nil if there is none. looked says that the
// count was for what look has received. A program that does not block, or that epoll has told of a
// count, may count on an event, so it has one of the last queue if there is none. It cannot count
// on a completion: it asks for the next event before it polls.
func (ch *userChannel) next(looked bool) *userCQ {
	ch.mu.Lock()
	q, counts := (*userCQ)(nil), 0
	if looked {
		ch.looking--
		counts, ch.uncounted = ch.uncounted, 0
	}
	if len(ch.events) > 0 {
		q = ch.events[0]
		ch.events = slices.Delete(ch.events, 0, 1)
		if looked {
			counts--
		}
	} else if ch.told.Load() || !ch.blocks() {
		q = ch.last
	}
	if q != nil {
		ch.last = q
		q.compTaken++
	}
	ch.mu.Unlock()
	for ; counts > 0; counts-- {
		count(ch.fd)
	}
	if counts < 0 {
		drain(ch.fd)
	}
	return q
}

// joins notes that the channel has a queue.
func (ch *userChannel) joins(q *userCQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.queues = append(ch.queues, q)
	ch.last = cmp.Or(ch.last, q)
}

// forget drops the events of a queue that is gone, and returns how many of its events were taken.
func (ch *userChannel) forget(q *userCQ) uint32 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.events = slices.DeleteFunc(ch.events, func(e *userCQ) bool { return e == q })
	ch.queues = slices.DeleteFunc(ch.queues, func(e *userCQ) bool { return e == q })
	if ch.last == q {
		ch.last = cmp.Or(ch.queues...)
	}
	return q.compTaken
}

// Thread says which thread waits; see [core.Sleeper].
func (ch *userChannel) Thread() int { return int(ch.thread.Load()) }

// Inside is that of [core.Sleeper].
func (ch *userChannel) Inside() bool { return false }

// Busy is that of [core.Sleeper].
func (ch *userChannel) Busy() int { return 0 }

// Watch has the descriptors count the eventfd; see [core.Sleeper].
func (ch *userChannel) Watch(l core.Lender, fds []int) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.dead || ch.thread.Load() == 0 {
		return false
	}
	if ch.set == 0 {
		set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return false
		}
		ch.set = set
	}
	before := *ch.lenders.Load()
	all := append(slices.Clone(before), lender{l, fds})
	ch.lenders.Store(&all)
	for _, fd := range fds {
		if unix.EpollCtl(ch.set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}) != nil {
			ch.unwatch(fds)
			ch.lenders.Store(&before)
			return false
		}
	}
	if !ch.rearm() {
		ch.unwatch(fds)
		ch.lenders.Store(&before)
		return false
	}
	return true
}

// Forget undoes Watch.
func (ch *userChannel) Forget(l core.Lender) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	all := slices.Clone(*ch.lenders.Load())
	if i := slices.IndexFunc(all, func(x lender) bool { return x.Lender == l }); i >= 0 {
		ch.unwatch(all[i].fds)
		all = slices.Delete(all, i, i+1)
		ch.lenders.Store(&all)
	}
}

func (ch *userChannel) unwatch(fds []int) {
	for _, fd := range fds {
		_ = unix.EpollCtl(ch.set, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// Idle reports whether the eventfd cannot be read; see [core.Sleeper].
func (ch *userChannel) Idle() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(ch.fd), Events: unix.POLLIN}}, 0)
	return n == 0 && err == nil
}
