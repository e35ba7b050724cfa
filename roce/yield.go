package roce

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// yielder lets others run while a goroutine looks for packets again and again:
// goroutines of this process, which may be whoever the packets are for, and
// threads of others, which may be whoever sends them. Where there are fewer CPUs
// than threads that look, as with both ends on one, not to do so costs a time
// slice, milliseconds, for every message.
//
// To give way to other threads is a system call, so it is done now and then only,
// until it turns out that one had waited for the CPU; then after every look,
// as long as that goes on. A thread that then keeps the CPU for long is no
// peer but has other work, and would take a time slice each time it is let: it
// has to wait for the scheduler.
//
// That is for processes with one CPU. With more, the scheduler moves threads that
// want the same, but not those that take turns at it in microseconds: these it keeps
// together, as the caches are warm, and a second CPU would stay idle.
type yielder struct {
	looks   atomic.Uint32
	crowded atomic.Bool
	not     atomic.Int64 // until then no way is given
}

// idle is called after a look that found nothing.
func (d *Device) idle() {
	y := &d.yield
	if y.looks.Add(1)%pollYield != 0 && !y.crowded.Load() {
		return
	}
	runtime.Gosched()
	if runtime.NumCPU() > 1 {
		return
	}
	start := d.link.Now()
	if start < y.not.Load() {
		return
	}
	yieldCPU()
	y.gaveWay(start, d.link.Now())
}

// gaveWay learns from how long it took to get the CPU back.
func (y *yielder) gaveWay(start, end int64) {
	took := end - start
	crowded := took > sharedNs
	if took > hoggedNs {
		y.not.Store(end + hogPauseNs)
		crowded = false
	}
	if crowded != y.crowded.Load() {
		y.crowded.Store(crowded)
	}
}

// yieldCPU lets another thread run on this CPU, if one wants to.
func yieldCPU() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
