package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A guest that answers at once has not stood still; one that does not has, from the question on.
func TestPulse(t *testing.T) {
	const ms = time.Millisecond
	now := time.Duration(0)
	p := &Pulse{now: func() time.Duration { return now }}
	at := func(to time.Duration) { now = to }
	stood := func(from, to time.Duration) [2]time.Duration {
		longest, all := p.StoodStill(from, to)
		return [2]time.Duration{longest, all}
	}
	for i := range 10 { // until 500 ms
		at(time.Duration(i) * 50 * ms)
		n := p.ask()
		at(now + 5*ms)
		p.answered(n)
	}
	require.Zero(t, stood(0, 500*ms))
	require.Contains(t, p.Summary(), "always answered")
	// Nothing from 500 ms until 1100 ms; then all answers at once.
	var asked []uint64
	for now = 500 * ms; now < 1100*ms; now += 50 * ms {
		asked = append(asked, p.ask())
	}
	require.Equal(t, [2]time.Duration{600 * ms, 600 * ms}, stood(0, 1100*ms), "before the answer")
	for _, n := range asked {
		p.answered(n)
	}
	require.Equal(t, [2]time.Duration{600 * ms, 600 * ms}, stood(0, 2000*ms), "counted once")
	require.Len(t, p.stood, 1)
	require.Equal(t, [2]time.Duration{100 * ms, 100 * ms}, stood(900*ms, 1000*ms))
	require.Zero(t, stood(1200*ms, 2000*ms))
	// A question is lost: the next answer closes it.
	at(2000 * ms)
	p.ask()
	at(2050 * ms)
	n := p.ask()
	at(2060 * ms)
	p.answered(n)
	require.Zero(t, stood(1200*ms, 3000*ms), "60 ms are no standstill")
	// One more, and both together.
	at(3000 * ms)
	n = p.ask()
	at(3300 * ms)
	p.answered(n)
	p.answered(n) // doubled
	p.answered(n + 100)
	require.Equal(t, [2]time.Duration{600 * ms, 900 * ms}, stood(0, 4000*ms))
	require.Contains(t, p.Summary(), "600ms at most")
	// A guest that is gone is remembered within bounds.
	for range 3 * maxStandstills {
		at(now + 50*ms)
		p.ask()
	}
	require.LessOrEqual(t, len(p.asked), maxStandstills)
	longest, _ := p.StoodStill(0, now)
	require.Greater(t, longest, 10*time.Minute)
}
