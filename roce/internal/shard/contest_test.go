package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is what waits take on it, by look and by sleep.
type machine struct{ look, sleep time.Duration }

var (
	freeCPUs = machine{look: 8 * time.Microsecond, sleep: 50 * time.Microsecond}
	busyCPUs = machine{look: 170 * time.Microsecond, sleep: 8 * time.Microsecond}
)

// converse has one wait after the other, until the time is over, or the way is as wanted. It returns how long that took.
func (m machine) converse(c *contest, now *int64, most time.Duration, until func() bool) time.Duration {
	begin := *now
	for *now-begin < int64(most) && !until() {
		took := m.sleep
		if c.looks() {
			if limit := c.most(maxSpinNs); int64(m.look) <= limit {
				took = m.look
			} else {
				took = time.Duration(limit) + m.sleep
			}
		}
		*now += int64(took)
		c.waited(*now, int64(took))
	}
	return time.Duration(*now - begin)
}

func TestContestFindsTheShorterWay(t *testing.T) {
	var c contest
	var now int64
	never := func() bool { return false }
	freeCPUs.converse(&c, &now, time.Second, never)
	require.False(t, c.sleeps, "a look is shorter than the wake-up of an idle CPU")
	took := busyCPUs.converse(&c, &now, time.Second, func() bool { return c.sleeps })
	require.Less(t, took, 20*time.Millisecond, "it notices soon that the CPU is wanted")
	busyCPUs.converse(&c, &now, 10*time.Second, never)
	require.True(t, c.sleeps)
	require.EqualValues(t, maxTrialPauseNs, c.pause, "trials that fail are rare")
	took = freeCPUs.converse(&c, &now, 10*time.Second, func() bool { return !c.sleeps })
	require.Less(t, took, 2*maxTrialPauseNs*time.Nanosecond)
}

// A look that is tried takes no longer than the sleep would.
func TestContestBoundsTrials(t *testing.T) {
	c := contest{sleeps: true, usual: 8_000, trial: trialWaits}
	require.True(t, c.looks())
	require.EqualValues(t, 7_000, c.most(maxSpinNs))
	c = contest{usual: 8_000, trial: trialWaits}
	require.False(t, c.looks())
}

// Waits for a program that thinks for long say nothing for either way.
func TestContestOfSparseTraffic(t *testing.T) {
	var c contest
	for now := int64(0); now < int64(20*time.Second); now += int64(10 * time.Millisecond) {
		c.waited(now, int64(10*time.Millisecond))
		require.False(t, c.sleeps)
	}
}
