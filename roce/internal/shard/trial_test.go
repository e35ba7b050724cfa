package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What was in vain is tried after 1, 3, 7 ... times, up to a bound, and each time again after it
// has paid.
func TestTrial(t *testing.T) {
	var v trial
	skipped := func() (n int) {
		for ; !v.due(); n++ {
		}
		return n
	}
	require.Zero(t, skipped())
	for _, want := range []int{1, 3, 7, 15, 31, 63, 127, 255, 255} {
		v.inVain(maxHoldSkip)
		require.Equal(t, want, skipped())
	}
	v.inVain(63)
	require.Equal(t, 63, skipped())
	v.paid()
	require.Zero(t, skipped())
	v.inVain(maxHoldSkip)
	require.Equal(t, 1, skipped())
}
