package main

/*
#include <rdma/rdma_cma.h>
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"errors"
	"net/netip"
	"time"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// putConn writes what the peer has said.
func putConn(to *C.struct_goroce_cm_param, p *rdmacm.ConnParam) {
	*to = C.struct_goroce_cm_param{
		qp_num: C.uint32_t(p.QPN), qkey: C.uint32_t(p.QKey),
		ece_vendor: C.uint32_t(p.ECE.VendorID), ece_options: C.uint32_t(p.ECE.Options),
		responder_resources: C.uint8_t(p.ResponderResources), initiator_depth: C.uint8_t(p.InitiatorDepth),
		flow_control: bit(p.FlowControl), retry_count: C.uint8_t(p.RetryCount),
		rnr_retry_count: C.uint8_t(p.RNRRetryCount), srq: bit(p.SRQ),
	}
}

func bit(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}

// connParam is what the program says. Counts of more than 3 bits are the largest, as for the
// kernel.
func (id *cmID) connParam(p *C.struct_goroce_cm_param) *rdmacm.ConnParam {
	q := rdmacm.ConnParam{
		ResponderResources: uint8(p.responder_resources), InitiatorDepth: uint8(p.initiator_depth),
		FlowControl: p.flow_control != 0, RetryCount: min(uint8(p.retry_count), 7),
		RNRRetryCount: min(uint8(p.rnr_retry_count), 7), SRQ: p.srq != 0, QPN: ib.QPN(p.qp_num),
		QKey: ib.QKey(p.qkey), StartingPSN: id.psn, UC: id.uc,
		ECE:        rdmacm.ECE{VendorID: uint32(p.ece_vendor) & 0xffffff, Options: uint32(p.ece_options)},
		AckTimeout: id.ackTimeout,
	}
	if p.private_data_len > 0 {
		q.PrivateData = unsafe.Slice((*byte)(p.private_data), int(p.private_data_len))
	}
	return &q
}

// tellWhenGone is for an ID that is going to be connected.
func (id *cmID) tellWhenGone(part *rdmacm.ID) {
	if id.ps != rdmacm.PortSpaceUDP { // of datagrams nobody is told by a kernel, either
		tellWhenGone(part.Device())
	}
}

//export goroce_cm_connect_id
func goroce_cm_connect_id(handle C.goroce_handle, p *C.struct_goroce_cm_param) C.int {
	return withPart(handle, func(id *cmID, part *rdmacm.ID) C.int {
		id.tellWhenGone(part)
		q := id.connParam(p)
		id.service = part.RemoteAddr()
		q.ListenWait = knownServices.wait(id.service, time.Now())
		err := part.Connect(q)
		id.spoke = id.spoke || err == nil
		return cmErrno(err)
	})
}

//export goroce_cm_accept_id
func goroce_cm_accept_id(handle C.goroce_handle, p *C.struct_goroce_cm_param) C.int {
	return withPart(handle, func(id *cmID, part *rdmacm.ID) C.int {
		if p == nil {
			return cmErrno(part.Establish())
		}
		id.tellWhenGone(part)
		return cmErrno(part.Accept(id.connParam(p)))
	})
}

//export goroce_cm_reject
func goroce_cm_reject(handle C.goroce_handle, reason C.uint32_t, data unsafe.Pointer, n C.uint32_t) C.int {
	return withPart(handle, func(_ *cmID, p *rdmacm.ID) C.int {
		return cmErrno(p.RejectReason(mad.RejectReason(reason), unsafe.Slice((*byte)(data), int(n))))
	})
}

//export goroce_cm_notify
func goroce_cm_notify(handle C.goroce_handle, event C.uint32_t) C.int {
	return withPart(handle, func(id *cmID, p *rdmacm.ID) C.int {
		switch {
		case !id.spoke:
			return eINVAL
		case event == C.IBV_EVENT_COMM_EST:
			return cmErrno(core.Open(p).NotifyEstablished())
		}
		return 0
	})
}

//export goroce_cm_disconnect
func goroce_cm_disconnect(handle C.goroce_handle) C.int {
	return withPart(handle, func(id *cmID, p *rdmacm.ID) C.int {
		if !id.spoke {
			return eINVAL
		}
		err := p.Disconnect(nil)
		if errors.Is(err, verbs.ErrInvalidState) {
			return 0 // nothing to end yet, which is no error to the kernel
		}
		return cmErrno(err)
	})
}

//export goroce_cm_qp_attr
func goroce_cm_qp_attr(handle C.goroce_handle, o *C.struct_ibv_qp_attr, mask *C.int) C.int {
	return withPart(handle, func(id *cmID, p *rdmacm.ID) C.int {
		param := rdmacm.DefaultConnParam()
		// As much as the peer wants, and with patience: what the program wants it says afterwards.
		param.ResponderResources, param.InitiatorDepth, param.RNRRetryCount, param.StartingPSN = 255, 255, 0, id.psn
		a, m, err := p.QPAttr(verbs.QPState(o.qp_state), &param)
		if err != nil {
			return cmErrno(err)
		}
		if id.ackTimeout != 0 {
			a.Timeout = id.ackTimeout
		}
		putQPAttr(o, &a)
		*mask = C.int(m)
		return 0
	})
}

// putQPAttr writes the attributes that QPAttr of package rdmacm sets.
func putQPAttr(o *C.struct_ibv_qp_attr, a *verbs.QPAttr) {
	o.qp_state, o.path_mtu = uint32(a.State), uint32(a.PathMTU)
	o.qkey, o.rq_psn, o.sq_psn, o.dest_qp_num = C.uint32_t(a.QKey), C.uint32_t(a.RQPSN), C.uint32_t(a.SQPSN),
		C.uint32_t(a.DestQPN)
	o.qp_access_flags, o.pkey_index, o.port_num = C.uint(a.Access), C.uint16_t(a.PKeyIndex), C.uint8_t(a.PortNum)
	o.max_rd_atomic, o.max_dest_rd_atomic = C.uint8_t(a.MaxRdAtomic), C.uint8_t(a.MaxDestRdAtomic)
	o.min_rnr_timer, o.timeout = C.uint8_t(a.MinRNRTimer), C.uint8_t(a.Timeout)
	o.retry_cnt, o.rnr_retry = C.uint8_t(a.RetryCnt), C.uint8_t(a.RNRRetry)
	putVector(&o.ah_attr, &a.AV)
}

func putVector(o *C.struct_ibv_ah_attr, v *verbs.AddressVector) {
	*o = C.struct_ibv_ah_attr{is_global: 1, port_num: 1}
	*(*verbs.GID)(unsafe.Pointer(&o.grh.dgid)) = v.DGID
	o.grh.sgid_index, o.grh.hop_limit = C.uint8_t(v.SGIDIndex), C.uint8_t(v.HopLimit)
	o.grh.traffic_class, o.grh.flow_label = C.uint8_t(v.TrafficClass), C.uint32_t(v.FlowLabel)
}

//export goroce_cm_join
func goroce_cm_join(handle C.goroce_handle, sa *C.struct_sockaddr, flags C.uint32_t, cookie C.uint64_t) C.int {
	group := addrOf(sa).Addr().WithZone("")
	return withPart(handle, func(id *cmID, p *rdmacm.ID) C.int {
		if id.groups == nil {
			id.groups = map[netip.Addr]uint64{}
		}
		if _, ok := id.groups[group]; ok {
			return eINVAL
		}
		id.groups[group] = uint64(cookie) // before the event
		// The C half attaches the queue pair, when the program takes the event.
		err := p.JoinMulticastSendOnly(group)
		if err != nil {
			delete(id.groups, group)
		}
		return cmErrno(err)
	})
}

//export goroce_cm_leave
func goroce_cm_leave(handle C.goroce_handle, sa *C.struct_sockaddr) C.int {
	group := addrOf(sa).Addr().WithZone("")
	return withID(handle, func(id *cmID) C.int {
		delete(id.groups, group)
		return 0
	})
}

// groupCookie returns the cookie of a group that was joined.
func (id *cmID) groupCookie(group netip.Addr) (cookie uint64, ok bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	cookie, ok = id.groups[group]
	return cookie, ok
}
