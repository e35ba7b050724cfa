package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A crowd runs from when many were woken together until the goroutine of the shard comes back,
// which sends what waits.
func TestCrowd(t *testing.T) {
	var c coalescer
	woke := func(n int32) bool {
		c.woken.Add(n)
		c.runs()
		return c.crowd.Load()
	}
	require.False(t, woke(0))
	require.False(t, woke(crowdSize-1), "a few do not wait for each other")
	require.False(t, woke(1), "nor do those of another time")
	require.False(t, c.ran())

	require.True(t, woke(crowdSize))
	require.True(t, c.add(0, 10))
	require.True(t, c.ran(), "it sends")
	require.False(t, c.ran(), "once")
	require.False(t, woke(0), "nobody was woken since")

	c.sent(0)
	require.True(t, woke(crowdSize))
	require.False(t, c.ran(), "nobody has posted anything")
	require.False(t, c.crowd.Load())
}

// Who waits in a crowd leaves its answer to the goroutine of the shard; others send theirs.
func TestSendBeforeWait(t *testing.T) {
	for _, crowd := range []bool{false, true} {
		_, s := newStill(t)
		s.posts.crowd.Store(crowd)
		require.True(t, s.posts.add(0, 10))
		s.SendBeforeWait()
		require.Equal(t, crowd, s.posts.waiting())
		s.SendPosted()
		require.False(t, s.posts.waiting())
	}
}

// Answers of threads wait for each other less often if none others come, or if these come late.
func TestAnswersWaitInVain(t *testing.T) {
	var c coalescer
	wait := func(others int, took int64) (again bool) {
		require.True(t, c.add(1000, 10))
		for range others {
			c.joins()
		}
		c.sent(1000 + took)
		require.False(t, c.waiting())
		return c.due()
	}
	require.True(t, wait(1, standbyNs))
	require.True(t, wait(19, hoggedNs))
	require.False(t, wait(0, 0), "nothing came")
	require.True(t, c.due())
	require.False(t, wait(1, standbyNs+1), "late, for two")
	require.False(t, c.due(), "twice in succession")
	require.False(t, c.due())
	require.True(t, c.due())
	require.True(t, wait(1, 0))
	require.EqualValues(t, 1, c.penalty, "a few that pay make good half")
	require.True(t, wait(19, hoggedNs))
	require.Zero(t, c.penalty)
	require.False(t, wait(19, hoggedNs+1), "late")
	c.joins()
	require.False(t, c.waiting(), "it leaves at once, and nothing waits for it")
}
