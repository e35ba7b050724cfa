package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is what waits take on it, with and without a look.
type machine struct{ look, sleep time.Duration }

// converse has one wait after the other for a while. It returns which part of the time there was no look.
func (m machine) converse(v *rest, now *int64, most time.Duration) float64 {
	begin, rested := *now, int64(0)
	for *now-begin < int64(most) {
		took := m.look
		over := v.over(*now)
		if !over {
			took = m.sleep
			rested += int64(took)
		}
		*now += int64(took)
		v.waited(*now, int64(took))
	}
	return float64(rested) / float64(*now-begin)
}

var (
	freeCPUs  = machine{look: 8 * time.Microsecond, sleep: 50 * time.Microsecond}
	busyCPUs  = machine{look: 190 * time.Microsecond, sleep: 8 * time.Microsecond}
	slowPeer  = machine{look: 500 * time.Microsecond, sleep: 540 * time.Microsecond}
	rareThing = machine{look: 10 * time.Millisecond, sleep: 10 * time.Millisecond}
)

func TestRest(t *testing.T) {
	var v rest
	var now int64
	require.Zero(t, freeCPUs.converse(&v, &now, 10*time.Second), "looks are worth it")
	require.Greater(t, busyCPUs.converse(&v, &now, 10*time.Second), 0.8, "others need the CPU")
	require.EqualValues(t, maxRestNs, v.length)
	freeCPUs.converse(&v, &now, time.Second)
	require.Zero(t, freeCPUs.converse(&v, &now, time.Minute), "not any more")
	require.Greater(t, busyCPUs.converse(&v, &now, time.Second/2), 0.5)
	require.Less(t, v.length, int64(maxRestNs), "the rests of long ago do not count")
}

// Waits that are as long without looks say nothing against these.
func TestRestDoesNotHelp(t *testing.T) {
	for _, m := range []machine{slowPeer, rareThing} {
		var v rest
		now := int64(1)
		require.Less(t, m.converse(&v, &now, time.Minute), 0.05)
	}
}
