package node

import (
	"runtime"
	"sync"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// Events are counted in threads that there are, and in those that come; a machine without a counter
// of cycles has one of time, which is as good here.
func TestEventCounter(t *testing.T) {
	c := countEvents(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK)
	if c == nil {
		t.Skip("the kernel lets this user count no events: kernel.perf_event_paranoid")
	}
	defer c.close()
	before := c.read()
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends
			for from := threadCPU(); threadCPU()-from < 5e6; {
			}
		})
	}
	work.Wait()
	// More than three of them can have used: the two clocks are not one, and differ by a tenth on a
	// busy machine.
	require.Greater(t, c.read()-before, uint64(3*5e6))
	require.Nil(t, countEvents(1<<20, 0), "no such event")
	require.Zero(t, (*eventCounter)(nil).read())
}
