package simreport_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/bench/simreport"
	"github.com/goroce/goroce/internal/seeds"
)

// Selective repeat loses of the rate what is lost, and less than a tenth more, whatever brings the
// data. Going back keeps what the theory says, within a tenth; less where each window loses many
// packets.
func TestLossPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/congestion/loss.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(page)) {
		var r simreport.LossRow
		var times, selective, back float64
		if n, _ := fmt.Sscanf(line, "| %d | %g %% | %f | %f | %f | %f | %f | %f | %f |",
			&r.Window, &r.Loss, &r.Write, &r.Send, &r.Read, &selective, &r.Back, &back, &times); n != 9 {
			continue
		}
		r.Loss /= 100
		rows++
		want, wantBack := r.Expected()
		require.InDelta(t, want, selective, 0.001)
		require.InDelta(t, wantBack, back, 0.0001)
		require.GreaterOrEqual(t, min(r.Write, r.Send, r.Read), 0.9*want, line)
		require.Less(t, r.Back, 1.1*wantBack, line)
		if float64(r.Window)*r.Loss < 50 {
			require.Greater(t, r.Back, 0.9*wantBack, line)
		}
	}
	require.Equal(t, len(simreport.LossWindows)*len(simreport.LossRates), rows)

	seeds.Long(t)
	r, err := simreport.PlayLoss(12, 0.05)
	require.NoError(t, err)
	require.Contains(t, string(page), r.String()+"\n", "make sim-report")
}
