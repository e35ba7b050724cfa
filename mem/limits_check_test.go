package mem

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Check names the limit that cannot be, at both ends of what can.
func TestLimitsCheck(t *testing.T) {
	for _, l := range []Limits{
		{}, {PDs: maxPDs, Regions: maxKeys / 4, Windows: maxKeys / 4, Quarantine: maxKeys / 2},
		{Quarantine: -1}, {Quarantine: math.MinInt},
	} {
		require.NoError(t, l.Check(), "%+v", l)
	}
	for name, all := range map[string][]Limits{
		"PDs":        {{PDs: -1}, {PDs: maxPDs + 1}},
		"Regions":    {{Regions: -1}, {Regions: maxKeys/4 + 1}},
		"Windows":    {{Windows: -1}, {Windows: maxKeys/4 + 1}},
		"Quarantine": {{Quarantine: maxKeys/2 + 1}},
	} {
		for _, l := range all {
			err := l.Check()
			require.ErrorIs(t, err, ErrInvalid, "%+v", l)
			require.ErrorContains(t, err, name)
		}
	}
}
