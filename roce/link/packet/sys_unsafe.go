package packet

import (
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// rawName is the socket address of a frame.
type rawName struct {
	ll unix.RawSockaddrLinklayer
}

func (n *rawName) bytes() *byte { return (*byte)(unsafe.Pointer(&n.ll)) }

// tpacketStats is struct tpacket_stats.
type tpacketStats struct {
	packets, drops uint32
}

// statistics reads and resets the counters of a socket.
func statistics(fd int) (s tpacketStats, errno unix.Errno) {
	n := uint32(unsafe.Sizeof(s))
	_, _, errno = unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS,
		uintptr(unsafe.Pointer(&s)), uintptr(unsafe.Pointer(&n)), 0)
	return s, errno
}
