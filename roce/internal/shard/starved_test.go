package shard

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A thread starves that wanted to run all the time and got less than a twelfth of a CPU. It counts
// as starved for a second after that.
func TestStarved(t *testing.T) {
	const ms = 1_000_000
	var v starved
	u := usage{thread: 7, at: 1000 * ms}
	measure := func(wall, ran, slept int64) bool {
		u.at += wall
		u.ran += ran
		u.slept += slept
		v.note(u)
		return v.now(u.at)
	}
	require.False(t, measure(0, 0, 0), "nothing to compare with")
	require.False(t, measure(10*ms, 10*ms, 0), "a CPU by itself")
	require.False(t, measure(10*ms, 5*ms, 0), "half of one")
	require.False(t, measure(12*ms, 3*ms, 0), "a quarter")
	require.False(t, measure(500*ms, 2*ms, 1), "it has slept")
	require.False(t, measure(500*ms, 500*ms, 0))
	require.True(t, measure(40*ms, 3*ms, 0))
	require.True(t, measure(900*ms, 900*ms, 0), "for a while")
	require.False(t, measure(100*ms, 100*ms, 0))

	u.thread = 8
	require.False(t, measure(500*ms, 0, 0), "another thread")
	require.True(t, measure(500*ms, 3*ms, 0))
}

// What is measured is the calling thread, and not oftener than has to be.
func TestUsageOfThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := usageOfThread(&computer{}, 5)
	require.NotZero(t, a.thread)
	require.EqualValues(t, 5, a.at)
	b := a
	for b.ran-a.ran < int64(time.Millisecond) {
		b = usageOfThread(&computer{}, 6)
	}
	require.Equal(t, a.thread, b.thread)
	(&computer{}).Nap(time.Millisecond)
	require.Greater(t, usageOfThread(&computer{}, 7).slept, a.slept)

	var v starved
	require.False(t, v.looks(&computer{}, 1000))
	first := v.before
	require.EqualValues(t, 1000, first.at)
	require.False(t, v.looks(&computer{}, 1000+usageNs-1))
	require.Equal(t, first, v.before)
	v.looks(&computer{}, 1000+usageNs)
	require.EqualValues(t, 1000+usageNs, v.before.at)
}
