package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What did not pay is tried again after 1, 3, 7 ... chances, up to a bound; what paid is tried each
// time.
func TestBackOff(t *testing.T) {
	var v backOff
	skipped := func() (n int) {
		for ; !v.due(); n++ {
		}
		return n
	}
	require.Zero(t, skipped())
	for _, want := range []int{1, 3, 7, 15, 31, 63, 127, 255, 255} {
		v.failed()
		require.Equal(t, want, skipped())
	}
	v.paid()
	require.Zero(t, skipped())
	v.failed()
	require.Equal(t, 1, skipped())
}
