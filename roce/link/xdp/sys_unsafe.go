package xdp

import (
	"os"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// registerUMEM makes mem the UMEM of a socket.
func registerUMEM(fd int, mem []byte) error {
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&mem[0]))), Len: uint64(len(mem)), Size: chunkBytes}
	// Kernels before 6.8 take the structure without its last field, and refuse a longer one.
	for _, n := range []uintptr{unsafe.Sizeof(reg), unsafe.Offsetof(reg.Tx_metadata_len)} {
		_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
			uintptr(unsafe.Pointer(&reg)), n, 0)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINVAL || n != unsafe.Sizeof(reg) {
			return os.NewSyscallError("setsockopt XDP_UMEM_REG", errno)
		}
	}
	return nil
}

// getOption reads a socket option of level SOL_XDP.
func getOption[T unix.XDPMmapOffsets | unix.XDPStatistics | uint32](fd, opt int) (v T, err error) {
	n := uint32(unsafe.Sizeof(v))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(opt),
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return v, os.NewSyscallError("getsockopt SOL_XDP", errno)
	}
	return v, nil
}

// The calls below do not block, so they bypass the scheduler's bookkeeping.

// kickSend makes the kernel look at the ring of frames to send.
func kickSend(fd int) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return e
}

// kickReceive makes the kernel look at the ring of empty frames.
func kickReceive(fd int) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return e
}

// channels is struct ethtool_channels.
type channels struct {
	cmd                                         uint32
	maxRx, maxTx, maxOther, maxCombined         uint32
	rxCount, txCount, otherCount, combinedCount uint32
}

// ifreqData is struct ifreq with a pointer.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// queueCounts returns how many receive and send queues an interface uses; 1 each if it does not
// say.
func queueCounts(name string) (rx, tx int) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 1, 1
	}
	defer unix.Close(fd)
	c := channels{cmd: unix.ETHTOOL_GCHANNELS}
	var req ifreqData
	copy(req.name[:unix.IFNAMSIZ-1], name)
	req.data = unsafe.Pointer(&c)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return 1, 1
	}
	return max(1, int(c.rxCount+c.combinedCount)), max(1, int(c.txCount+c.combinedCount))
}
