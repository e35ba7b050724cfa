package matrix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGapMayNAK(t *testing.T) {
	for name, c := range map[string]struct {
		at   []time.Duration
		want []bool
	}{
		"at once, and after each pause":       {[]time.Duration{10, 12, 14, 18}, []bool{true, true, true, true}},
		"one for each packet that comes late": {[]time.Duration{10, 10, 11}, []bool{true, false, false}},
		"all late":                            {[]time.Duration{50, 50, 50}, []bool{true, true, true}},
	} {
		g := gap{opened: 10 * ms}
		for i, at := range c.at {
			require.Equal(t, c.want[i], g.mayNAK(at*ms), "%s: %d", name, i)
		}
	}
}
