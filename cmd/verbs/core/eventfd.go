package main

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// ring adds one to an eventfd.
func ring(fd int) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], 1)
	for {
		if _, err := unix.Write(fd, b[:]); err != unix.EINTR {
			return
		}
	}
}

// drain takes all counts of an eventfd, one if it is of semaphore kind, without waiting: somebody
// else may be reading it, too.
func drain(fd int) {
	var b [8]byte
	_, err := unix.Preadv2(fd, [][]byte{b[:]}, -1, unix.RWF_NOWAIT)
	if err != unix.EOPNOTSUPP {
		return
	}
	// A kernel before 5.8. Those who read without O_NONBLOCK read when there is nothing, and so
	// what is there is for us.
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 0); n == 1 && err == nil {
		_, _ = unix.Read(fd, b[:])
	}
}
