package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of Linux.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32 // bytes sent or received
	_   [(unsafe.Sizeof(uintptr(0)) - 4) % 8]byte
}

// The calls below do not block (MSG_DONTWAIT), so they bypass the scheduler's
// bookkeeping: a receive that finds nothing costs little more than the system
// call, and the goroutine keeps its processor.

// sendmmsg sends the messages in order and returns how many went out; an
// error means that the first did not.
func sendmmsg(fd int, msgs []mmsghdr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// recvmmsg receives up to len(msgs) messages.
func recvmmsg(fd int, msgs []mmsghdr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// rawName is the socket address of a message: a sockaddr_in or sockaddr_in6.
type rawName struct {
	in6 unix.RawSockaddrInet6
}

func (n *rawName) in4() *unix.RawSockaddrInet4 {
	// The larger struct holds the smaller; both begin with the family.
	return (*unix.RawSockaddrInet4)(unsafe.Pointer(&n.in6))
}

func (n *rawName) bytes() *byte { return (*byte)(unsafe.Pointer(&n.in6)) }

// portBytes returns the port in network byte order, as the struct has it.
func portBytes(p *uint16) *[2]byte { return (*[2]byte)(unsafe.Pointer(p)) }

// addrOf returns the address of b's first byte, to see whether one buffer
// continues another.
func addrOf(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }

// iovBytes returns the memory that an iovec describes.
func iovBytes(v *unix.Iovec) []byte { return unsafe.Slice(v.Base, int(v.Len)) }
