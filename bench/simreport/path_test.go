package simreport

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport/cc"
)

func delayFlows(n int, rttNs ...int64) (x []PathFlow) {
	for i := range n {
		x = append(x, PathFlow{RTTNs: rttNs[i%len(rttNs)], Op: verbs.WRWrite, CC: cc.Config{Algorithm: cc.ByDelay}})
	}
	return x
}

func runPath(t *testing.T, s *Path) *PathResult {
	s.Seed = 1
	r, err := RunPath(s)
	require.NoError(t, err)
	return r
}

// 200 Mb/s, 1 ms, a queue of 100 packets: control by delay fills the path and drops nothing, with
// WRITE and READ; also where one packet in a hundred is lost.
func TestDelayFillsThePath(t *testing.T) {
	s := &Path{Rate: 200 * cc.Mbps, Queue: 100, Flows: delayFlows(1, Millisecond), DurationNs: 600 * Millisecond, WarmupNs: 100 * Millisecond}
	r := runPath(t, s)
	require.Greater(t, r.Total, 0.97*r.PayloadMax)
	require.Zero(t, r.Dropped)
	s.Flows[0].Op = verbs.WRRead
	r = runPath(t, s)
	require.Greater(t, r.Total, 0.97*r.PayloadMax, "READ")
	require.Zero(t, r.Dropped)
	seeds.Long(t)
	s.Flows[0].Op = verbs.WRWrite
	s.Loss = 0.01
	r = runPath(t, s)
	require.Greater(t, r.Total, 160.0)
	require.Zero(t, r.Dropped)
}

// Flows that begin at once into a queue of 100 packets share the path, and drop next to nothing
// after a second.
func TestDelayShares(t *testing.T) {
	for _, n := range []int{2, 4, 8, 16} {
		s := &Path{Rate: 200 * cc.Mbps, Queue: 100, Flows: delayFlows(n, Millisecond), DurationNs: 3000 * Millisecond, WarmupNs: 1000 * Millisecond}
		r := runPath(t, s)
		t.Logf("%d flows: %.1f of %.1f Mb/s, Jain %.3f, %.2f %% dropped", n, r.Total, r.PayloadMax, r.Jain, 100*r.Dropped)
		require.Greater(t, r.Total, 0.95*r.PayloadMax)
		require.GreaterOrEqual(t, r.Jain, 0.95)
		require.Less(t, r.Dropped, 0.005)
	}
}

// Round trips of 2 and 10 ms: shares differ by less than a factor of 2.
func TestDelayRoundTrips(t *testing.T) {
	for _, n := range []int{2, 4} {
		s := &Path{Rate: 200 * cc.Mbps, Queue: 100, Flows: delayFlows(n, 2*Millisecond, 10*Millisecond), DurationNs: 2000 * Millisecond, WarmupNs: 1000 * Millisecond}
		r := runPath(t, s)
		t.Logf("%.1f Mb/s", r.Goodput)
		require.Greater(t, r.Total, 0.97*r.PayloadMax)
		require.Less(t, slices.Max(r.Goodput), 2*slices.Min(r.Goodput))
		require.Less(t, r.Dropped, 0.005)
	}
}
