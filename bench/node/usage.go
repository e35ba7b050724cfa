package node

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"

	"github.com/goroce/goroce/internal/unix"
)

// Usage is what a node has used up so far, or uses.
type Usage struct {
	CPU    float64 // seconds, user and system
	Cycles uint64  // of the CPU, user and system; 0 if they are not counted
	Heap   uint64  // bytes of live objects, if asked for
	RSS    uint64  // bytes, if asked for
}

// Usage returns it; live asks for the memory too, which collects garbage.
func (n *Node) Usage(live bool, u *Usage) error {
	if live {
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.Heap = m.HeapAlloc
		b, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			return err
		}
		var size, pages uint64
		if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
			return err
		}
		u.RSS = pages * uint64(os.Getpagesize())
	}
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return err
	}
	u.CPU = float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
	u.Cycles = cycles.read()
	return nil
}

var profile bytes.Buffer

// StartProfile begins a CPU profile.
func (n *Node) StartProfile(struct{}, *struct{}) error {
	profile.Reset()
	return pprof.StartCPUProfile(&profile)
}

// StopProfile ends it and returns it.
func (n *Node) StopProfile(_ struct{}, b *[]byte) error {
	pprof.StopCPUProfile()
	*b = profile.Bytes()
	return nil
}

// threadCPU is the CPU time of this thread in nanoseconds.
func threadCPU() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}
