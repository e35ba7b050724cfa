package sockio

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// A poll begins with a doze: a system call of which the Go runtime does not know. In a conversation
// the packet is mostly there before its end. A system call that the runtime knows costs more than
// the sleep itself: its monitor wakes up after 20 us, takes the processor of the goroutine away
// and sleeps, and the goroutine wakes the monitor again when it has found another processor.
//
// A goroutine that dozes keeps its processor from others. So at most half of them doze, and for
// dozeTime: then the poll goes on in a system call as any other. A garbage collection that
// begins meanwhile ends the doze with its signal.

// dozeTime is long enough for a peer of a conversation to be woken and to answer.
const dozeTime = 500 * time.Microsecond

// dozing counts the goroutines that doze.
var dozing atomic.Int32

// beginDoze reports whether the caller may doze. With one processor nobody does.
func beginDoze() bool {
	if dozing.Add(1) <= int32(runtime.GOMAXPROCS(0)/2) {
		return true
	}
	endDoze()
	return false
}

func endDoze() { dozing.Add(-1) }

// rawPpoll is unix.Ppoll without a timeout and a mask, and without the runtime.
func rawPpoll(fds []unix.PollFd, _ *unix.Timespec, _ *unix.Sigset_t) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
