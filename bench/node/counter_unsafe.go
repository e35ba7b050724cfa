package node

import (
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// mapCounter maps the first page of f, shared, as a counter. It is mapped until the process ends.
func mapCounter(f *os.File) (*atomic.Uint64, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*atomic.Uint64)(unsafe.Pointer(&m[0])), nil
}
