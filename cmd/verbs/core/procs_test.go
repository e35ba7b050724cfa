package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// Each thread that waits finds a processor, however many there are, and the user's choice stays.
func TestRoomForThreads(t *testing.T) {
	was, made := runtime.GOMAXPROCS(0), procs.made
	defer func() {
		procs.made = made
		runtime.GOMAXPROCS(was)
	}()
	for _, c := range []struct{ made, threads, want int }{
		{6, 2, 6}, {6, 3, 14}, {14, 10, 14}, {14, 60, mostProcs}, {mostProcs, 1000, mostProcs}, {0, 60, 6},
	} {
		procs.made = c.made
		runtime.GOMAXPROCS(max(c.made, 6))
		if makeRoom(c.threads); runtime.GOMAXPROCS(0) != c.want {
			t.Errorf("%d for %d threads, of %d", runtime.GOMAXPROCS(0), c.threads, c.made)
		}
	}
}

// The first collection comes late, and those behind it as always.
func TestFirstCollection(t *testing.T) {
	if late == nil {
		t.Skip("GOGC is set")
	}
	runtime.GC()
	<-late
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	again := lateCollection()
	if got := percent(); got != 300 {
		t.Errorf("%d %% at first", got)
	}
	runtime.GC()
	<-again
	if got := percent(); got != 100 {
		t.Errorf("%d %% then", got)
	}
}
