package simreport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/bench/simreport"
)

// Selective repeat loses of the rate what is lost, and less than a tenth more. Figures of docs/loss.md: -v.
func TestLossOfRate(t *testing.T) {
	for _, w := range simreport.LossWindows {
		for _, p := range simreport.LossRates {
			run := func(goBackN, read bool) float64 {
				r, err := simreport.RunLossy(&simreport.Lossy{Window: w, Loss: p, GoBackN: goBackN, Read: read, Packets: 60000, Seed: 1})
				require.NoError(t, err)
				require.Zero(t, r.Timeouts)
				return r.Efficiency
			}
			selective, back := run(false, false), run(true, false)
			s := simreport.Lossy{Window: w, Loss: p}
			b := simreport.Lossy{Window: w, Loss: p, GoBackN: true}
			t.Logf("| %d | %g %% | %.3f | %.3f | %.3f | %.3f | %.3f |", w, 100*p, selective, s.Expected(), back, b.Expected(), run(false, true))
			require.Greater(t, selective, 0.9*s.Expected(), "W %d, loss %g", w, p)
			require.Greater(t, selective, back-0.001)
		}
	}
}
