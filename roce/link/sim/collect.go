package sim

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The garbage collector stops goroutines wherever they are, and they go on in another order; and it
// empties sync.Pools, so that a program has a longer buffer or a shorter one. So while a [Test]
// runs it collects only when all goroutines wait, after so many bytes. collectLimit more than there
// were at the start is more than a test should have between two such moments: then it collects
// where it is.
const (
	collectBytes = 32 << 20
	collectLimit = 1 << 30
	collectEvery = 64 // steps between two looks
)

// collecting counts who has the collector wait.
var collecting struct {
	sync.Mutex
	users   int
	percent int
	limit   int64
}

// collectBetween has the collector wait until the function that it returns is called. It empties
// pools first, of what earlier tests left.
func collectBetween() func() {
	collecting.Lock()
	defer collecting.Unlock()
	if collecting.users++; collecting.users == 1 {
		runtime.GC()
		runtime.GC() // pools are empty after two
		collecting.percent = debug.SetGCPercent(-1)
		collecting.limit = debug.SetMemoryLimit(-1)
		if limit := int64(read("/memory/classes/total:bytes")) + collectLimit; limit < collecting.limit {
			debug.SetMemoryLimit(limit)
		}
	}
	return func() {
		collecting.Lock()
		defer collecting.Unlock()
		if collecting.users--; collecting.users == 0 {
			debug.SetGCPercent(collecting.percent)
			debug.SetMemoryLimit(collecting.limit)
		}
	}
}

// collector collects when all wait.
type collector struct {
	steps int
	at    uint64 // how much had been allocated when it last did
}

// step is called when all goroutines wait.
func (c *collector) step() {
	if c.steps++; c.steps%collectEvery != 0 {
		return
	}
	if n := read("/gc/heap/allocs:bytes"); n-c.at >= collectBytes {
		if c.at = n; c.steps > collectEvery {
			runtime.GC()
		}
	}
}

func read(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return math.MaxInt64 / 2
	}
	return s[0].Value.Uint64()
}
