package simreport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/bench/simreport"
	"github.com/goroce/goroce/roce/verbs"
)

// Selective repeat loses of the rate what is lost, and less than a tenth more, whatever brings the
// data. Figures of docs/loss.md: -v.
func TestLossOfRate(t *testing.T) {
	for _, w := range simreport.LossWindows {
		for _, p := range simreport.LossRates {
			run := func(op verbs.WROpcode, loss float64, goBackN bool) float64 {
				r, err := simreport.RunLossy(&simreport.Lossy{Window: w, Loss: loss, GoBackN: goBackN, Op: op, Packets: 60000, Seed: 1})
				require.NoError(t, err)
				require.Zero(t, r.Timeouts)
				return r.Efficiency
			}
			s := simreport.Lossy{Window: w, Loss: p}
			b := simreport.Lossy{Window: w, Loss: p, GoBackN: true}
			write, send, read := run(verbs.WRWrite, p, false), run(verbs.WRSend, p, false), run(verbs.WRRead, p, false)
			back := run(verbs.WRWrite, p, true)
			t.Logf("| %d | %g %% | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |", w, 100*p, write, send, read, s.Expected(), back, b.Expected())
			for op, got := range map[verbs.WROpcode]float64{verbs.WRWrite: write, verbs.WRSend: send, verbs.WRRead: read} {
				require.Greater(t, got, 0.9*s.Expected()*run(op, 0, false), "operation %d, W %d, loss %g", op, w, p)
			}
			require.Greater(t, write, back-0.001)
		}
	}
}
