package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Some processors of the runtime more than there are CPUs, unless the user says otherwise. Each
// thread that polls, posts or waits for events keeps a processor between two calls, and a goroutine
// that sleeps in a system call keeps another one. If none is idle, who calls next waits until the
// runtime's monitor takes one from them. A single CPU is left as it is: what one more gains there
// varies (docs/bench/what-stops-it.md).
func init() {
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && runtime.NumCPU() > 1 {
		runtime.GOMAXPROCS(n + moreProcs)
		vectors = min(n, maxVectors)
		procs.made = n + moreProcs
	}
}

// procs is how many processors were made; 0: they are the user's choice.
var procs struct {
	mu   sync.Mutex
	made int
}

// makeRoom makes processors for so many threads that wait, beside those of init. Each change stops
// all goroutines, so it makes twice as many at a time.
func makeRoom(threads int) {
	procs.mu.Lock()
	defer procs.mu.Unlock()
	if want := min(threads+moreProcs, mostProcs); procs.made != 0 && want > procs.made {
		procs.made = min(2*want, mostProcs)
		runtime.GOMAXPROCS(procs.made)
	}
}

// vectors is how many completion vectors a device has: one for each CPU, since threads that wait or
// poll receive themselves; 0 is half of the processors of the runtime.
var vectors int

const (
	moreProcs  = 4
	mostProcs  = 128
	maxVectors = 8
)

func init() {
	if os.Getenv("GOGC") == "" {
		late = lateCollection()
	}
}

// late is closed when the first collection is done; nil if GOGC says how it shall be.
var late <-chan struct{}

// lateCollection has the first garbage collection come later, and those after it as usual; it
// returns what is closed then. The first is due when 2.8 MB are allocated, which is at the end of
// opening the first device: a tenth of what that costs. Programs that connect at once have
// deadlines: valkey's client gives both a second.
func lateCollection() <-chan struct{} {
	usual, done := debug.SetGCPercent(300), make(chan struct{})
	runtime.AddCleanup(new([16]byte), func(percent int) {
		debug.SetGCPercent(percent)
		close(done)
	}, usual)
	return done
}
