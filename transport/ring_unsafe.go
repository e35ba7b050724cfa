package transport

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/ib"
)

// A completion queue may have its ring in memory that the shell provides, laid out for a consumer that
// is not Go: a poll there is a look at a word, and a copy. RingHeader and RingWC are that layout.
// Neither has a pointer in it, so the memory may be of any kind.
//
// What the consumer writes is not trusted: slots are found by the producer's own count, and a head
// that is wrong ends the CQ, or costs completions.

// RingHeader is the beginning of such memory. Slots follow it, RingHeaderBytes from the start.
type RingHeader struct {
	// Tail counts the completions that the producer has put in. It stores with release order, after
	// the slot; the consumer loads with acquire order, before it.
	Tail atomic.Uint64
	_    [56]byte
	// Head counts the completions that the consumer is done with. It stores with release order, after
	// it has read the slot.
	Head atomic.Uint64
	_    [56]byte
	// Mask is the number of slots, a power of two, less one. Completion number i, from 0, is in slot i & Mask.
	Mask uint64
	// State has bit RingOverflowed.
	State atomic.Uint32
	_     [52]byte
}

// RingOverflowed says that a completion was lost because there was no room. None comes any more
// behind those that are in the ring.
const RingOverflowed = 1 << 0

// RingWC is a slot: an ibv_wc, of 48 bytes, and the time. Status, Opcode and Flags have the numbers of verbs.
type RingWC struct {
	ID           uint64 // wr_id
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	Imm          uint32 // imm_data in network byte order with RingWithImm, invalidated_rkey in host order with RingWithInv
	QPN          uint32 // qp_num
	SrcQP        uint32
	Flags        uint32 // wc_flags
	PKeyIndex    uint16 // 0: there is one partition
	SLID         uint16 // 0: there are no LIDs
	SL           uint8  // WC.SL
	DLIDPathBits uint8  // 0
	_            [2]byte
	Time         int64 // of the batch of packets, or of the call, that it came of: ns on the clock of the link
	_            [8]byte
}

// Sizes and offsets of the layout.
const (
	RingHeaderBytes = int(unsafe.Sizeof(RingHeader{}))
	RingSlotBytes   = int(unsafe.Sizeof(RingWC{}))
)

// ringOpcodes are the numbers of completion opcodes in verbs (ibv_wc_opcode).
var ringOpcodes = [...]uint32{
	WCSend: 0, WCWrite: 1, WCRead: 2, WCCompareSwap: 3, WCFetchAdd: 4, WCBindMW: 5, WCLocalInv: 6,
	WCFlush: 8, WCAtomicWrite: 9,
}

// verbsOpcode returns the number of an opcode in verbs.
func verbsOpcode(o WCOpcode) uint32 {
	if int(o) < len(ringOpcodes) {
		return ringOpcodes[o]
	}
	return uint32(o) // receives have the same
}

// opcodeOfVerbs is the way back.
func opcodeOfVerbs(n uint32) WCOpcode {
	for o, v := range ringOpcodes {
		if v == n {
			return WCOpcode(o)
		}
	}
	return WCOpcode(n)
}

// ring is such memory.
type ring struct {
	head  *RingHeader
	slots []RingWC
}

// ringSlots is how many slots a ring for n completions has.
func ringSlots(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

// RingBytes returns how much memory the ring of a CQ for n completions needs, n being 1 to MaxCQE.
func RingBytes(n int) int { return RingHeaderBytes + ringSlots(n)*RingSlotBytes }

// newRing lays out zeroed memory.
func newRing(op string, n int, memory []byte) (*ring, error) {
	base := unsafe.Pointer(unsafe.SliceData(memory))
	switch {
	case len(memory) < RingBytes(n):
		return nil, &ArgError{Op: op, Arg: "memory", Why: fmt.Sprintf("%d bytes, and %d are needed", len(memory), RingBytes(n))}
	case uintptr(base)%64 != 0:
		return nil, &ArgError{Op: op, Arg: "memory", Why: "does not begin at a multiple of 64"}
	}
	r := &ring{
		head:  (*RingHeader)(base),
		slots: unsafe.Slice((*RingWC)(unsafe.Add(base, RingHeaderBytes)), ringSlots(n)),
	}
	r.head.Mask = uint64(len(r.slots) - 1)
	return r, nil
}

// put writes completion number at. It has to be published by a store to Tail.
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

// get reads completion number at.
func (r *ring) get(at uint64, wc *WC) {
	w := &r.slots[at&uint64(len(r.slots)-1)]
	*wc = WC{
		ID: w.ID, Status: WCStatus(w.Status), Opcode: opcodeOfVerbs(w.Opcode), VendorErr: w.VendorErr, ByteLen: w.ByteLen,
		QPN: ib.QPN(w.QPN), SrcQP: ib.QPN(w.SrcQP), Flags: WCFlags(w.Flags), SL: w.SL,
	}
	switch {
	case wc.Flags&WCWithImm != 0:
		wc.Imm = binary.BigEndian.Uint32((*[4]byte)(unsafe.Pointer(&w.Imm))[:])
	case wc.Flags&WCWithInv != 0:
		wc.InvKey = ib.RKey(w.Imm)
	}
}
