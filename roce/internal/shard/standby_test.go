package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A program is at work that polls, and one that posts.
func TestActivity(t *testing.T) {
	var a activity
	require.False(t, a.looks(0, 0))
	require.True(t, a.looks(1, 0))
	require.False(t, a.looks(1, 0))
	require.True(t, a.looks(1, 1))
	require.True(t, a.looks(2, 2))
	require.False(t, a.looks(2, 2))
}

// Polling proves itself by the time between calls that follow each other closely; each time that
// packets were missed it takes twice as long.
func TestAttention(t *testing.T) {
	const us = 1000
	var a attention
	a.kept()
	require.Zero(t, a.proof.Load(), "who has never missed anything")
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
	require.EqualValues(t, 50*us, poll(9500*us, 9600*us, 5*us))
	a.begin()
	require.EqualValues(t, -1, poll(10_000*us, 10_030*us, 10*us))
	require.EqualValues(t, 30*us, poll(12_000*us, 12_100*us, 10*us), "a pause in which it may have had no CPU")
	a.begin()
	require.EqualValues(t, -1, poll(13_000*us, 13_030*us, 10*us))
	require.EqualValues(t, 50*us, poll(13_030*us+2*int64(patience), 14_000*us+2*int64(patience), 10*us), "a long one")
	a.begin()
	a.missed()
	require.EqualValues(t, 100*us, poll(30_000*us, 31_000*us, 10*us))
	a.begin()
	a.missed()
	require.EqualValues(t, 200*us, poll(32_000*us, 33_000*us, 10*us))
	for range 100 {
		a.missed()
	}
	require.EqualValues(t, missedProofNs, a.proof.Load())
	a.starved()
	a.missed()
	require.EqualValues(t, starvedProofNs, a.proof.Load(), "who has no CPU misses packets, too")
	for range 100 {
		a.kept()
	}
	a.begin()
	require.EqualValues(t, 50*us, poll(34_000*us, 35_000*us, 5*us))
}
