package slots

import (
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// drops returns how many datagrams the kernel has dropped at a socket because the socket was full,
// its filter said so, or a UDP checksum was wrong. The number wraps.
func drops(fd int) uint32 {
	var info [9]uint32 // SK_MEMINFO_VARS; older kernels have fewer
	n := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0
	}
	return info[8] // SK_MEMINFO_DROPS
}
