package perftest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLatencyOf(t *testing.T) {
	// Differences 2, 4, 6, 8, 100, 200 us; the two longest do not count.
	posted := []int64{0, 2000, 6000, 206000, 212000, 220000, 320000}
	l := latencyOf(64, posted, 1)
	require.Equal(t, []float64{2, 4, 200, 6, 8, 100}, l.inOrder)
	require.Equal(t, []float64{2, 4, 6, 8}, l.sorted)
	require.EqualValues(t, 7, l.Iters)
	require.InDelta(t, 2, l.Min, 1e-9)
	require.InDelta(t, 100, l.Max, 1e-9, "the shorter of the two cut off")
	require.InDelta(t, 5, l.Typical, 1e-9)
	require.InDelta(t, 5, l.Average, 1e-9)
	require.InDelta(t, 2.23606, l.Stdev, 1e-5)
	require.InDelta(t, 100, l.P99, 1e-9)
	require.InDelta(t, 100, l.P999, 1e-9)

	half := latencyOf(64, posted, 2)
	require.InDelta(t, l.Typical/2, half.Typical, 1e-9)
}

func TestLatencyOfFewestIterations(t *testing.T) {
	posted := make([]int64, minIters)
	for i := range posted {
		posted[i] = int64(i) * 1000
	}
	l := latencyOf(2, posted, 1)
	require.InDelta(t, 1, l.Typical, 1e-9)
	require.InDelta(t, 0, l.Stdev, 1e-9)
}

func TestLatencyOverTime(t *testing.T) {
	l := latencyOverTime(8, 1000, 2e9, 2)
	require.InDelta(t, 1000, l.Average, 1e-9)
	require.InDelta(t, 500, l.Rate, 1e-9)
	require.Zero(t, latencyOverTime(8, 0, 2e9, 2).Average, "no round trip at all")
}

func TestBWOf(t *testing.T) {
	r := bwOf(1<<20, 100, 2e9, 1e7, false)
	require.Equal(t, bwReport{Size: 1 << 20, Iters: 100, Peak: 100, Average: 50, Rate: 0.00005}, r)
	g := bwOf(125, 1_000_000, 1e9, 0, true)
	require.InDelta(t, 1, g.Average, 1e-9)
	require.InDelta(t, 1, g.Rate, 1e-9)
	require.Zero(t, g.Peak)
	require.Zero(t, bwOf(1, 1, 0, 0, false).Average, "no time measured")
}

func TestPeakNs(t *testing.T) {
	posted := []int64{0, 10, 20, 30}
	require.InDelta(t, 20, peakNs(posted, []int64{40, 50, 60, 80}, 1), 1e-9,
		"messages 0 to 2, or 0 to 3, in 20 ns each")
	require.InDelta(t, 25, peakNs(posted, []int64{0, 50, 0, 100}, 1), 1e-9, "completions for every other message")
	require.InDelta(t, 20, peakNs(posted, []int64{0, 0, 0, 80}, 1), 1e-9)
	require.Zero(t, peakNs(posted, make([]int64, 4), 1))
}
