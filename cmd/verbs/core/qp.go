package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"sync"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// userQP is the Go half of an ibv_qp.
type userQP struct {
	*verbs.QP
	ctx        *userContext
	cookie     C.uint64_t
	asyncTaken uint32 // events that the program has taken, under the lock of the context's queue
	maxInline  int
	maxSGE     int // of a send
	scratch    postScratch
	ring       *sendRing // nil: there is none. This and staged under the lock of scratch
	staged     staged
	sgidIndex  C.uint8_t // as the program has set it, under the lock of scratch
}

var qps table[userQP]

// qpTypes are the service types that there are.
var qpTypes = map[C.uint32_t]ib.Transport{C.IBV_QPT_RC: verbs.RC, C.IBV_QPT_UC: verbs.UC, C.IBV_QPT_UD: verbs.UD}

//export goroce_create_qp
func goroce_create_qp(a *C.struct_goroce_qp) C.int {
	pd, scq, rcq := pds.get(uint32(a.pd)), cqs.get(uint32(a.send_cq)), cqs.get(uint32(a.recv_cq))
	if pd == nil || scq == nil || rcq == nil {
		return eINVAL
	}
	kind, ok := qpTypes[a._type]
	if !ok {
		return eOPNOTSUPP
	}
	q := &userQP{ctx: pd.ctx, cookie: a.cookie, ring: (*sendRing)(unsafe.Pointer(a.send_ring))}
	init := verbs.QPInitAttr{
		Type: kind, SendCQ: scq.CQ, RecvCQ: rcq.CQ, SigAll: a.sig_all != 0, UserData: q,
		// The queues are made for 1 where the program wants none: 0 would be the default.
		Caps: verbs.QPCaps{
			MaxSendWR: max(int(a.cap.max_send_wr), 1), MaxRecvWR: max(int(a.cap.max_recv_wr), 1),
			MaxSendSGE: max(int(a.cap.max_send_sge), 1), MaxRecvSGE: max(int(a.cap.max_recv_sge), 1),
			// What the entries of a send queue have room for, as rdma_rxe: rdma_xclient sends 16
			// bytes inline, and asks for none.
			MaxInline: max(int(a.cap.max_inline_data), int(C.sizeof_struct_ibv_sge)*max(int(a.cap.max_send_sge), 1)),
		},
	}
	if a.srq != 0 {
		srq := srqs.get(uint32(a.srq))
		if srq == nil {
			return eINVAL
		}
		init.SRQ = srq.SRQ
	}
	var err error
	if q.QP, err = pd.CreateQP(init); err != nil {
		return errno(err)
	}
	if _, caps, err := q.Query(); err == nil {
		a.cap, q.maxInline, q.maxSGE = capsOf(caps), caps.MaxInline, caps.MaxSendSGE
	}
	if a.srq != 0 {
		a.cap.max_recv_wr, a.cap.max_recv_sge = 0, 0
	}
	a.qp_num = C.uint32_t(q.Num())
	a.handle = C.goroce_handle(qps.put(q))
	return full(a.handle)
}

func capsOf(c verbs.QPCaps) C.struct_ibv_qp_cap {
	return C.struct_ibv_qp_cap{
		max_send_wr: C.uint32_t(c.MaxSendWR), max_recv_wr: C.uint32_t(c.MaxRecvWR),
		max_send_sge: C.uint32_t(c.MaxSendSGE), max_recv_sge: C.uint32_t(c.MaxRecvSGE),
		max_inline_data: C.uint32_t(c.MaxInline),
	}
}

//export goroce_destroy_qp
func goroce_destroy_qp(handle C.goroce_handle, asyncEvents *C.uint32_t) C.int {
	q := qps.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	q.settle()
	if err := q.Close(); err != nil {
		return errno(err)
	}
	q.forgetRing()
	qps.drop(uint32(handle))
	*asyncEvents = q.ctx.forgetAsync(&q.asyncTaken)
	return 0
}

// vectorOf returns the way to a peer. Each index of the table of GIDs is that of the one address.
// UCX passes flow labels with all bits set: 20 of them count.
func vectorOf(a *C.struct_ibv_ah_attr) (verbs.AddressVector, error) {
	if a.grh.sgid_index >= C.GOROCE_GIDS {
		return verbs.AddressVector{}, syscall.EINVAL
	}
	return verbs.AddressVector{
		DGID:      *(*verbs.GID)(unsafe.Pointer(&a.grh.dgid)),
		FlowLabel: uint32(a.grh.flow_label) & 0xfffff, TrafficClass: uint8(a.grh.traffic_class),
		HopLimit: uint8(a.grh.hop_limit),
	}, nil
}

const (
	allAttrs = C.IBV_QP_RATE_LIMIT<<1 - 1
	// Alternate paths are of InfiniBand; RoCE has none. The capabilities of a queue pair do not
	// change.
	alternatePath = C.IBV_QP_ALT_PATH | C.IBV_QP_PATH_MIG_STATE
)

// qpAccess are the rights that a queue pair can grant. Programs pass on flags of regions, and the
// kernel lets them.
const qpAccess = C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_READ |
	C.IBV_ACCESS_REMOTE_ATOMIC | flushGlobal | flushPersistent

//export goroce_modify_qp
func goroce_modify_qp(handle C.goroce_handle, a *C.struct_ibv_qp_attr, mask C.int) C.int {
	q := qps.get(uint32(handle))
	if q == nil || mask&^allAttrs != 0 {
		return eINVAL
	}
	if mask&(C.IBV_QP_RATE_LIMIT|C.IBV_QP_CAP|alternatePath) != 0 {
		return eOPNOTSUPP
	}
	if mask&C.IBV_QP_PKEY_INDEX != 0 && a.pkey_index != 0 {
		return eINVAL // the table of partition keys has one entry
	}
	var av verbs.AddressVector
	if mask&C.IBV_QP_AV != 0 {
		var err error
		if av, err = vectorOf(&a.ah_attr); err != nil || a.ah_attr.is_global == 0 { // RoCE addresses peers by GID
			return eINVAL
		}
	}
	q.scratch.mu.Lock()
	defer q.scratch.mu.Unlock()
	q.takeStaged()
	defer q.allowStaging()
	err := q.Modify(verbs.QPAttr{
		State: verbs.QPState(a.qp_state), CurState: verbs.QPState(a.cur_qp_state),
		Access: verbs.Access(a.qp_access_flags & qpAccess), PKeyIndex: uint16(a.pkey_index),
		PortNum: uint8(a.port_num), QKey: ib.QKey(a.qkey), AV: av, PathMTU: ib.MTU(a.path_mtu),
		DestQPN: ib.QPN(a.dest_qp_num), RQPSN: ib.PSN(a.rq_psn), SQPSN: ib.PSN(a.sq_psn),
		MaxRdAtomic: uint8(a.max_rd_atomic), MaxDestRdAtomic: uint8(a.max_dest_rd_atomic),
		MinRNRTimer: ib.RNRCode(a.min_rnr_timer), Timeout: ib.TimeoutCode(a.timeout),
		RetryCnt: uint8(a.retry_cnt), RNRRetry: uint8(a.rnr_retry), EnSQDAsyncNotify: a.en_sqd_async_notify != 0,
	}, verbs.AttrMask(mask))
	switch {
	case err != nil:
	case mask&C.IBV_QP_AV != 0:
		q.sgidIndex = a.ah_attr.grh.sgid_index
	case mask&C.IBV_QP_STATE != 0 && a.qp_state == C.IBV_QPS_RESET:
		q.sgidIndex = 0
	}
	return errno(err)
}

//export goroce_query_qp
func goroce_query_qp(handle C.goroce_handle, o *C.struct_ibv_qp_attr) C.int {
	q := qps.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	q.scratch.mu.Lock()
	defer q.scratch.mu.Unlock()
	q.takeStaged()
	a, caps, err := q.Query()
	if err != nil {
		return errno(err)
	}
	*o = C.struct_ibv_qp_attr{
		qp_state: uint32(a.State), cur_qp_state: uint32(a.State), path_mtu: uint32(a.PathMTU),
		qkey: C.uint32_t(a.QKey), rq_psn: C.uint32_t(a.RQPSN), sq_psn: C.uint32_t(a.SQPSN),
		dest_qp_num: C.uint32_t(a.DestQPN), qp_access_flags: C.uint(a.Access),
		pkey_index: C.uint16_t(a.PKeyIndex), port_num: C.uint8_t(a.PortNum),
		max_rd_atomic: C.uint8_t(a.MaxRdAtomic), max_dest_rd_atomic: C.uint8_t(a.MaxDestRdAtomic),
		min_rnr_timer: C.uint8_t(a.MinRNRTimer), timeout: C.uint8_t(a.Timeout), retry_cnt: C.uint8_t(a.RetryCnt),
		rnr_retry: C.uint8_t(a.RNRRetry), cap: capsOf(caps),
	}
	if a.SQDraining {
		o.sq_draining = 1
	}
	if a.EnSQDAsyncNotify {
		o.en_sqd_async_notify = 1
	}
	o.ah_attr.is_global, o.ah_attr.port_num = 1, 1
	*(*verbs.GID)(unsafe.Pointer(&o.ah_attr.grh.dgid)) = a.AV.DGID
	o.ah_attr.grh.sgid_index, o.ah_attr.grh.hop_limit = q.sgidIndex, C.uint8_t(a.AV.HopLimit)
	o.ah_attr.grh.traffic_class, o.ah_attr.grh.flow_label = C.uint8_t(a.AV.TrafficClass), C.uint32_t(a.AV.FlowLabel)
	return 0
}

//export goroce_attach_mcast
func goroce_attach_mcast(handle C.goroce_handle, group *C.union_ibv_gid) C.int {
	q := qps.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	gid := *(*verbs.GID)(unsafe.Pointer(group))
	err := q.AttachMulticast(gid, 0)
	if err == nil {
		remark("joined %v", gid)
	}
	return errno(err)
}

//export goroce_detach_mcast
func goroce_detach_mcast(handle C.goroce_handle, group *C.union_ibv_gid) C.int {
	q := qps.get(uint32(handle))
	if q == nil {
		return eINVAL
	}
	return errno(q.DetachMulticast(*(*verbs.GID)(unsafe.Pointer(group)), 0))
}

// postScratch is what a queue pair turns the requests of one call into.
type postScratch struct {
	mu     sync.Mutex
	wrs    []verbs.SendWR // up to postBatch: few programs post so many at a time
	inline []byte
}

// at returns the place for request i of a batch, of which there are those before.
func (s *postScratch) at(i int) *verbs.SendWR {
	if i == len(s.wrs) {
		s.wrs = append(s.wrs, make([]verbs.SendWR, max(i, 4))...)
	}
	return &s.wrs[i]
}
