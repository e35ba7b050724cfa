package main

import (
	"os"
	"runtime"
)

// One processor of the runtime more than there are CPUs, unless the user says otherwise. The thread
// that polls keeps its processor between two calls, and a goroutine that sleeps in a system call
// keeps another one. If none is idle, the runtime's monitor looks every 20 us whether to take one
// from them, which costs a CPU dearly if there are two and both spin; else it leaves them theirs
// for 10 ms, and sleeps for longer and longer. A single CPU is left as it is: what one more gains
// there varies (docs/bench/what-stops-it.md).
func init() {
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && runtime.NumCPU() > 1 {
		runtime.GOMAXPROCS(n + 1)
	}
}
