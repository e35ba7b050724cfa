package simreport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport/cc"
)

// A peer that does not repeat selectively: a requester that goes back fills the path, and not its
// queue again and again. When a loss counted by the last round trip, however long ago that was
// measured, a WRITE had 98 of 185 Mb/s, and the queue dropped eight packets for each that it took.
// When half of the window left at once and doubled back, the queue that this made counted as that
// of the path: the fifth row had 41 Mb/s. What was lost of a window that doubled counted by the
// round trip of the half, and was sent whole again: the last row had 75 Mb/s with READs, and the
// first dropped 0.9 %.
func TestWindowOfOrdinaryPeer(t *testing.T) {
	for _, c := range []struct {
		Path
		rttNs       int64
		write, read float64 // at least, of the path
		most        float64 // dropped
	}{
		{Path{Rate: 200 * cc.Mbps, Queue: 100, Runs: true}, Millisecond, 0.94, 0.98, 0.002},
		{Path{Rate: 200 * cc.Mbps, Queue: 100, Loss: 0.01, Runs: true}, Millisecond, 0.64, 0.75, 0.001},
		{Path{Rate: 200 * cc.Mbps, Queue: 300, Runs: true}, 10 * Millisecond, 0.97, 0.98, 0.002},
		{Path{Rate: 200 * cc.Mbps, Queue: 300, Loss: 0.001, Runs: true}, 10 * Millisecond, 0.63, 0.65, 0.025},
		{Path{Rate: 200 * cc.Mbps, Queue: 300, Loss: 0.01}, 10 * Millisecond, 0.26, 0.3, 0.001},
		{Path{Rate: 100 * cc.Mbps, Queue: 400, Runs: true}, 40 * Millisecond, 0.96, 0.96, 0.002},
	} {
		for i, op := range []verbs.WROpcode{verbs.WRWrite, verbs.WRRead} {
			s := c.Path
			s.Flows = flowsOf(1, cc.Config{}, c.rttNs)
			s.Flows[0].Op, s.Ordinary = op, true
			s.DurationNs, s.WarmupNs = 3000*Millisecond, 1000*Millisecond
			r := runPath(t, &s)
			t.Logf("%v: %.1f of %.1f Mb/s, %.2f %% dropped", op, r.Total, r.PayloadMax, 100*r.Dropped)
			require.Greater(t, r.Total, []float64{c.write, c.read}[i]*r.PayloadMax)
			require.Less(t, r.Dropped, c.most)
		}
	}
}

// After a pause of the path a window doubles up to half of what it was. When it became a quarter
// with each ACK timeout, and then grew by a packet for each round trip, that took 2.3 s.
func TestWindowAfterPause(t *testing.T) {
	for _, op := range []verbs.WROpcode{verbs.WRWrite, verbs.WRSend, verbs.WRRead} {
		s := Path{
			Rate: 100 * cc.Mbps, Queue: 400, Flows: flowsOf(1, cc.Config{}, 40*Millisecond), Runs: true,
			Silence: 60_000 * Millisecond, Changes: []Change{{AtNs: 2000 * Millisecond, CutNs: 3000 * Millisecond}},
			DurationNs: 7000 * Millisecond,
		}
		s.Flows[0].Op = op
		r := runPath(t, &s)
		require.NoError(t, r.Broken)
		t.Logf("%v: %v ms", op, r.After[0]/Millisecond)
		require.Less(t, r.After[0], 1250*Millisecond)
		require.Positive(t, r.After[0])
	}
}

// Whatever changes on the path, connections outlast it. A flow is back within a second and a half,
// and within half a second where the other end repeats selectively and the path answers.
func TestChanges(t *testing.T) {
	seeds.Long(t)
	for _, x := range changingPaths() {
		for _, ordinary := range []bool{false, true} {
			for _, op := range []verbs.WROpcode{verbs.WRWrite, verbs.WRRead} {
				s := x.Path
				s.Ordinary, s.Flows[0].Op = ordinary, op
				r, err := RunPath(&s)
				require.NoError(t, err)
				require.NoError(t, r.Broken, x.name)
				t.Logf("%s, %v, ordinary %v: %v", x.name, op, ordinary, r.After)
				if len(r.After) == 1 {
					require.Less(t, r.After[0], 1500*Millisecond, x.name)
					require.GreaterOrEqual(t, r.After[0], int64(0), x.name)
				} else if s.Changes[0].Rate != 0 && !ordinary {
					require.Less(t, max(r.After[0], r.After[1]), 600*Millisecond, x.name)
					require.GreaterOrEqual(t, min(r.After[0], r.After[1]), int64(0), x.name)
				}
			}
		}
	}
}

// A path that becomes shorter holds less. When a requester that went back in each window took only
// what was as long as the shortest round trip before, it kept the window of the longer path: from
// 20 to 1 ms a WRITE had 12 of 185 Mb/s from then on, and most packets were dropped.
func TestShorterPath(t *testing.T) {
	for _, farther := range []int64{9, 19} {
		s := Path{
			Rate: 200 * cc.Mbps, Queue: 100, Flows: flowsOf(1, cc.Config{}, Millisecond), Runs: true, Ordinary: true,
			Silence: 60_000 * Millisecond, DurationNs: 4000 * Millisecond, WarmupNs: 3000 * Millisecond, Seed: 1,
			Changes: []Change{{AtNs: 1, FartherNs: farther * Millisecond}, {AtNs: 2000 * Millisecond}},
		}
		r := runPath(t, &s)
		t.Logf("%d ms: after %v ms, then %.1f Mb/s", 1+farther, r.After[1]/Millisecond, r.Total)
		require.GreaterOrEqual(t, r.After[1], int64(0))
		require.Less(t, r.After[1], 500*Millisecond)
		require.Greater(t, r.Total, 0.94*r.PayloadMax)
	}
}
