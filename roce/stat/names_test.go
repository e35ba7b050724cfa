package stat

import (
	"testing"

	"github.com/goroce/goroce/roce/metrics"
	"github.com/stretchr/testify/require"
)

// The names are those of package metrics, which this one does not import: it brings in expvar and
// its HTTP handler.
func TestNamesOfMetrics(t *testing.T) {
	for i, m := range metrics.Read(nil)[:len(counterNames)] {
		require.Equal(t, counterNames[i], m.Name)
	}
}
