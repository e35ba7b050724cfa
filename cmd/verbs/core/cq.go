package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"errors"
	"unsafe"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// The ring is as the stack lays it out.
var (
	_ = [1]int{}[transport.RingHeaderBytes-C.sizeof_struct_goroce_ring]
	_ = [1]int{}[transport.RingSlotBytes-C.sizeof_struct_goroce_ring_slot]
	_ = [1]int{}[unsafe.Offsetof(transport.RingHeader{}.Head)-unsafe.Offsetof(C.struct_goroce_ring{}.head)]
	_ = [1]int{}[unsafe.Offsetof(transport.RingHeader{}.Mask)-unsafe.Offsetof(C.struct_goroce_ring{}.mask)]
	_ = [1]int{}[unsafe.Offsetof(transport.RingHeader{}.State)-unsafe.Offsetof(C.struct_goroce_ring{}.state)]
	_ = [1]int{}[unsafe.Offsetof(transport.RingWC{}.Time)-unsafe.Offsetof(C.struct_goroce_ring_slot{}.time)]
)

// userCQ is the Go half of an ibv_cq.
type userCQ struct {
	*verbs.CQ
	ctx    *userContext
	ch     *userChannel
	cookie C.uint64_t

	compTaken  uint32 // events that the program has taken, under the lock of the channel's queue
	asyncTaken uint32 // the same, under that of the context's
}

var cqs table[userCQ]

//export goroce_create_cq
func goroce_create_cq(a *C.struct_goroce_cq) C.int {
	q := &userCQ{ctx: contexts.get(uint32(a.device)), cookie: a.cookie}
	if q.ctx == nil {
		return eINVAL
	}
	o := verbs.CQOptions{Vector: int(a.vector), EventIfWaiting: true, UserData: q}
	if a.channel != 0 {
		if q.ch = channels.get(uint32(a.channel)); q.ch == nil {
			return eINVAL
		}
		o.OnEvent = func(*verbs.CQ) { q.ch.push(q) }
	}
	var err error
	if q.CQ, err = core.Open(q.ctx).CreateRingCQ(int(a.cqe), &o); err != nil {
		return errno(err)
	}
	if q.ch != nil {
		core.Open(q).WakesBy(q.ch)
		q.ch.joins(q)
	}
	a.ring = (*C.struct_goroce_ring)(core.Open(q).Ring())
	a.handle = C.goroce_handle(cqs.put(q))
	return full(a.handle)
}

//export goroce_destroy_cq
func goroce_destroy_cq(handle C.goroce_handle, compEvents, asyncEvents *C.uint32_t) C.int {
	q := cqs.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	if err := q.Close(); err != nil {
		return errno(err)
	}
	cqs.drop(uint32(handle))
	*compEvents, *asyncEvents = 0, 0
	if q.ch != nil {
		*compEvents = C.uint32_t(q.ch.forget(q))
	}
	*asyncEvents = q.ctx.forgetAsync(&q.asyncTaken)
	return 0
}

// forgetAsync drops the events of an object that is gone, and returns how many of its events were
// taken.
func (c *userContext) forgetAsync(taken *uint32) C.uint32_t {
	return C.uint32_t(c.async.forget(taken))
}

//export goroce_resize_cq
func goroce_resize_cq(handle C.goroce_handle, cqe *C.int, ring **C.struct_goroce_ring) C.int {
	q := cqs.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	if err := q.Resize(int(*cqe)); errors.Is(err, verbs.ErrBusy) {
		return eINVAL // it holds more than that: as drivers say it
	} else if err != nil {
		return errno(err)
	}
	*ring = (*C.struct_goroce_ring)(core.Open(q).Ring())
	return 0
}

//export goroce_req_notify_cq
func goroce_req_notify_cq(handle C.goroce_handle, solicitedOnly C.int) C.int {
	q := cqs.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	// A program that asks and then polls needs no second event of the same completions. One that
	// has found no more events sleeps next, and may not have polled, such as UCX.
	if q.ch != nil && q.ch.bare.Load() {
		core.Open(q).Untell()
	}
	return errno(q.RequestNotify(solicitedOnly != 0))
}

//export goroce_progress
func goroce_progress(handle C.goroce_handle, threads C.uint) {
	if q := cqs.get(uint32(handle)); q != nil {
		core.Open(q).Progress(int(threads))
	}
}
