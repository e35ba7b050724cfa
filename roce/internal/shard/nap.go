package shard

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps in the system call: the runtime's timers are as coarse as 1 ms when the process is
// idle.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal ends it early
}
