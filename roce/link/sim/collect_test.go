package sim_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

var sink []byte

// The garbage collector runs when all goroutines wait, and not beside them; afterwards it is as it
// was.
func TestCollectsBetween(t *testing.T) {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	limit := debug.SetMemoryLimit(-1)
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	sim.Test(t, sim.Config{}, func(t *testing.T, network *sim.Fabric) {
		before := collections()
		for range 300 {
			sink = make([]byte, 1<<20)
		}
		require.Equal(t, before, collections())
		for range 1000 {
			sink = make([]byte, 1<<20)
			network.Turn()
		}
		require.Greater(t, collections(), before+2)
	})
	require.Equal(t, percent, debug.SetGCPercent(percent))
	require.Equal(t, limit, debug.SetMemoryLimit(-1))
}
