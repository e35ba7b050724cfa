package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Polling proves itself by calls without a gap; each time that packets were missed it takes twice as long.
func TestAttention(t *testing.T) {
	const us = 1000
	var a attention
	poll := func(from, to, step int64) (gaveWayAt int64) {
		for now := from; now < to; now += step {
			if a.called(now) {
				return now - from
			}
		}
		return -1
	}
	require.EqualValues(t, 50*us, poll(1000*us, 2000*us, 5*us))
	a.begin()
	require.EqualValues(t, 60*us, poll(3000*us, 4000*us, 20*us), "posting is no gap")
	a.begin()
	require.EqualValues(t, -1, poll(5000*us, 9000*us, 21*us), "who does something else in between")
	a.begin()
	a.missed()
	require.EqualValues(t, 100*us, poll(10_000*us, 11_000*us, 10*us))
	a.begin()
	a.missed()
	require.EqualValues(t, 200*us, poll(12_000*us, 13_000*us, 10*us))
	for range 100 {
		a.missed()
	}
	require.EqualValues(t, maxProofNs, a.proof.Load())
	for range 100 {
		a.kept()
	}
	a.begin()
	require.EqualValues(t, 50*us, poll(14_000*us, 15_000*us, 5*us))
}

// A message waits if it follows another one closely, and the fewer the more often that was in vain.
func TestHold(t *testing.T) {
	var h hold
	now := int64(1_000_000)
	post := func(after int64) bool { now += after; return h.waits(now) }
	require.False(t, post(0), "by itself")
	require.True(t, post(1000))
	require.True(t, post(holdGapNs))
	require.EqualValues(t, 2, h.quick)
	require.False(t, post(holdGapNs+1))
	require.Zero(t, h.quick)
	for _, want := range []int{1, 3, 7, 15} {
		h.inVain()
		for range want {
			require.False(t, post(100))
		}
		require.True(t, post(100), "after %d", want)
	}
	h.worth()
	h.inVain()
	require.False(t, post(100))
	require.True(t, post(100))
	for range 20 {
		h.inVain()
	}
	require.EqualValues(t, maxHoldSkip, h.skip)
}
