package simreport_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/bench/simreport"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/verbs"
)

// Figures of docs/loss.md over a slow path with a short queue, which a window of 1,024 packets
// overflows: -v.
func TestNarrow(t *testing.T) {
	seeds.Long(t)
	for _, c := range []struct {
		simreport.Narrow
		write, read float64 // at least, Mb/s
	}{
		{simreport.Narrow{}, 180, 180},
		{simreport.Narrow{Loss: 0.001}, 180, 170},
		{simreport.Narrow{Loss: 0.01}, 175, 165},
		{simreport.Narrow{Reorder: 0.01}, 180, 175},
		{simreport.Narrow{RTT: 10 * time.Millisecond, Queue: 300}, 170, 170},
		{simreport.Narrow{RTT: 10 * time.Millisecond, Queue: 300, Loss: 0.001}, 170, 90},
	} {
		run := func(op verbs.WROpcode, goBackN bool) *simreport.NarrowResult {
			s := c.Narrow
			s.Op, s.GoBackN, s.For, s.Seed = op, goBackN, 2*time.Second, 1
			r, err := simreport.RunNarrow(&s)
			require.NoError(t, err)
			require.Zero(t, r.Timeouts)
			return r
		}
		w, r := run(verbs.WRWrite, false), run(verbs.WRRead, false)
		t.Logf("%v, %d packets, %g %% lost, %g %% overtaken: WRITE %.0f, READ %.0f, going back %.0f, %.0f Mb/s",
			c.RTT, c.Queue, 100*c.Loss, 100*c.Reorder, w.Mbps, r.Mbps, run(verbs.WRWrite, true).Mbps,
			run(verbs.WRRead, true).Mbps)
		require.Greater(t, w.Mbps, c.write)
		require.Greater(t, r.Mbps, c.read)
		require.Less(t, w.Backs, uint64(3), "what was lost of a window is sent again by itself")
	}
}
