package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

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
