package node

import (
	"encoding/binary"
	"os"
	"strconv"

	"github.com/goroce/goroce/internal/unix"
)

// eventCounter counts an event of the CPU in all threads of this process: those that there are when
// it is opened, and theirs.
type eventCounter struct{ fds []int }

// cycles counts CPU cycles from Main on; nil if the kernel does not: a virtual machine without the
// counter, or kernel.perf_event_paranoid.
var cycles *eventCounter

// countEvents opens a counter; nil if that cannot be done.
func countEvents(kind uint32, config uint64) *eventCounter {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	c := &eventCounter{}
	attr := unix.PerfEventAttr{Type: kind, Size: unix.PERF_ATTR_SIZE_VER5, Config: config, Bits: unix.PerfBitInherit}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err == unix.ESRCH {
			continue // it has ended
		}
		if err != nil {
			c.close()
			return nil
		}
		c.fds = append(c.fds, fd)
	}
	return c
}

// read returns the count so far; 0 of nil.
func (c *eventCounter) read() (sum uint64) {
	if c == nil {
		return 0
	}
	var b [8]byte
	for _, fd := range c.fds {
		if n, err := unix.Read(fd, b[:]); err == nil && n == len(b) {
			sum += binary.NativeEndian.Uint64(b[:])
		}
	}
	return sum
}

func (c *eventCounter) close() {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
}
