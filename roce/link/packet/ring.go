package packet

import (
	"errors"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/frame"
)

// ring is the memory into which the kernel puts received frames (PACKET_RX_RING, TPACKET_V2), so
// that they are seen without a system call. A slot holds a single packet. For a longer frame, a run
// of packets, the slot says that the whole is in the socket's queue (PACKET_COPY_THRESH), so slots
// and queue together keep the order of arrival.
type ring struct {
	mem      []byte
	slot     int // bytes
	perBlock int
	block    int // bytes
	slots    int
	next     int // slot to look at next
	back     int // slots before next to give back to the kernel
}

// slotKind is the content of a slot.
type slotKind uint8

const (
	slotEmpty  slotKind = iota
	slotWhole           // a frame
	slotQueued          // a frame is in the queue of the socket
	slotLost            // a frame that fitted neither slot nor queue
)

// openRing makes the ring of a socket, with at least slots slots, for packets of interfaces with
// the given MTU.
func openRing(fd, slots, mtu int) (*ring, error) {
	r := &ring{slot: ringHeaderBytes + vnetBytes + frame.EthernetBytes + frame.VLANTagBytes + mtu}
	r.slot = (r.slot + ringAlign - 1) &^ (ringAlign - 1)
	r.block = ringBlockBytes
	r.perBlock = r.block / r.slot
	blocks := (slots + r.perBlock - 1) / r.perBlock
	r.slots = blocks * r.perBlock
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return nil, os.NewSyscallError("setsockopt PACKET_VERSION", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_COPY_THRESH, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt PACKET_COPY_THRESH", err)
	}
	if err := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{
		Block_size: uint32(r.block), Block_nr: uint32(blocks), Frame_size: uint32(r.slot),
		Frame_nr: uint32(r.slots)}); err != nil {
		return nil, os.NewSyscallError("setsockopt PACKET_RX_RING", err)
	}
	var err error
	if r.mem, err = unix.Mmap(fd, 0, r.block*blocks, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		// The kernel must not fill a ring that is not read.
		undo := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{})
		return nil, errors.Join(os.NewSyscallError("mmap ring", err), undo)
	}
	return r, nil
}

func (r *ring) close() error {
	if r == nil || r.mem == nil {
		return nil
	}
	err := unix.Munmap(r.mem)
	r.mem = nil
	return os.NewSyscallError("munmap", err)
}

// at returns the memory of slot i from next.
func (r *ring) at(i int) []byte {
	n := r.next + i
	if n >= r.slots {
		n -= r.slots
	}
	off := n/r.perBlock*r.block + n%r.perBlock*r.slot
	return r.mem[off : off+r.slot : off+r.slot]
}

// look returns the content of slot i from next and, for a whole frame, its bytes with the virtio
// header.
func (r *ring) look(i int) (slotKind, []byte) {
	if i+r.back >= r.slots {
		return slotEmpty, nil // not the kernel's yet
	}
	b := r.at(i)
	status := loadStatus(b)
	switch {
	case status&unix.TP_STATUS_USER == 0:
		return slotEmpty, nil
	case status&unix.TP_STATUS_COPY != 0:
		return slotQueued, nil
	}
	h := slotHeader(b)
	from, to := int(h.Mac)-vnetBytes, int(h.Mac)+int(h.Snaplen)
	if h.Snaplen < h.Len || from < 0 || to > len(b) {
		return slotLost, nil
	}
	return slotWhole, b[from:to:to]
}

// queued returns how many slots from next on say that a frame is in the queue, at most limit.
func (r *ring) queued(limit int) (n int) {
	for n < limit {
		if kind, _ := r.look(n); kind != slotQueued {
			break
		}
		n++
	}
	return n
}

// take consumes n slots. Their memory is valid until giveBack.
func (r *ring) take(n int) {
	if r.next += n; r.next >= r.slots {
		r.next -= r.slots
	}
	r.back += n
}

// giveBack gives consumed slots back to the kernel.
func (r *ring) giveBack() {
	if r == nil {
		return
	}
	for ; r.back > 0; r.back-- {
		// The slot r.back before next, cyclically.
		storeStatus(r.at(r.slots-r.back), unix.TP_STATUS_KERNEL)
	}
}
