package dump

import (
	"runtime"

	"github.com/goroce/goroce/internal/unix"
)

// captureNice is the priority of the thread that reads a capture. It takes little time, and needs
// it soon: on a machine that is busy with what is captured, or with other things, the ring is full
// before an equal share comes round.
const captureNice = -15

// first keeps the caller on its thread, and puts that before others, where CAP_SYS_NICE permits.
// What it returns undoes that.
func first() (undo func()) {
	runtime.LockOSThread()
	tid := unix.Gettid()
	was, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err != nil || unix.Setpriority(unix.PRIO_PROCESS, tid, captureNice) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		_ = unix.Setpriority(unix.PRIO_PROCESS, tid, niceOf(was))
		runtime.UnlockOSThread()
	}
}

// niceOf turns what the system call returns, which is never negative, into a nice value.
func niceOf(raw int) int { return 20 - raw }
