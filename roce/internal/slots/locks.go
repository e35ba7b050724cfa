package slots

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goroce/goroce/internal/unix"
)

// reopen opens a memory file anew, so that its locks are separate.
func reopen(fd int) (int, error) {
	n, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, unsupported("open a memory file by /proc", err)
	}
	return n, nil
}

func span(typ int16, at, n int64) unix.Flock_t {
	return unix.Flock_t{Type: typ, Whence: io.SeekStart, Start: at, Len: n}
}

// lock locks n bytes from offset at. It reports false if another device has locked one of them.
func lock(fd int, at, n int64) (bool, error) {
	l := span(unix.F_WRLCK, at, n)
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return false, nil
	}
	return false, os.NewSyscallError("fcntl F_OFD_SETLK", err)
}

// unlock releases n bytes from offset at; n is 0 for all from at on.
func unlock(fd int, at, n int64) {
	l := span(unix.F_UNLCK, at, n)
	_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l)
}

// locked returns the position of another device's lock on any of n bytes from offset at, if there
// is one.
func locked(fd int, at, n int64) (start, length int64, ok bool) {
	l := span(unix.F_WRLCK, at, n)
	if unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l) != nil || l.Type == unix.F_UNLCK {
		return 0, 0, false
	}
	return l.Start, l.Len, true
}
