package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// conversation is one in which a packet takes so long, keeping the CPU and sharing it.
type conversation struct {
	tryout
	now              int64
	looking, sharing int64
	sure             bool
}

// goOn lets a time pass, and returns for how much of it the conversation has looked.
func (c *conversation) goOn(ns int64) (looked float64) {
	sum := int64(0)
	for end := c.now + ns; c.now < end; {
		took := c.looking
		if !c.looks() {
			took = c.sharing
		} else {
			sum += took
		}
		c.now += took
		c.came(c.now, 1, !c.sure)
	}
	return float64(sum) / float64(ns)
}

// The way that is faster is found in a few periods, and takes nearly all of the time, whichever it
// is and when it becomes the other one.
func TestTryout(t *testing.T) {
	c := conversation{looking: 10_000, sharing: 40_000}
	require.True(t, c.looks())
	c.goOn(10 * maxTryoutWait * tryoutNs)
	require.Greater(t, c.goOn(4*maxTryoutWait*tryoutNs), 0.96)
	c.looking, c.sharing = 90_000, 30_000 // a neighbour comes
	c.goOn(2 * maxTryoutWait * tryoutNs)
	require.Less(t, c.goOn(4*maxTryoutWait*tryoutNs), 0.04)
	c.looking, c.sharing = 10_000, 40_000
	c.goOn(2 * maxTryoutWait * tryoutNs)
	require.Greater(t, c.goOn(4*maxTryoutWait*tryoutNs), 0.96)

	fresh := conversation{looking: 90_000, sharing: 30_000}
	fresh.goOn(5 * tryoutNs)
	require.False(t, fresh.looks())
}

// Where sleeping gains little it looks, and where looking does, too.
func TestTryoutPrefersLooking(t *testing.T) {
	c := conversation{looking: 31_000, sharing: 30_000}
	c.goOn(4 * maxTryoutWait * tryoutNs)
	require.Greater(t, c.goOn(4*maxTryoutWait*tryoutNs), 0.96)
	c = conversation{looking: 28_000, sharing: 30_000}
	c.shared = true
	c.goOn(2 * maxTryoutWait * tryoutNs)
	require.Greater(t, c.goOn(4*maxTryoutWait*tryoutNs), 0.96)
}

// A try that is hopeless ends early: beside a neighbour it takes 50 times as long for each packet.
func TestTryoutEndsEarly(t *testing.T) {
	c := conversation{looking: 500_000, sharing: 16_000}
	c.goOn(10 * tryoutNs)
	require.False(t, c.looks())
	c.goOn(2 * maxTryoutWait * tryoutNs)
	require.Less(t, c.goOn(8*maxTryoutWait*tryoutNs), 0.006)
	c.looking = 8_000 // the neighbour has gone
	c.goOn(2 * maxTryoutWait * tryoutNs)
	require.True(t, c.looks())
}

// A conversation with pauses, or of few packets, decides nothing.
func TestTryoutOfFew(t *testing.T) {
	c := conversation{looking: tryoutNs / 5, sharing: 1}
	require.InDelta(t, 1, c.goOn(100*tryoutNs), 0.01)
	c = conversation{looking: 2 * tryoutNs, sharing: 1}
	require.InDelta(t, 1, c.goOn(100*tryoutNs), 0.01)
	require.Zero(t, c.spent)
}

// Keeping may be so slow that only a few packets come in a period.
func TestTryoutOfSlowLooks(t *testing.T) {
	c := conversation{looking: tryoutNs / 20, sharing: 50_000}
	c.goOn(10 * tryoutNs)
	require.False(t, c.looks())
}

// Where looking is not in doubt nothing is tried; where it no longer is, looking goes on at once.
func TestTryoutWithoutDoubt(t *testing.T) {
	c := conversation{looking: 90_000, sharing: 30_000, sure: true}
	require.InDelta(t, 1, c.goOn(100*tryoutNs), 0.01)
	c.sure = false
	c.goOn(100 * tryoutNs)
	require.Less(t, c.goOn(100*tryoutNs), 0.1)
	c.goOn(2 * maxTryoutWait * tryoutNs)
	c.sure = true // while it looks; that it is faster to share counts all the same
	require.Less(t, c.goOn(100*tryoutNs), 0.1)
	c.looking = 10_000
	c.goOn(2 * maxTryoutWait * tryoutNs) // until looking is tried
	require.InDelta(t, 1, c.goOn(100*tryoutNs), 0.01)
}
