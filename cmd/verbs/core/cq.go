package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"sync"
	"unsafe"

	"github.com/goroce/goroce/roce/verbs"
)

// userCQ is the Go half of an ibv_cq.
type userCQ struct {
	*verbs.CQ
	ctx    *userContext
	ch     *userChannel
	cookie C.uint64_t

	compTaken  uint32 // events that the program has taken, under the lock of the channel's queue
	asyncTaken uint32 // the same, under that of the context's

	mu  sync.Mutex // of wcs
	wcs [64]verbs.WC
}

var (
	cqs  table[userCQ]
	cqOf sync.Map // *verbs.CQ to *userCQ
)

//export goroce_create_cq
func goroce_create_cq(a *C.struct_goroce_cq) C.int {
	q := &userCQ{ctx: contexts.get(uint32(a.device)), cookie: a.cookie}
	if q.ctx == nil {
		return eINVAL
	}
	o := verbs.CQOptions{Vector: int(a.vector)}
	if a.channel != 0 {
		if q.ch = channels.get(uint32(a.channel)); q.ch == nil {
			return eINVAL
		}
		o.Channel = q.ch.CompletionChannel
	}
	var err error
	if q.CQ, err = q.ctx.CreateCQWith(int(a.cqe), o); err != nil {
		return errno(err)
	}
	cqOf.Store(q.CQ, q)
	a.handle = C.goroce_handle(cqs.put(q))
	return 0
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
	cqOf.Delete(q.CQ)
	*compEvents, *asyncEvents = 0, 0
	if q.ch != nil {
		q.ch.events.forget(func(e *userCQ) bool {
			return e == q
		})
		q.ch.events.mu.Lock()
		*compEvents = C.uint32_t(q.compTaken)
		q.ch.events.mu.Unlock()
	}
	*asyncEvents = q.ctx.forgetAsync(&q.asyncTaken)
	return 0
}

// forgetAsync drops the events of an object that is gone, and returns how many of it were taken.
func (c *userContext) forgetAsync(taken *uint32) C.uint32_t {
	c.async.forget(func(e asyncEvent) bool { return e.taken == taken })
	c.async.mu.Lock()
	defer c.async.mu.Unlock()
	return C.uint32_t(*taken)
}

//export goroce_resize_cq
func goroce_resize_cq(handle C.goroce_handle, cqe *C.int) C.int {
	q := cqs.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	return errno(q.Resize(int(*cqe)))
}

//export goroce_req_notify_cq
func goroce_req_notify_cq(handle C.goroce_handle, solicitedOnly C.int) C.int {
	q := cqs.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	return errno(q.RequestNotify(solicitedOnly != 0))
}

// wcOpcodes are the numbers that verbs has for what completed.
var wcOpcodes = func() (t [256]uint32) {
	for i := range t {
		t[i] = uint32(i)
	}
	t[verbs.WCFlush], t[verbs.WCAtomicWrite] = wcFlush, wcAtomicWrite
	return t
}()

// IBV_WC_FLUSH and IBV_WC_ATOMIC_WRITE, which headers have from rdma-core 45 on.
const (
	wcFlush       = 8
	wcAtomicWrite = 9
)

// grhIPv4 is what the service level of a completion of UD says besides: UCX reads there, as hardware tells it,
// that the packet had UDP (8) and IPv4 (2).
const grhIPv4 = 8 | 2

//export goroce_poll_cq
func goroce_poll_cq(handle C.goroce_handle, n C.int, wc *C.struct_ibv_wc) C.int {
	q := cqs.get(uint32(handle))
	if q == nil || n < 0 {
		return -1
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k, err := q.Poll(q.wcs[:min(int(n), len(q.wcs))])
	if k == 0 && err != nil {
		return -1
	}
	out := unsafe.Slice(wc, k)
	for i := range out {
		w, o := &q.wcs[i], &out[i]
		*o = C.struct_ibv_wc{
			wr_id: C.uint64_t(w.ID), status: uint32(w.Status), opcode: wcOpcodes[w.Opcode], vendor_err: C.uint32_t(w.VendorErr),
			byte_len: C.uint32_t(w.ByteLen), qp_num: C.uint32_t(w.QPN), src_qp: C.uint32_t(w.SrcQP), wc_flags: C.uint(w.Flags),
		}
		imm := (*uint32)(unsafe.Pointer(&o.anon0))
		switch {
		case w.Flags&verbs.WCWithInv != 0:
			*imm = uint32(w.InvKey)
		case w.Flags&verbs.WCWithImm != 0:
			*imm = net32(w.Imm)
		}
		if w.Flags&verbs.WCWithGRH != 0 {
			o.sl = grhIPv4
		}
	}
	return C.int(k)
}
