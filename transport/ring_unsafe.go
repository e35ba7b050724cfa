package transport

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/ib"
)

// A completion queue may have its ring in memory from the shell, with a layout for consumers that
// are not written in Go: they poll by reading a word and copying a slot. RingHeader and RingWC are
// that layout. They contain no pointers, so the memory may be of any kind.
//
// The engine does not trust what the consumer writes. The producer's own count selects slots, and a
// wrong head ends the CQ or costs completions.

// RingHeader is the start of such memory. Slots follow at offset RingHeaderBytes.
type RingHeader struct {
	// Tail counts the completions that the producer has stored. The producer stores it with release
	// order, after the slot; the consumer loads it with acquire order, before the slot.
	Tail atomic.Uint64
	_    [56]byte
	// Head counts the completions that the consumer has finished with. The consumer stores it with
	// release order, after it has read the slot.
	Head atomic.Uint64
	_    [56]byte
	// Mask is the number of slots, a power of two, less 1. Completion i, from 0, is in slot i&Mask.
	Mask uint64
	// State contains the bit RingOverflowed.
	State atomic.Uint32
	_     [52]byte
}

// RingOverflowed says that a completion was lost for lack of room. None follows those in the ring.
const RingOverflowed = 1 << 0

// RingWC is a slot: an ibv_wc of 48 bytes, and a time. Status, Opcode and Flags have verbs numbers.
type RingWC struct {
	ID           uint64 // wr_id
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	Imm          uint32 // WCWithImm: imm_data, big-endian; WCWithInv: invalidated_rkey
	QPN          uint32 // qp_num
	SrcQP        uint32
	Flags        uint32 // wc_flags
	PKeyIndex    uint16 // 0: there is one partition
	SLID         uint16 // 0: there are no LIDs
	SL           uint8  // WC.SL
	DLIDPathBits uint8  // 0
	_            [2]byte
	Time         int64 // time of the packets or call that caused it: ns on the link's clock
	_            [8]byte
}

// Sizes and offsets of the layout.
const (
	RingHeaderBytes = int(unsafe.Sizeof(RingHeader{}))
	RingSlotBytes   = int(unsafe.Sizeof(RingWC{}))
)

// ringOpcodes maps completion opcodes to verbs numbers (ibv_wc_opcode).
var ringOpcodes = [...]uint32{
	WCSend: 0, WCWrite: 1, WCRead: 2, WCCompareSwap: 3, WCFetchAdd: 4, WCBindMW: 5, WCLocalInv: 6,
	WCFlush: 8, WCAtomicWrite: 9,
}

// verbsOpcode returns the verbs number of an opcode.
func verbsOpcode(o WCOpcode) uint32 {
	if int(o) < len(ringOpcodes) {
		return ringOpcodes[o]
	}
	return uint32(o) // receive opcodes are equal
}

// opcodeOfVerbs returns the opcode of a verbs number.
func opcodeOfVerbs(n uint32) WCOpcode {
	for o, v := range ringOpcodes {
		if v == n {
			return WCOpcode(o)
		}
	}
	return WCOpcode(n)
}

// ring gives access to such memory.
type ring struct {
	head  *RingHeader
	slots []RingWC
}

// RingBytes returns the bytes of memory for a ring of n completions, with n from 1 to MaxCQE.
func RingBytes(n int) int { return RingHeaderBytes + ringSize(n)*RingSlotBytes }

// newRing lays out a ring in zeroed memory.
func newRing(op string, n int, memory []byte) (*ring, error) {
	base := unsafe.Pointer(unsafe.SliceData(memory))
	switch {
	case len(memory) < RingBytes(n):
		return nil,
			&ArgError{Op: op, Arg: "memory", Why: fmt.Sprintf("%d bytes, and %d are needed", len(memory), RingBytes(n))}
	case uintptr(base)%64 != 0:
		return nil, &ArgError{Op: op, Arg: "memory", Why: "does not begin at a multiple of 64"}
	}
	r := &ring{
		head:  (*RingHeader)(base),
		slots: unsafe.Slice((*RingWC)(unsafe.Add(base, RingHeaderBytes)), ringSize(n)),
	}
	r.head.Mask = uint64(len(r.slots) - 1)
	return r, nil
}

// put writes completion at. The caller then publishes it by a store to Tail.
func (r *ring) put(at uint64, wc *WC, now int64) {
	w := &r.slots[at&uint64(len(r.slots)-1)]
	w.ID = wc.ID
	w.Status = uint32(wc.Status)
	w.Opcode = verbsOpcode(wc.Opcode)
	w.VendorErr = wc.VendorErr
	w.ByteLen = wc.ByteLen
	w.QPN = uint32(wc.QPN)
	w.SrcQP = uint32(wc.SrcQP)
	w.Flags = uint32(wc.Flags)
	w.SL = wc.SL
	w.Time = now
	switch {
	case wc.Flags&WCWithImm != 0:
		binary.BigEndian.PutUint32((*[4]byte)(unsafe.Pointer(&w.Imm))[:], wc.Imm)
	case wc.Flags&WCWithInv != 0:
		w.Imm = uint32(wc.InvKey)
	default:
		w.Imm = 0
	}
}

// get reads completion at.
func (r *ring) get(at uint64, wc *WC) {
	w := &r.slots[at&uint64(len(r.slots)-1)]
	*wc = WC{
		ID: w.ID, Status: WCStatus(w.Status), Opcode: opcodeOfVerbs(w.Opcode), VendorErr: w.VendorErr,
		ByteLen: w.ByteLen, QPN: ib.QPN(w.QPN), SrcQP: ib.QPN(w.SrcQP), Flags: WCFlags(w.Flags), SL: w.SL,
	}
	switch {
	case wc.Flags&WCWithImm != 0:
		wc.Imm = binary.BigEndian.Uint32((*[4]byte)(unsafe.Pointer(&w.Imm))[:])
	case wc.Flags&WCWithInv != 0:
		wc.InvKey = ib.RKey(w.Imm)
	}
}
