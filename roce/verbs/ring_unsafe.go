package verbs

import (
	"os"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport"
)

// Ring returns the address of the memory that holds the completions of a queue made by
// CreateRingCQ, for a program in another language; nil if the queue has none, or was closed. In C
// it is
//
//	struct ring {
//		_Alignas(64) _Atomic uint64_t tail;	// offset 0: completions that were put in
//		_Alignas(64) _Atomic uint64_t head;	// offset 64: completions that were taken out
//		_Alignas(64) uint64_t mask;		// offset 128: slots, a power of two, less one
//		_Atomic uint32_t state;			// offset 136: bit 0: completions were lost (CQ error)
//		_Alignas(64) struct slot {		// offset 192
//			struct ibv_wc wc;		// 48 bytes, as in infiniband/verbs.h
//			int64_t ns;			// offset 48 of the slot: when, on a clock that never goes back
//			uint64_t reserved;
//		} slots[];
//	};
//
// To poll:
//
//	uint64_t h = atomic_load_explicit(&r->head, memory_order_relaxed);	// the consumer's own
//	uint64_t n = atomic_load_explicit(&r->tail, memory_order_acquire) - h;
//	for (i = 0; i < n && i < wanted; i++)
//		wc[i] = r->slots[(h + i) & r->mask].wc;
//	atomic_store_explicit(&r->head, h + i, memory_order_release);
//
// Only one thread may poll at a time: consumers need a lock. The device writes a slot before it
// stores tail, with release order, and overwrites a slot only after it has loaded a head beyond it.
// All counts increase for ever.
//
// The fields of a slot are as in verbs: numbers of status, opcode and flags, imm_data in network
// byte order, and invalidated_rkey in that of the host. pkey_index, slid and dlid_path_bits are 0.
// sl is [WC].SL.
//
// The memory is not Go's: C may keep the address. It stays valid until [CQ.Resize], which replaces
// it, and [CQ.Close], even if the device is closed first. During either call no thread may read it.
// A queue that is never closed keeps its memory for ever.
//
// A program that reads the ring must not call Poll or Wait, which also consume. To receive packets
// meanwhile it calls Progress.
func (c *cqCore) Ring() unsafe.Pointer {
	cq := (*CQ)(c)
	if cq.t == nil {
		return nil
	}
	cq.pollMu.Lock()
	defer cq.pollMu.Unlock()
	return unsafe.Pointer(unsafe.SliceData(cq.memory))
}

// mapRing maps the memory of a ring for n completions. For an invalid n it maps the smallest ring:
// the engine then reports the error.
func mapRing(n int) ([]byte, error) {
	if n < 1 || n > transport.MaxCQE {
		n = 1
	}
	m, err := unix.Mmap(-1, 0, transport.RingBytes(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, &OpError{Op: "map the ring of a CQ", Err: os.NewSyscallError("mmap", err)}
	}
	return m, nil
}

// unmapRing unmaps it.
func unmapRing(m []byte) {
	if m != nil {
		_ = unix.Munmap(m) // it was mapped by mapRing
	}
}
