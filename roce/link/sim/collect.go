package sim

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The garbage collector stops goroutines anywhere, and they resume in another order; it also
// empties sync.Pools, which changes the length of a program's buffers. So while a [Test] runs, it
// collects only when all goroutines wait, after every collectBytes of allocations. collectLimit
// above the memory at the start is more than a test should allocate between two such moments:
// beyond that it collects immediately.
const (
	collectBytes = 32 << 20
	collectLimit = 1 << 30
	collectEvery = 64 // steps between two checks
)

// collecting counts the users that delay the collector.
var collecting struct {
	sync.Mutex
	users   int
	percent int
	limit   int64
}

// collectBetween delays the collector until the returned function is called. It first empties the
// pools of earlier tests.
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

// collector collects when all goroutines wait.
type collector struct {
	steps int
	at    uint64 // how much had been allocated at the last collection
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
