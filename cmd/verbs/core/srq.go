package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"sync"

	"github.com/goroce/goroce/roce/verbs"
)

// userSRQ is the Go half of an ibv_srq.
type userSRQ struct {
	*verbs.SRQ
	ctx        *userContext
	cookie     C.uint64_t
	asyncTaken uint32 // events that the program has taken, under the lock of the context's queue
}

var (
	srqs  table[userSRQ]
	srqOf sync.Map // *verbs.SRQ to *userSRQ
)

//export goroce_create_srq
func goroce_create_srq(a *C.struct_goroce_srq) C.int {
	pd := pds.get(uint32(a.pd))
	if pd == nil {
		return eINVAL
	}
	if a.attr.max_wr == 0 {
		return eINVAL
	}
	v, err := pd.CreateSRQ(verbs.SRQAttr{MaxWR: int(a.attr.max_wr), MaxSGE: max(int(a.attr.max_sge), 1)})
	if err != nil {
		return errno(err)
	}
	s := &userSRQ{SRQ: v, ctx: pd.ctx, cookie: a.cookie}
	srqOf.Store(v, s)
	a.handle = C.goroce_handle(srqs.put(s))
	return goroce_query_srq(a.handle, &a.attr)
}

//export goroce_destroy_srq
func goroce_destroy_srq(handle C.goroce_handle, asyncEvents *C.uint32_t) C.int {
	s := srqs.get(uint32(handle))
	if s == nil {
		return eINVAL
	}
	if err := s.Close(); err != nil {
		return errno(err)
	}
	srqs.drop(uint32(handle))
	srqOf.Delete(s.SRQ)
	*asyncEvents = s.ctx.forgetAsync(&s.asyncTaken)
	return 0
}

//export goroce_modify_srq
func goroce_modify_srq(handle C.goroce_handle, a *C.struct_ibv_srq_attr, mask C.int) C.int {
	s := srqs.get(uint32(handle))
	if s == nil || mask&^(C.IBV_SRQ_MAX_WR|C.IBV_SRQ_LIMIT) != 0 {
		return eINVAL
	}
	limit, maxWR := -1, -1
	if mask&C.IBV_SRQ_LIMIT != 0 {
		limit = int(a.srq_limit)
	}
	if mask&C.IBV_SRQ_MAX_WR != 0 {
		maxWR = int(a.max_wr)
	}
	return errno(s.Modify(limit, maxWR))
}

//export goroce_query_srq
func goroce_query_srq(handle C.goroce_handle, a *C.struct_ibv_srq_attr) C.int {
	s := srqs.get(uint32(handle))
	if s == nil {
		return eINVAL
	}
	q, err := s.Query()
	if err != nil {
		return errno(err)
	}
	a.max_wr, a.max_sge, a.srq_limit = C.uint32_t(q.MaxWR), C.uint32_t(q.MaxSGE), C.uint32_t(q.Limit)
	return 0
}
