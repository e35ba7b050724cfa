package core

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// CheckMemory does for memory that is not Go's what pinning does in the kernel, as far as that
// costs little: all of it has to be mapped, and its first and last page to be there, and to be
// writable if the rights want that. It returns syscall.EFAULT otherwise. It does not look at each
// page: memory may be sparse, and terabytes. What is wrong in between costs the queue pair that
// meets it, as memory does that goes away later.
func CheckMemory(b []byte, write bool) error {
	if len(b) == 0 {
		return nil
	}
	page := uintptr(os.Getpagesize())
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	last := first + uintptr(len(b)) - 1
	begin := first &^ (page - 1)
	// A request to write nothing back, which has a look at the mappings.
	if _, _, e := unix.Syscall(unix.SYS_MSYNC, begin, last-begin+1, unix.MS_ASYNC); e == unix.ENOMEM {
		return syscall.EFAULT
	}
	if !canPopulate() {
		return nil
	}
	advice := uintptr(unix.MADV_POPULATE_READ)
	if write {
		advice = unix.MADV_POPULATE_WRITE
	}
	for _, p := range []uintptr{begin, last &^ (page - 1)} {
		switch _, _, e := unix.Syscall(unix.SYS_MADVISE, p, page, advice); e {
		case unix.EFAULT, unix.EINVAL, unix.ENOMEM, unix.EHWPOISON:
			return syscall.EFAULT
		}
	}
	return nil
}

// canPopulate reports whether the kernel has MADV_POPULATE_READ (5.14). One that does not answers
// as for memory that may not be read.
var canPopulate = sync.OnceValue(func() bool {
	m, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return false
	}
	err = unix.Madvise(m, unix.MADV_POPULATE_READ)
	_ = unix.Munmap(m)
	return err == nil
})
