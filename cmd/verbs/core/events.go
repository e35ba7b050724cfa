package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"container/list"
	"encoding/binary"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/roce/verbs"
)

// one is what adds a count to an eventfd.
var one = func() (b [8]byte) {
	binary.NativeEndian.PutUint64(b[:], 1)
	return b
}()

// count adds one to an eventfd. It does not block: no count is so high.
func count(fd int) {
	for {
		_, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)),
			uintptr(len(one)))
		if errno != syscall.EINTR {
			return
		}
	}
}

// asyncEvent is an asynchronous event for a context.
type asyncEvent struct {
	kind    C.uint32_t // enum ibv_event_type
	element C.uint64_t // the cookie of the object, or the number of the port
	taken   *uint32    // counts those that were taken, under the lock of the queue; nil for a port
}

// asyncQueue is an eventQueue of asynchronous events, which peers can cause. An event that waits
// already is not counted again, and takes its place behind those that came meanwhile, so that what
// is told last of an object is how it is. So no event is lost, and a program that takes none has a
// few for each of its objects.
type asyncQueue struct {
	mu    *sync.Mutex
	order *list.List // of asyncEvent
	at    map[asyncKey]*list.Element
	fd    int
}

// asyncKey is what makes two events equal. The counter stands for the object, whose cookie may be
// another one's later.
type asyncKey struct {
	kind  C.uint32_t
	taken *uint32
}

func (e asyncEvent) key() asyncKey { return asyncKey{e.kind, e.taken} }

func newAsyncQueue(fd int) asyncQueue {
	return asyncQueue{mu: new(sync.Mutex), order: list.New(), at: map[asyncKey]*list.Element{}, fd: fd}
}

// push is called with the lock of a shard held.
func (q *asyncQueue) push(e asyncEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiting := q.at[e.key()]; waiting != nil {
		q.order.MoveToBack(waiting)
		return
	}
	q.at[e.key()] = q.order.PushBack(e)
	count(q.fd)
}

// pop takes the first event, and counts it for its object.
func (q *asyncQueue) pop() (e asyncEvent, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.order.Front()
	if first == nil {
		return e, false
	}
	e = q.order.Remove(first).(asyncEvent)
	delete(q.at, e.key())
	if e.taken != nil {
		*e.taken++
	}
	return e, true
}

// forget drops the events of an object that is gone, and returns how many of it were taken.
func (q *asyncQueue) forget(taken *uint32) uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, kind := range asyncTypes {
		k := asyncKey{kind, taken}
		if waiting := q.at[k]; waiting != nil {
			q.order.Remove(waiting)
			delete(q.at, k)
		}
	}
	return *taken
}

// asyncTypes are the numbers of the events of verbs.
var asyncTypes = map[verbs.EventType]C.uint32_t{
	verbs.EventCQError:         C.IBV_EVENT_CQ_ERR,
	verbs.EventQPFatal:         C.IBV_EVENT_QP_FATAL,
	verbs.EventQPRequestError:  C.IBV_EVENT_QP_REQ_ERR,
	verbs.EventQPAccessError:   C.IBV_EVENT_QP_ACCESS_ERR,
	verbs.EventCommEstablished: C.IBV_EVENT_COMM_EST,
	verbs.EventSQDrained:       C.IBV_EVENT_SQ_DRAINED,
	verbs.EventLastWQEReached:  C.IBV_EVENT_QP_LAST_WQE_REACHED,
	verbs.EventSRQError:        C.IBV_EVENT_SRQ_ERR,
	verbs.EventSRQLimitReached: C.IBV_EVENT_SRQ_LIMIT_REACHED,
	verbs.EventDeviceFatal:     C.IBV_EVENT_DEVICE_FATAL,
	verbs.EventPortActive:      C.IBV_EVENT_PORT_ACTIVE,
	verbs.EventPortError:       C.IBV_EVENT_PORT_ERR,
}

// deliver hands one event to those whom it concerns: the context of an object, or all contexts. It
// is called with the lock of a shard held.
func (d *openDevice) deliver(e verbs.Event) {
	kind, ok := asyncTypes[e.Type]
	if !ok {
		return
	}
	switch {
	case e.QP != nil:
		if q, _ := e.QP.UserData().(*userQP); q != nil {
			q.ctx.async.push(asyncEvent{kind, q.cookie, &q.asyncTaken})
		}
	case e.CQ != nil:
		if q, _ := e.CQ.UserData().(*userCQ); q != nil {
			q.ctx.async.push(asyncEvent{kind, q.cookie, &q.asyncTaken})
		}
	case e.SRQ != nil:
		if s, ok := srqOf.Load(e.SRQ); ok {
			s := s.(*userSRQ)
			s.ctx.async.push(asyncEvent{kind, s.cookie, &s.asyncTaken})
		}
	default:
		// Not under the lock of the devices, which the last goroce_close holds while it ends the
		// device.
		contexts.each(func(c *userContext) {
			if c.openDevice == d {
				c.async.push(asyncEvent{kind: kind, element: 1})
			}
		})
	}
}

//export goroce_async_next
func goroce_async_next(handle C.goroce_handle, e *C.struct_goroce_async) C.int {
	c := contexts.get(uint32(handle))
	if c == nil {
		return eINVAL
	}
	a, ok := c.async.pop()
	if !ok {
		return eNOENT
	}
	e.element, e._type = a.element, a.kind
	return 0
}
