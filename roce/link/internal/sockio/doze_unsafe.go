package sockio

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// A poll begins with a doze: a system call that the Go runtime does not know of. In a conversation
// the packet mostly arrives before its end. A system call known to the runtime costs more than the
// sleep itself: the runtime's monitor wakes up after 20 us, takes the processor of the goroutine
// away and sleeps, and the goroutine wakes the monitor again when it has found another processor.
//
// A dozing goroutine keeps its processor from others. So at most half of them doze, and only for
// dozeTime: then the poll goes on in an ordinary system call. A garbage collection that begins
// meanwhile ends the doze with its signal.

// dozeTime is long enough for the peer of a conversation to wake and to answer.
const dozeTime = 500 * time.Microsecond

// dozing counts the goroutines that doze.
var dozing atomic.Int32

// beginDoze reports whether the caller may doze. With one processor it returns false.
func beginDoze() bool {
	if dozing.Add(1) <= int32(runtime.GOMAXPROCS(0)/2) {
		return true
	}
	endDoze()
	return false
}

func endDoze() { dozing.Add(-1) }

// rawPpoll is unix.Ppoll without a timeout and a mask, hidden from the runtime.
func rawPpoll(fds []unix.PollFd, _ *unix.Timespec, _ *unix.Sigset_t) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))),
		uintptr(len(fds)), 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
