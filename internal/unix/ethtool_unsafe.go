package unix

import (
	"runtime"
	"unsafe"
)

// ethtoolValue is struct ethtool_value of the kernel.
type ethtoolValue struct{ command, value uint32 }

// ethtoolRequest is struct ifreq with a pointer.
type ethtoolRequest struct {
	name [IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// Ethtool asks the driver of an interface for a value, as ETHTOOL_GGRO or ETHTOOL_GFLAGS; it needs
// no privileges.
func Ethtool(iface string, command uint32) (uint32, error) {
	fd, err := Socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer Close(fd)
	v := &ethtoolValue{command: command}
	r := &ethtoolRequest{data: unsafe.Pointer(v)}
	copy(r.name[:IFNAMSIZ-1], iface)
	var pin runtime.Pinner
	pin.Pin(v) // the kernel has the address
	defer pin.Unpin()
	if _, _, errno := Syscall(SYS_IOCTL, uintptr(fd), SIOCETHTOOL, uintptr(unsafe.Pointer(r))); errno != 0 {
		return 0, errno
	}
	return v.value, nil
}
