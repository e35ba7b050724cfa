package tool

import (
	"runtime"

	"github.com/goroce/goroce/internal/unix"
)

// fewCPUs is how many CPUs it takes at least for spinning to pay: the device's
// thread and the tool's own need one each, and usually the peer's too.
const fewCPUs = 4

// Spins is how often a tool looks at an empty completion queue before it blocks. Waking a blocked
// goroutine costs more than a small message takes; but where CPUs are few, one that spins keeps the
// device's thread from receiving: on two CPUs, send_lat between two processes took 136 us with 200
// looks and 102 us with none.
var Spins = spins(runtime.GOMAXPROCS(0))

func spins(cpus int) int {
	if cpus < fewCPUs {
		return 0
	}
	return 200
}

// YieldCPU lets another thread run on this CPU, if one wants to. runtime.Gosched gives way to
// goroutines only, and time.Sleep takes a millisecond at the least when nothing else happens.
func YieldCPU() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
