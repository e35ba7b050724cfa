package sockio

import (
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// Mmsghdr is struct mmsghdr of Linux: the alignment of Hdr pads it, as in C.
type Mmsghdr struct {
	Hdr unix.Msghdr
	N   uint32 // bytes sent or received
}

// The calls below do not block (MSG_DONTWAIT), so they bypass the scheduler's bookkeeping: a
// receive that finds nothing costs little more than the system call, and the goroutine keeps its
// processor.

// Send sends the messages in order and returns how many went out; an error means that the first did
// not.
func Send(fd int, msgs []Mmsghdr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// Recv receives up to len(msgs) messages.
func Recv(fd int, msgs []Mmsghdr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// continues reports whether v ends at b.
func continues(v *unix.Iovec, b *byte) bool {
	return uintptr(unsafe.Pointer(v.Base))+uintptr(v.Len) == uintptr(unsafe.Pointer(b))
}

// iovBytes returns the memory that an iovec describes.
func iovBytes(v *unix.Iovec) []byte { return unsafe.Slice(v.Base, int(v.Len)) }
