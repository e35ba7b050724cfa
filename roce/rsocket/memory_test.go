package rsocket

import (
	"math"
	"runtime"
	"testing"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// heapBytes is what is in use on the heap. What tests before have left is collected in
// several rounds: pools keep it for one, and finalizers for another.
func heapBytes() int {
	least := math.MaxInt
	for fewer := 3; fewer > 0; fewer-- {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if n := int(m.HeapAlloc); n < least-1<<16 {
			least, fewer = n, 4
		}
	}
	return least
}

// A connection that has sent and received little takes little besides its buffers, whose pages
// take no memory until they are used.
func TestIdleMemory(t *testing.T) {
	const n, most, tries = 100, 20 << 10, 5
	net := simNetwork(t, sim.Config{Seed: 2})
	talk := func() {
		c, s := net.pair(t, Config{})
		for _, end := range [][2]*Conn{{c, s}, {s, c}} {
			_, err := end[0].Write(make([]byte, 100))
			require.NoError(t, err)
			recvN(t, end[1], 100)
		}
	}
	talk()
	held := most
	for try := 0; try < tries && held >= most; try++ { // what another test has begun may come in between
		before := heapBytes()
		for range n {
			talk()
		}
		held = (heapBytes()-before)/n/2 - 2*defaultBuffer
		t.Logf("%d bytes each, without the buffers", held)
	}
	require.Less(t, held, most)
}

// What a connection is said to hold, which bounds how many can be half-open, is what it holds.
func TestMemoryEstimate(t *testing.T) {
	const n, tries = 30, 5
	for name, cfg := range map[string]Config{
		"defaults":    {},
		"small":       {SendBuffer: minSendBuffer, RecvBuffer: minRecvBuffer, SendQueue: minQueue, RecvQueue: minQueue},
		"long queues": {SendQueue: 4000, RecvQueue: 4000},
		"mappings":    {IOMaps: 32512},
	} {
		t.Run(name, func(t *testing.T) {
			net := simNetwork(t, sim.Config{Seed: 1})
			net.pair(t, cfg)
			said := cfg.normal().memory()
			var held int
			// What another test has left may go in between, or come.
			for try := 0; try < tries && (held <= said/2 || held >= said*5/4); try++ {
				before := heapBytes()
				for range n {
					net.pair(t, cfg)
				}
				held = (heapBytes() - before) / n / 2
				t.Logf("%d KiB each; said to be %d KiB", held>>10, said>>10)
			}
			require.Less(t, held, said*5/4)
			require.Greater(t, held, said/2)
		})
	}
}
