package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A message waits if it follows another one closely, and the fewer the more often that was in vain.
func TestHold(t *testing.T) {
	var h hold
	now := int64(1_000_000)
	post := func(after int64) bool { now += after; return h.waits(now) }
	require.False(t, post(0), "by itself")
	require.True(t, post(1000))
	require.True(t, post(holdGapNs))
	require.False(t, post(holdGapNs+1))
	for _, want := range []int{1, 3, 7, 15} {
		h.inVain()
		for range want {
			require.False(t, post(100))
		}
		require.True(t, post(100), "after %d", want)
	}
	h.paid()
	h.inVain()
	require.False(t, post(100))
	require.True(t, post(100))
	for range 20 {
		h.inVain()
	}
	require.EqualValues(t, maxSkip, h.skip)
}

// The first message of a burst waits, too, if it follows a long one.
func TestHoldBurst(t *testing.T) {
	var h hold
	now := int64(1_000_000)
	burst := func(n int) (first bool) {
		now += 1_000_000
		first = h.waits(now)
		for range n - 1 {
			now += 100
			h.waits(now)
		}
		return first
	}
	require.False(t, burst(leaseTurns))
	require.False(t, burst(leaseTurns+1), "after a short one")
	require.True(t, burst(1))
	require.False(t, burst(1))
}
