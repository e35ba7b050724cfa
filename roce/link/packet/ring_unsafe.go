package packet

import (
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// A slot of the ring begins with struct tpacket2_hdr, whose first word is the status: the kernel
// writes it last, and may write the slot again when it reads TP_STATUS_KERNEL there. Slots are
// aligned to ringAlign bytes.

func loadStatus(slot []byte) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(slot))))
}

func storeStatus(slot []byte, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(slot))), v)
}

// slotHeader returns the header of a slot that the kernel does not own.
func slotHeader(slot []byte) *unix.Tpacket2Hdr {
	return (*unix.Tpacket2Hdr)(unsafe.Pointer(unsafe.SliceData(slot)))
}
