package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"math"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/verbs"
)

var mrs table[verbs.MR]

// optionalAccess are flags that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE), such as relaxed
// ordering.
const optionalAccess = C.IBV_ACCESS_OPTIONAL_RANGE

// knownAccess are the flags that mean something here.
const knownAccess = C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_READ |
	C.IBV_ACCESS_REMOTE_ATOMIC | C.IBV_ACCESS_MW_BIND | C.IBV_ACCESS_ZERO_BASED | C.IBV_ACCESS_HUGETLB |
	flushGlobal | flushPersistent

// IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT, which headers have from rdma-core 45 on.
const (
	flushGlobal     = 1 << 8
	flushPersistent = 1 << 9
)

// writes are the rights for which the kernel wants memory that can be written to
// (ib_access_writable).
const writes = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteAtomic | verbs.MWBind

// accessOf returns the rights that flags stand for. Huge pages are nothing special here.
func accessOf(flags C.uint32_t) (verbs.Access, C.int) {
	flags &^= optionalAccess
	switch {
	case flags&C.IBV_ACCESS_ON_DEMAND != 0:
		return 0, eOPNOTSUPP
	case flags&^knownAccess != 0:
		return 0, eINVAL
	}
	return verbs.Access(flags &^ C.IBV_ACCESS_HUGETLB), 0
}

// memory returns a range of the program's memory, which may be empty; nil if there cannot be such a
// range.
func memory(addr unsafe.Pointer, length C.uint64_t) []byte {
	if uint64(length) > math.MaxInt64 || uint64(uintptr(addr))+uint64(length) < uint64(length) || addr == nil {
		return nil
	}
	return unsafe.Slice((*byte)(addr), int(length))
}

// keysOf returns both keys, which are one number. Peers may be told it before the region grants
// them something: ibv_rereg_mr gives rights to a key that is known.
func keysOf(mr *verbs.MR) (lkey, rkey C.uint32_t) {
	key := C.uint32_t(mr.LKey())
	return key, key
}

//export goroce_reg_mr
func goroce_reg_mr(handle C.goroce_handle, m *C.struct_goroce_mr) C.int {
	pd := pds.get(uint32(handle))
	if pd == nil {
		return eINVAL
	}
	access, e := accessOf(m.access)
	if e != 0 {
		return e
	}
	buf := memory(m.addr, m.length)
	if buf == nil {
		return eINVAL
	}
	if core.CheckMemory(buf, access&writes != 0) != nil {
		return C.int(syscall.EFAULT)
	}
	mr, err := pd.RegisterMR(buf, access,
		&verbs.MROptions{IOVA: uint64(m.iova), SetIOVA: access&verbs.ZeroBased == 0, Key: ib.LKey(m.key)})
	if err != nil {
		return errno(err)
	}
	m.lkey, m.rkey = keysOf(mr)
	m.handle = C.goroce_handle(mrs.put(mr))
	return full(m.handle)
}

//export goroce_rereg_mr
func goroce_rereg_mr(handle C.goroce_handle, flags C.int, domain C.goroce_handle, m *C.struct_goroce_mr) C.int {
	mr := mrs.get(uint32(handle))
	if mr == nil || flags&^C.IBV_REREG_MR_FLAGS_SUPPORTED != 0 || flags == 0 {
		return eINVAL
	}
	var change verbs.Rereg
	if flags&C.IBV_REREG_MR_CHANGE_PD != 0 {
		pd := pds.get(uint32(domain))
		if pd == nil {
			return eINVAL
		}
		change.PD = pd.PD
	}
	if flags&C.IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
		if change.Bytes = memory(m.addr, m.length); change.Bytes == nil {
			return eINVAL
		}
		change.Options = verbs.MROptions{IOVA: uint64(m.iova), SetIOVA: true}
	} else {
		change.KeepKeys = true // programs expect it
	}
	if flags&C.IBV_REREG_MR_CHANGE_ACCESS != 0 {
		access, e := accessOf(m.access)
		if e != 0 {
			return e
		}
		change.Access, change.SetAccess = access, true
	}
	if change.Bytes != nil || change.SetAccess {
		buf := change.Bytes
		if buf == nil {
			buf = mr.Bytes()
		}
		if core.CheckMemory(buf, change.Access&writes != 0) != nil {
			return C.int(syscall.EFAULT)
		}
	}
	if err := mr.Reregister(change); err != nil {
		return errno(err)
	}
	m.lkey, m.rkey = keysOf(mr)
	return 0
}

//export goroce_dereg_mr
func goroce_dereg_mr(handle C.goroce_handle) C.int {
	mr := mrs.get(uint32(handle))
	if mr == nil {
		return eINVAL
	}
	if err := mr.Close(); err != nil {
		return errno(err)
	}
	mrs.drop(uint32(handle))
	return 0
}
