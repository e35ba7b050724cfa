package shard

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// yielder lets others run while a goroutine looks for packets again and again:
// goroutines of this process, for which the packets may be, and
// threads of others, which may send them. Where there are fewer CPUs
// than threads that look, as with both ends on one, not to do so costs a time
// slice, milliseconds, for every message.
//
// Yielding costs a system call, so it is rare until a yield shows that another thread
// was waiting; then we yield after every empty poll. A thread that keeps the CPU longer
// than hoggedNs is unrelated work, so we stop yielding for hogPauseNs.
//
// That is for processes with one CPU. With more, the scheduler moves threads that
// want the same, but not those that take turns at it in microseconds: these it keeps
// together, as the caches are warm, and a second CPU would stay idle.
type yielder struct {
	looks        atomic.Uint32
	crowded      atomic.Bool
	backoffUntil atomic.Int64 // no yield before
}

// GiveWay is called after a look that found nothing.
func (s *Shard) GiveWay() {
	y := &s.yield
	if y.looks.Add(1)%PollYield != 0 && !y.crowded.Load() {
		return
	}
	runtime.Gosched()
	if runtime.NumCPU() > 1 {
		return
	}
	start := s.link.Now()
	if start < y.backoffUntil.Load() {
		return
	}
	yieldCPU()
	y.gaveWay(start, s.link.Now())
}

// gaveWay learns from how long it took to get the CPU back.
func (y *yielder) gaveWay(start, end int64) {
	took := end - start
	crowded := took > sharedNs
	if took > hoggedNs {
		y.backoffUntil.Store(end + hogPauseNs)
		crowded = false
	}
	if crowded != y.crowded.Load() {
		y.crowded.Store(crowded)
	}
}

// yieldCPU lets another thread run on this CPU, if one wants to.
func yieldCPU() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
