package dump

import (
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// ring is memory in which the kernel puts frames, in blocks of many (TPACKET_V3). The kernel writes
// a block, and gives it to the reader by its status; the reader gives it back by the same.
type ring struct {
	fd     int
	mem    []byte
	bytes  int // of a block
	blocks int

	block int  // the one that is read, or next
	held  bool // it is this side's
	left  int  // frames in it that were not read yet
	at    int  // of the next one, in the block
}

// Offsets in a block (struct tpacket_block_desc).
const (
	blockStatus = 8
	blockFrames = 12
	blockFirst  = 16
)

// open makes the ring.
func (r *ring) open(blockBytes, blocks, retireMs int) error {
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return os.NewSyscallError("setsockopt PACKET_VERSION", err)
	}
	req := unix.TpacketReq3{
		Block_size: uint32(blockBytes), Block_nr: uint32(blocks), Frame_size: uint32(blockBytes),
		Frame_nr: uint32(blocks), Retire_blk_tov: uint32(retireMs),
	}
	if err := unix.SetsockoptTpacketReq3(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return os.NewSyscallError("setsockopt PACKET_RX_RING", err)
	}
	mem, err := unix.Mmap(r.fd, 0, blockBytes*blocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.mem, r.bytes, r.blocks = mem, blockBytes, blocks
	return nil
}

// status is that of the current block, which the kernel writes too.
func (r *ring) status() *uint32 {
	return (*uint32)(unsafe.Pointer(&r.mem[r.block*r.bytes+blockStatus]))
}

// frame returns the next frame, or nil if the kernel has none ready. The one before is then given
// back.
func (r *ring) frame() ringFrame {
	for {
		b := r.mem[r.block*r.bytes : (r.block+1)*r.bytes]
		switch {
		case !r.held:
			if atomic.LoadUint32(r.status())&unix.TP_STATUS_USER == 0 {
				return nil
			}
			r.held, r.left, r.at = true, int(ne.Uint32(b[blockFrames:])), int(ne.Uint32(b[blockFirst:]))
		case r.left > 0:
			h := ringFrame(b[r.at:])
			r.left--
			r.at += int(ne.Uint32(h[frameNext:]))
			return h
		default:
			atomic.StoreUint32(r.status(), unix.TP_STATUS_KERNEL)
			r.held, r.block = false, (r.block+1)%r.blocks
		}
	}
}

func (r *ring) close() error {
	var err error
	if r.mem != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(r.mem))
		r.mem = nil
	}
	if e := unix.Close(r.fd); err == nil {
		err = os.NewSyscallError("close", e)
	}
	return err
}
