package main

/*
#include <poll.h>
#include <stdlib.h>
#include "../include/goroce_rs.h"
*/
import "C"

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goroce/goroce/internal/core"
)

// rsThread is a thread of the program that waits for rsockets: in a call of Go while it looks, and
// in the C half, by its set of epoll, while it sleeps.
type rsThread struct {
	handle uint32
	number int32
	shared *C.struct_goroce_rs_thread
	crews  atomic.Pointer[[]*rsCrew] // of the sockets that it has waited for; it alone changes this
	rung   atomic.Bool               // since it began to look, there may be something
	asleep atomic.Bool               // a ring has to wake it

	// Only the thread itself uses these.
	turn  int  // which of several lenders it looks for
	dozes bool // it has set asleep
}

var rsThreads table[rsThread]

//export goroce_rs_thread
func goroce_rs_thread(c *C.struct_goroce_rs_thread, number C.int, handle *C.goroce_handle) C.int {
	rsThreads.each(func(t *rsThread) { // those that have ended
		if t.ended() {
			t.drop()
		}
	})
	t := &rsThread{number: int32(number), shared: c}
	t.crews.Store(new([]*rsCrew))
	if t.handle = rsThreads.put(t); t.handle == 0 {
		return eNOMEM
	}
	runtime.AddCleanup(t, func(c *C.struct_goroce_rs_thread) { C.free(unsafe.Pointer(c)) }, c)
	*handle = C.goroce_handle(t.handle)
	spreadConns()
	return 0
}

// rsBlocks says that the program has used a stream that blocks.
var rsBlocks atomic.Bool

// spreadConns has connections to come take turns among as many completion vectors as there are
// threads that wait. Threads that wait for different vectors receive side by side, but all that one
// thread waits for is cheapest on one. A program whose streams block mostly has a thread for each,
// which it may begin later.
func spreadConns() {
	threads := 0
	rsThreads.each(func(*rsThread) { threads++ })
	makeRoom(threads)
	if rsBlocks.Load() {
		threads = maxVectors
	}
	devices.mu.Lock()
	defer devices.mu.Unlock()
	devices.threads = threads
	for _, d := range devices.open {
		core.Open(d.Device).SpreadOver(threads)
	}
}

// hold keeps the thread from ending until release, and reports false if it has ended.
func (t *rsThread) hold() bool {
	(*atomic.Int32)(unsafe.Pointer(&t.shared.users)).Add(1)
	there := (*atomic.Int32)(unsafe.Pointer(&t.shared.gone)).Load() == 0
	if !there {
		t.release()
	}
	return there
}

func (t *rsThread) release() { (*atomic.Int32)(unsafe.Pointer(&t.shared.users)).Add(-1) }

// ended reports whether the thread is gone, and does nothing any more.
func (t *rsThread) ended() bool {
	return (*atomic.Int32)(unsafe.Pointer(&t.shared.gone)).Load() == 2
}

// ring tells the thread to look. It is called with the lock of a device held, too.
func (t *rsThread) ring() {
	t.rung.Store(true)
	if !t.asleep.Load() || !t.asleep.Swap(false) {
		return
	}
	rsComing.Add(1)
	t.goes(1)
	if t.hold() {
		ring(int(t.shared.event))
		t.release()
	}
}

// begin begins a look, or says that there will be none.
func (t *rsThread) begin() {
	if t.dozes && !t.asleep.Swap(false) {
		rsComing.Add(-1)
	}
	t.dozes = false
	t.rung.Store(false)
}

// doze comes after a look that has found nothing. It receives, if a shard has lent its seat to a
// crew of the thread, unless one that was woken needs the CPU more: the thread sleeps on what
// comes. doze reports whether to look again; if not, the thread is to sleep.
func (t *rsThread) doze(slept bool) (again bool) {
	if t.rung.Load() {
		return true
	}
	t.comes()
	switch l, c, n := t.lender(); {
	case rsComing.Load() > 0 && !slept:
	case n == 1:
		if c.last.Load() != t.number {
			c.last.Store(t.number)
		}
		if c.looks() {
			l.Await(t.enough, slept)
		} else {
			l.Await(atOnce, slept)
		}
	case n > 1:
		t.turn++
		l.Await(func() bool {
			t.glance(l)
			return t.enough()
		}, slept)
	case !slept && runtime.NumCPU() > 1:
		for start := time.Now(); !t.enough() && time.Since(start) < rsLook; {
		}
	}
	if t.rung.Load() {
		t.goes(1)
		return true
	}
	t.dozes = true
	t.asleep.Store(true)
	return t.rung.Load()
}

// enough reports whether to end a look: there may be something, or others need a CPU or the door.
func (t *rsThread) enough() bool {
	return t.rung.Load() || rsComing.Load() > 0 || t.outside()
}

// atOnce ends a look that has found nothing.
func atOnce() bool { return true }

// outside reports whether threads wait before a door by which this one has come.
func (t *rsThread) outside() bool {
	for came := uint32(t.shared.came); came != 0; came &= came - 1 {
		d := unsafe.Add(unsafe.Pointer(t.shared.doors), bits.TrailingZeros32(came)*C.sizeof_struct_goroce_rs_door)
		if (*atomic.Int32)(d).Load() > 0 {
			return true
		}
	}
	return false
}

// look receives once for a thread that may not come to wait.
func (t *rsThread) look() {
	if l, _, n := t.lender(); n == 1 {
		l.Await(atOnce, false)
		return
	}
	t.glance(nil)
}

// rsLook is how long a thread looks without sleeping while the device's goroutine receives, as
// librdmacm does.
const rsLook = 10 * time.Microsecond

// rsWaiters are the threads that wait for a socket, and its mirror for epoll.
type rsWaiters struct {
	mu      sync.Mutex
	threads []*rsThread
	mirror  atomic.Pointer[rsMirror] // nil: there is none
	crew    atomic.Pointer[rsCrew]   // see rsSocket.crew
}

// add adds a thread.
func (w *rsWaiters) add(t *rsThread) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.threads, t) { // a handler of a signal may have left the call that had added it
		w.threads = slices.DeleteFunc(w.threads, func(o *rsThread) bool { return o.ended() })
		w.threads = append(w.threads, t)
	}
}

func (w *rsWaiters) remove(t *rsThread) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.threads, t); i >= 0 {
		w.threads = slices.Delete(w.threads, i, i+1)
	}
}

// ring wakes all. It is called with the lock of a device held, too.
func (w *rsWaiters) ring() {
	if m := w.mirror.Load(); m != nil {
		m.changed()
	}
	var few [4]*rsThread
	w.mu.Lock()
	all := append(few[:0], w.threads...)
	w.mu.Unlock() // those that are woken want it
	for _, t := range all {
		t.ring()
	}
}

//export goroce_rs_poll
func goroce_rs_poll(items *C.struct_goroce_rs_item, n C.size_t, thread C.goroce_handle, how C.int) C.int {
	all, t := unsafe.Slice(items, int(n)), rsThreads.get(uint32(thread))
	switch {
	case t == nil:
		return rsLookAll(all)
	case how == C.GOROCE_RS_LOOK:
		t.glance(nil)
		return rsLookAll(all)
	case how == C.GOROCE_RS_LEAVE:
		t.leave(all)
		t.begin()
		return 0
	}
	return t.await(all, how == C.GOROCE_RS_SLEPT)
}

// await looks until one of the sockets has something, or until it is better to sleep. It returns
// how many have something.
func (t *rsThread) await(all []C.struct_goroce_rs_item, slept bool) C.int {
	for {
		t.begin()
		found := -1
		for i := 0; i < len(all) && found < 0; i++ {
			if rsLookAt(&all[i], t); all[i].revents != 0 {
				found = i
			}
		}
		switch {
		case found < 0:
			if !t.doze(slept) {
				return 0
			}
			slept = false
			continue
		case len(all) == 1:
			t.leave(all)
			return 1
		}
		t.leave(all[:found+1])
		if n := rsLookAll(all); n > 0 { // or another thread has taken it
			return n
		}
	}
}

// leave has the sockets forget the thread.
func (t *rsThread) leave(all []C.struct_goroce_rs_item) {
	for i := range all {
		if s := rsSockets.get(uint32(all[i].socket)); s != nil {
			s.wake.remove(t)
		}
	}
}

func rsLookAll(all []C.struct_goroce_rs_item) (n C.int) {
	for i := range all {
		if rsLookAt(&all[i], nil); all[i].revents != 0 {
			n++
		}
	}
	return n
}

// rsLookAt fills in what there is for a socket. If t is not nil that is rung when there is more.
func rsLookAt(p *C.struct_goroce_rs_item, t *rsThread) {
	s := rsSockets.get(uint32(p.socket))
	if s == nil {
		p.revents = C.POLLNVAL
		return
	}
	var by core.Sleeper
	if t != nil {
		s.wake.add(t) // before the look, or what comes then would wake nobody
		if c := s.crew(); c != nil && s.wake.mirror.Load() == nil {
			t.join(c)
			by = c
		}
	}
	p.revents = s.ready(p.events, t != nil, by) & (p.events | C.POLLERR | C.POLLHUP)
}
