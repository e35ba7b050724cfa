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
		v.inVain()
		require.Equal(t, want, skipped())
	}
	v.paid()
	require.Zero(t, skipped())
	v.inVain()
	require.Equal(t, 1, skipped())
}
