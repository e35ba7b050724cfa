package simreport

import (
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

// 200 Mb/s, 1 ms, a queue of 100 packets: control by delay fills the path and drops nothing, with WRITE and READ; also where one
// packet in a hundred is lost.
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
