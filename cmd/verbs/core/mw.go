package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"sync"

	"github.com/goroce/goroce/roce/verbs"
)

// userMW is the Go half of an ibv_mw.
type userMW struct {
	*verbs.MW
	pd   *userPD
	kind verbs.WindowType

	// Of type 1, see goroce_bind_mw.
	mu     sync.Mutex
	tokens []*verbs.MW
}

var mws table[userMW]

// windowAccess returns what a window grants. The rights of the owner mean nothing to a window, and
// drivers let programs pass them on from the region.
func windowAccess(flags C.uint32_t) (verbs.Access, C.int) {
	access, e := accessOf(flags)
	return access &^ (verbs.LocalWrite | verbs.MWBind), e
}

//export goroce_alloc_mw
func goroce_alloc_mw(domain C.goroce_handle, kind C.int, rkey *C.uint32_t, handle *C.goroce_handle) C.int {
	pd := pds.get(uint32(domain))
	if pd == nil {
		return eINVAL
	}
	var t verbs.WindowType
	switch kind {
	case C.IBV_MW_TYPE_1:
		t = verbs.WindowType1
	case C.IBV_MW_TYPE_2:
		t = verbs.WindowType2B
	default:
		return eINVAL
	}
	mw, err := pd.AllocMW(t)
	if err != nil {
		return errno(err)
	}
	*rkey = C.uint32_t(mw.RKey())
	*handle = C.goroce_handle(mws.put(&userMW{MW: mw, pd: pd, kind: t}))
	return full(*handle)
}

//export goroce_dealloc_mw
func goroce_dealloc_mw(handle C.goroce_handle) C.int {
	mw := mws.get(uint32(handle))
	if mw == nil {
		return eINVAL
	}
	if err := mw.Close(); err != nil {
		return errno(err)
	}
	mw.mu.Lock()
	defer mw.mu.Unlock()
	for _, t := range mw.tokens {
		_ = t.Close()
	}
	mw.tokens = nil
	mws.drop(uint32(handle))
	return 0
}

// goroce_bind_mw binds a window of type 1. Verbs has it as a request of a queue pair that makes a
// completion; the stack binds at once, and has such requests for windows of type 2 only. So the
// window is bound here, and a request that binds a token, a window of type 2 that nobody knows to a
// byte that holds nothing, makes the completion, in order with those before.
//
//export goroce_bind_mw
func goroce_bind_mw(qp, handle C.goroce_handle, b *C.struct_ibv_mw_bind, rkey *C.uint32_t) C.int {
	q, mw := qps.get(uint32(qp)), mws.get(uint32(handle))
	if q == nil || mw == nil || mw.kind != verbs.WindowType1 || q.PD() != mw.pd.PD {
		return eINVAL
	}
	info := &b.bind_info
	access, e := windowAccess(C.uint32_t(info.mw_access_flags))
	if e != 0 {
		return e
	}
	var mr *verbs.MR
	off := uint64(0)
	switch {
	case info.mr != nil:
		if mr = mrs.get(uint32(info.mr.handle)); mr == nil {
			return eINVAL
		}
		if off = uint64(info.addr) - mr.Addr(); info.length != 0 &&
			(off > uint64(mr.Len()) || uint64(info.length) > uint64(mr.Len())-off) {
			return eINVAL
		}
	case info.length != 0 || info.addr != 0:
		return eINVAL
	}
	mw.mu.Lock()
	defer mw.mu.Unlock()
	token, err := mw.pd.AllocMW(verbs.WindowType2B)
	if err != nil {
		return errno(err)
	}
	region, err := mw.pd.tokenRegion()
	if err != nil {
		_ = token.Close()
		return errno(err)
	}
	if info.length == 0 {
		mr, off = nil, 0
	}
	key, err := mw.Bind(mw.pd.PD, mr, int(off), int(info.length), access)
	if err != nil {
		_ = token.Close()
		return errno(err)
	}
	*rkey = C.uint32_t(key)
	q.scratch.mu.Lock()
	defer q.scratch.mu.Unlock()
	q.takeStaged()
	defer q.allowStaging()
	if _, err := q.BindMW(uint64(b.wr_id), token, region, 0, 1, verbs.RemoteRead,
		verbs.SendFlags(b.send_flags&sendFlags)); err != nil {
		_ = token.Close()
		return errno(err)
	}
	mw.tokens = append(mw.tokens, token)
	// The requests of older tokens than the queue has places for have completed.
	if _, caps, err := q.Query(); err == nil && len(mw.tokens) > caps.MaxSendWR {
		_ = mw.tokens[0].Close()
		mw.tokens = append(mw.tokens[:0], mw.tokens[1:]...)
	}
	return 0
}
