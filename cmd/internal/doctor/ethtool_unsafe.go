package doctor

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolValue is struct ethtool_value of the kernel.
type ethtoolValue struct{ command, value uint32 }

// ethtoolRequest is struct ifreq with a pointer.
type ethtoolRequest struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// ethtool asks for a switch of an interface; it needs no privileges.
func ethtool(iface string, command uint32) (bool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	v := &ethtoolValue{command: command}
	r := &ethtoolRequest{data: unsafe.Pointer(v)}
	copy(r.name[:unix.IFNAMSIZ-1], iface)
	var pin runtime.Pinner
	pin.Pin(v) // the kernel has the address
	defer pin.Unpin()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(r))); errno != 0 {
		return false, errno
	}
	return v.value != 0, nil
}
