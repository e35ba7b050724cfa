package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// postBatch is how many requests are handed to the stack at a time: what a ring has room for, so
// that they leave together.
const postBatch = C.GOROCE_SEND_SLOTS

// sendWR is struct ibv_send_wr with its unions spelt out, and recvWR struct ibv_recv_wr. The
// compiler refuses sizes that differ from those of C; layout_test.go compares the places of the
// fields.
type sendWR struct {
	id     uint64
	next   *sendWR
	list   *verbs.SGE
	n      int32
	opcode uint32
	flags  uint32
	imm    uint32    // imm_data, in network byte order, or invalidate_rkey
	to     [4]uint64 // rdma: address, key; atomic: address, compare_add, swap, key; ud: ibv_ah, QPN and Q_Key
	_      uint64    // qp_type.xrc
	mw     *C.struct_ibv_mw
	rkey   uint32
	mr     *C.struct_ibv_mr
	addr   uint64
	length uint64
	access uint32
}

type recvWR struct {
	id   uint64
	next *recvWR
	list *verbs.SGE
	n    int32
}

var (
	_ [unsafe.Sizeof(sendWR{})]struct{}    = [C.sizeof_struct_ibv_send_wr]struct{}{}
	_ [unsafe.Sizeof(recvWR{})]struct{}    = [C.sizeof_struct_ibv_recv_wr]struct{}{}
	_ [unsafe.Sizeof(verbs.SGE{})]struct{} = [C.sizeof_struct_ibv_sge]struct{}{}
)

// IBV_WR_FLUSH and IBV_WR_ATOMIC_WRITE, which headers have from rdma-core 45 on.
const (
	wrFlush       = 14
	wrAtomicWrite = 15
)

// noOpcode is none of the stack's: it refuses it.
const noOpcode = verbs.WROpcode(255)

// wrOpcodes are the operations by the numbers of verbs.
var wrOpcodes = [16]verbs.WROpcode{
	C.IBV_WR_RDMA_WRITE: verbs.WRWrite, C.IBV_WR_RDMA_WRITE_WITH_IMM: verbs.WRWriteImm,
	C.IBV_WR_SEND: verbs.WRSend, C.IBV_WR_SEND_WITH_IMM: verbs.WRSendImm, C.IBV_WR_RDMA_READ: verbs.WRRead,
	C.IBV_WR_ATOMIC_CMP_AND_SWP: verbs.WRCompareSwap, C.IBV_WR_ATOMIC_FETCH_AND_ADD: verbs.WRFetchAdd,
	C.IBV_WR_LOCAL_INV: verbs.WRLocalInv, C.IBV_WR_BIND_MW: verbs.WRBindMW, C.IBV_WR_SEND_WITH_INV: verbs.WRSendInv,
	C.IBV_WR_TSO: noOpcode, 11: noOpcode, 12: noOpcode, 13: noOpcode, wrFlush: verbs.WRFlush,
	wrAtomicWrite: verbs.WRAtomicWrite,
}

const sendFlags = C.IBV_SEND_FENCE | C.IBV_SEND_SIGNALED | C.IBV_SEND_SOLICITED | C.IBV_SEND_INLINE

//export goroce_post_send
func goroce_post_send(handle C.goroce_handle, first *C.struct_ibv_send_wr, bad **C.struct_ibv_send_wr) C.int {
	wr := (*sendWR)(unsafe.Pointer(first))
	q := qps.get(uint32(handle))
	if q == nil {
		*bad = first
		return eINVAL
	}
	s := &q.scratch
	s.mu.Lock()
	defer s.mu.Unlock()
	q.takeStaged()
	defer q.allowStaging()
	for wr != nil {
		start, n := wr, 0
		s.inline = s.inline[:0]
		var refused C.int
		for ; wr != nil && n < postBatch; wr = wr.next {
			if refused = s.translate(q, s.at(n), wr); refused != 0 {
				break
			}
			n++
		}
		done, err := n, error(nil)
		switch {
		case n == 1:
			if err = q.PostSend(&s.wrs[0]); err != nil {
				done = 0
			}
		case n > 1:
			done, err = q.PostSendBatch(s.wrs[:n])
		}
		if err != nil || refused != 0 {
			for ; done > 0; done-- {
				start = start.next
			}
			*bad = (*C.struct_ibv_send_wr)(unsafe.Pointer(start))
			if err != nil {
				return errno(err)
			}
			return refused
		}
	}
	return 0
}

// translate fills in a request of the stack from one of C.
func (s *postScratch) translate(q *userQP, to *verbs.SendWR, wr *sendWR) C.int {
	// The C half has looked at no longer list.
	if wr.opcode >= uint32(len(wrOpcodes)) || wr.n < 0 || int(wr.n) > q.maxSGE {
		return eINVAL
	}
	*to = verbs.SendWR{ID: wr.id, Opcode: wrOpcodes[wr.opcode], Flags: verbs.SendFlags(wr.flags & sendFlags)}
	if wr.n > 0 {
		if wr.list == nil {
			return eINVAL
		}
		to.SGList = unsafe.Slice(wr.list, int(wr.n))
	}
	if wr.flags&C.IBV_SEND_INLINE != 0 {
		if !s.gather(q, to) {
			return errno(verbs.ErrInlineTooLarge)
		}
	}
	switch to.Opcode {
	case verbs.WRWrite, verbs.WRRead, verbs.WRAtomicWrite:
		to.RemoteAddr, to.RKey = wr.to[0], ib.RKey(low(wr.to[1]))
	case verbs.WRWriteImm:
		to.RemoteAddr, to.RKey, to.Imm = wr.to[0], ib.RKey(low(wr.to[1])), net32(wr.imm)
	case verbs.WRCompareSwap, verbs.WRFetchAdd:
		to.RemoteAddr, to.CompareAdd, to.Swap, to.RKey = wr.to[0], wr.to[1], wr.to[2], ib.RKey(low(wr.to[3]))
	case verbs.WRFlush: // as wr_flush of the C half has put it together: type in bits 0-7, selectivity in 8-15
		to.RemoteAddr, to.RKey, to.FlushLength = wr.to[0], ib.RKey(low(wr.to[3])), uint32(wr.to[1])
		to.FlushType = flushType(uint8(wr.to[2]), uint8(wr.to[2]>>8))
	case verbs.WRSendImm:
		to.Imm = net32(wr.imm)
	case verbs.WRSendInv, verbs.WRLocalInv:
		to.InvalidateKey = ib.RKey(wr.imm)
	case verbs.WRBindMW:
		if e := bindOf(to, wr); e != 0 {
			return e
		}
	}
	if q.Type() == verbs.UD {
		ah := (*C.struct_ibv_ah)(pointer(&wr.to[0]))
		if ah == nil {
			return eINVAL
		}
		if to.AH = ahs.get(uint32(ah.handle)); to.AH == nil {
			return eINVAL
		}
		ud := (*[2]uint32)(unsafe.Pointer(&wr.to[1]))
		to.RemoteQPN, to.RemoteQKey = ib.QPN(ud[0])&ib.QPNMask, ib.QKey(ud[1]) // the packet has no more bits
	}
	return 0
}

// flushType returns what a FLUSH is to do: enum ibv_placement_type and ibv_selectivity_level are
// the bits of the FETH.
func flushType(placement, level uint8) ib.FETH {
	t := ib.FETH(0)
	if placement&1 != 0 {
		t |= ib.FlushGlobalVisibility
	}
	if placement&2 != 0 {
		t |= ib.FlushPersistence
	}
	if level == 1 {
		return t | ib.FlushMR
	}
	return t | ib.FlushRange
}

// pointer returns an address of the program's memory, which Go's collector has nothing to do with.
func pointer(v *uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(v)) }

// low returns the uint32 that is first in the memory of a uint64.
func low(v uint64) uint32 { return *(*uint32)(unsafe.Pointer(&v)) }

// gather collects inline data, which may be anywhere in the memory of the program. It reads none,
// and returns false, if there is more than the queue pair takes: the C half has looked at no more
// than that.
func (s *postScratch) gather(q *userQP, to *verbs.SendWR) bool {
	list := to.SGList
	to.SGList = nil
	n := uint64(0)
	for i := range list {
		n += uint64(list[i].Length)
	}
	if n > uint64(q.maxInline) {
		return false
	}
	if len(list) == 1 && n > 0 { // the usual case: the stack copies it
		to.Inline = unsafe.Slice((*byte)(pointer(&list[0].Addr)), int(n))
		return true
	}
	from := len(s.inline)
	for i := range list {
		if e := &list[i]; e.Length > 0 {
			s.inline = append(s.inline, unsafe.Slice((*byte)(pointer(&e.Addr)), int(e.Length))...)
		}
	}
	to.Inline = s.inline[from:len(s.inline):len(s.inline)]
	if to.Inline == nil {
		to.Inline = []byte{}
	}
	return true
}

// bindOf fills in what binds a window of type 2.
func bindOf(to *verbs.SendWR, wr *sendWR) C.int {
	if wr.mw == nil || wr.mr == nil {
		return eINVAL
	}
	mw, mr := mws.get(uint32(wr.mw.handle)), mrs.get(uint32(wr.mr.handle))
	access, e := windowAccess(C.uint32_t(wr.access))
	switch {
	case mw == nil || mr == nil:
		return eINVAL
	case e != 0:
		return e
	}
	// The program chooses the low byte; the rest is the window's, whatever stands there, as on rxe
	// and adapters.
	key := mw.RKey()&^0xFF | ib.RKey(wr.rkey)&0xFF
	to.Bind = verbs.BindMW{MW: mw.MW, MR: mr, NewRKey: key, Addr: wr.addr, Length: wr.length, Access: access}
	return 0
}

// receiver is a queue pair or a shared receive queue.
type receiver interface {
	PostRecv(*verbs.RecvWR) error
}

// postRecv posts a list of receives. How many there are of a call matters less than for sends:
// nothing is sent.
func postRecv(q receiver, first *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	for wr := (*recvWR)(unsafe.Pointer(first)); wr != nil; wr = wr.next {
		e := eINVAL
		if wr.n >= 0 && (wr.n == 0 || wr.list != nil) {
			w := verbs.RecvWR{ID: wr.id}
			if wr.n > 0 {
				w.SGList = unsafe.Slice(wr.list, int(wr.n))
			}
			e = errno(q.PostRecv(&w))
		}
		if e != 0 {
			*bad = (*C.struct_ibv_recv_wr)(unsafe.Pointer(wr))
			return e
		}
	}
	return 0
}

//export goroce_post_recv
func goroce_post_recv(handle C.goroce_handle, first *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	q := qps.get(uint32(handle))
	if q == nil {
		*bad = first
		return eINVAL
	}
	return postRecv(q.QP, first, bad)
}

//export goroce_post_srq_recv
func goroce_post_srq_recv(handle C.goroce_handle, first *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	q := srqs.get(uint32(handle))
	if q == nil {
		*bad = first
		return eINVAL
	}
	return postRecv(q.SRQ, first, bad)
}
