package shard

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
)

// slices asks the kernel for short time slices (Linux 6.12 and later) where threads take turns at
// the CPUs by yields: many threads that poll, or receivers whose yields are followed by short runs
// of others (demand). A thread that yields waits for the others' slices, so with slices of
// milliseconds each message does. Shares of the CPU stay as they are.
//
// Beside unrelated work, which keeps the CPU for long, a receiver with short slices would only lose
// the CPU more often. So slices are long again some seconds after the last such yield. There is one
// state for a process, since its threads inherit it, as do processes that it starts meanwhile.
type slices struct {
	short atomic.Bool
	until atomic.Int64 // when the slices are to be long again
}

// wantShortSlices asks for short time slices, as threads of this process and others take turns at
// the CPUs by yields.
func (s *Shard) wantShortSlices(now int64) {
	v := &s.slices
	v.until.Store(now + maxBackOff*staleNs)
	if !v.short.Load() && v.short.CompareAndSwap(false, true) {
		s.machine.ShortSlices(true)
		if s.Closed() {
			s.lapse(v.until.Load())
		}
	}
}

// lapse has slices long again if nothing has asked for short ones for long.
func (s *Shard) lapse(now int64) {
	v := &s.slices
	if v.short.Load() && now >= v.until.Load() && v.short.CompareAndSwap(true, false) {
		s.machine.ShortSlices(false)
	}
}

// brief counts the shards of this process that want short slices.
var brief struct {
	sync.Mutex
	shards int
}

func (*computer) ShortSlices(short bool) {
	brief.Lock()
	defer brief.Unlock()
	if short {
		if brief.shards++; brief.shards == 1 {
			sliceThreads(1) // the kernel's minimum is 0.1 ms
		}
	} else if brief.shards--; brief.shards == 0 {
		sliceThreads(0) // its default
	}
}

// sliceThreads sets the time slice of all threads, in ns. Those with a policy that has none, and
// kernels without, are left alone.
func sliceThreads(ns uint64) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		a, err := unix.SchedGetAttr(id, 0)
		if err != nil || a.Runtime == 0 || a.Policy != unix.SCHED_NORMAL && a.Policy != unix.SCHED_BATCH {
			continue
		}
		a.Runtime = ns
		_ = unix.SchedSetAttr(id, a, 0)
	}
}
