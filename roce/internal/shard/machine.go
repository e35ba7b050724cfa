package shard

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
)

// machine gives a shard access to CPUs, their usage and Go's scheduler. It is the real machine,
// except on a simulated link that models CPUs and threads: such a link has a machine of its own,
// and all of this package runs there as it does elsewhere.
//
// Two methods only inform a model, and do nothing else on a real machine. A goroutine that begins,
// or returns from a wait on a channel, calls Resumed before anything else, holding no mutex: only
// then does the model know that the goroutine wants a CPU, and what its wake-up costs. Lock takes a
// mutex that is held while the link receives or waits, since a model lets time pass meanwhile.
type machine interface {
	// CPUs is how many the process may run on; Procs how many goroutines run at a time.
	CPUs() int
	Procs() int
	// ProcessRan is the CPU time that the process has had so far, ns.
	ProcessRan() int64
	// Thread is the calling thread; 0 if there is no telling.
	Thread() int
	// ThreadRan is the CPU time of a thread of the process, ns. ThreadReady reports whether the
	// thread runs, or would if it had a CPU; false if there is no telling.
	ThreadRan(thread int) int64
	ThreadReady(thread int) bool
	// Runnable reports whether goroutines of this process are ready to run, and do not. Only one
	// goroutine calls it at a time.
	Runnable() bool
	// Gosched lets goroutines of this process run that are ready.
	Gosched()
	// Yield lets other threads run on this CPU.
	Yield()
	// ShortSlices gives the threads of the process short time slices, until it has been called as
	// often with false.
	ShortSlices(bool)
	// Nap sleeps in a system call. The thread sleeps, and keeps its processor of Go's runtime until
	// the runtime notices.
	Nap(time.Duration)

	Resumed()
	Lock(*sync.Mutex)
}

// machineOf returns the machine that a link runs on.
func machineOf(l link.Link) machine {
	if m, ok := link.As[machine](l); ok {
		return m
	}
	return &computer{}
}

// computer is the real machine.
type computer struct {
	ready [1]metrics.Sample
}

func (*computer) CPUs() int           { return runtime.NumCPU() }
func (*computer) Procs() int          { return runtime.GOMAXPROCS(0) }
func (*computer) Gosched()            { runtime.Gosched() }
func (*computer) Yield()              { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
func (*computer) Thread() int         { return unix.Gettid() }
func (*computer) Resumed()            {}
func (*computer) Lock(mu *sync.Mutex) { mu.Lock() }

func (*computer) Nap(d time.Duration) {
	// Not with a timer of the runtime: these are as coarse as 1 ms when the process is idle.
	// Threads of the libraries for C may be late by as much, too (load.c).
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, standbyNs, 0, 0, 0)
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal ends it early
}

func (*computer) ProcessRan() int64 {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}

func (*computer) ThreadRan(thread int) int64 {
	const perThread, scheduled = 4, 2 // CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED
	var ts unix.Timespec
	if unix.ClockGettime(int32(^thread<<3|perThread|scheduled), &ts) != nil {
		return 0
	}
	return ts.Nano()
}

func (*computer) ThreadReady(thread int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	_, state, ok := bytes.Cut(b, []byte(") ")) // behind the name
	return err == nil && ok && bytes.HasPrefix(state, []byte("R"))
}

// Runnable takes 60 ns. runtime.Gosched takes 100 ns if no goroutine is ready, but it wakes a
// thread that looks for one: two futex calls, and the time for which that thread goes on to look.
func (c *computer) Runnable() bool {
	c.ready[0].Name = "/sched/goroutines/runnable:goroutines"
	metrics.Read(c.ready[:])
	return c.ready[0].Value.Kind() != metrics.KindUint64 || c.ready[0].Value.Uint64() != 0
}

// Gosched lets goroutines of this process run that are ready. A thread that has called Go would go
// to sleep for that, and another one would have to wake it.
func (s *Shard) Gosched() {
	if !s.threads.Load() || s.machine.Procs() == 1 {
		s.machine.Gosched()
	}
}
