package sim

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// stuckAfter is how long, in real time, goroutines may run without a moment in which all of them
// wait before a report.
const stuckAfter = time.Minute

// watchdog detects that a simulation is stuck. It watches from outside of the bubble, with the real
// clock.
type watchdog struct {
	steps atomic.Uint64 // steps of the driver
}

// start starts watching, until the returned function is called.
func (w *watchdog) start() func() {
	end := make(chan struct{})
	go func() {
		tick := time.NewTicker(stuckAfter)
		defer tick.Stop()
		for last := w.steps.Load(); ; {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			now := w.steps.Load()
			if now == last {
				bark()
				return
			}
			last = now
		}
	}()
	return func() { close(end) }
}

// bark prints what to look for, and what all goroutines do.
func bark() {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	fmt.Fprintf(os.Stderr, "sim: for %v there was no moment in which all goroutines wait, so that no time can pass. "+
		"Either one computes for so long, or it waits for a mutex that another holds while it waits for the network "+
		"(look for sync.Mutex.Lock):\n\n%s\n", stuckAfter, buf)
}
