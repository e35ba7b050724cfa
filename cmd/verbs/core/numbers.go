package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// A device takes two hundred descriptors. The low numbers are the program's: select takes none from
// 1024 on, and others have a table as long as what they mean to open.
const (
	lowNumbers  = 512
	restNumbers = 512 // for devices, of those that the process may have
)

// aboveLow runs open while the low numbers are taken; if there are too few of the others, without.
func aboveLow[T any](open func() (T, error)) (T, error) {
	taken := takeLow()
	v, err := open()
	for _, fd := range taken {
		_ = unix.Close(fd)
	}
	if len(taken) > 0 && errors.Is(err, syscall.EMFILE) {
		return open()
	}
	return v, err
}

// takeLow takes the low numbers that are free.
func takeLow() (taken []int) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur < lowNumbers+restNumbers {
		return nil
	}
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == nil {
		taken = append(taken, fd)
		if fd >= lowNumbers {
			break
		}
		fd, err = unix.FcntlInt(uintptr(taken[0]), unix.F_DUPFD_CLOEXEC, 0)
	}
	return taken
}
