package explain

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// synthetic are packets between two places whose clocks differ by offset at 0, and drift apart. The
// ways take base and what the queues are worth.
func synthetic(rng *rand.Rand, n int, over int64, offset int64, drift float64, base [2]int64,
	oneWay bool) (all []sample) {
	for range n {
		at := rng.Int64N(over)
		second := func(first int64) int64 { return first + offset + int64(math.Round(float64(first)*drift)) }
		delay := func(w int) int64 { return base[w] + int64(rng.ExpFloat64()*20_000) }
		if oneWay || rng.IntN(2) == 0 {
			all = append(all, sample{at: at, diff: second(at+delay(0)) - at})
		} else { // sent by the second, at the time at of the first
			came := at + delay(1)
			all = append(all, sample{at: came, diff: second(at) - came, back: true})
		}
	}
	return all
}

// The difference is as near to the truth as the estimate says, whatever the queues do.
func TestClock(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		offset := rng.Int64N(4e15) - 2e15 // three weeks
		drift := (rng.Float64() - .5) * 2e-4
		over := int64(math.Pow(10, 4+6*rng.Float64())) // 10 us to 10 s
		base := [2]int64{1000 + rng.Int64N(20_000), 1000 + rng.Int64N(20_000)}
		n := 4 + rng.IntN(2000)
		all := synthetic(rng, n, over, offset, drift, base, false)
		c := estimate(all)
		if c.samples[0] == 0 || c.samples[1] == 0 {
			require.True(t, math.IsInf(c.room, 1))
			continue
		}
		require.Positive(t, c.room, "seed %d", seed)
		// At all of the time that there are packets of.
		began, ended := over, int64(0)
		for _, s := range all {
			began, ended = min(began, s.at), max(ended, s.at)
		}
		for _, first := range []int64{began, (began + ended) / 2, ended} {
			second := first + offset + int64(math.Round(float64(first)*drift))
			require.InDelta(t, first, c.first(second), c.wrong+2,
				"seed %d: %d packets over %d ns, drift %g, found %g", seed, n, over, drift, c.drift)
		}
		if over > 5e9 && n > 500 && math.Abs(drift) > 2e-5 {
			require.InDelta(t, drift, c.drift, 1e-5, "seed %d", seed)
			require.Contains(t, c.text("a", "b"), "a second")
		}
	}
}

// Without a drift none is found, however few packets there are.
func TestClockWithoutDrift(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c := estimate(synthetic(rng, 100+rng.IntN(500), 1e9, 5e9, 0, [2]int64{3000, 3000}, false))
		require.InDelta(t, 0, c.drift, 1e-5, "seed %d", seed)
		require.InDelta(t, 5e9, float64(c.base)+c.offset+c.drift*5e8, c.wrong)
	}
}

// What cannot be known is said.
func TestClockWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	c := estimate(synthetic(rng, 50, 1e9, -7e9, 0, [2]int64{1000, 1000}, true))
	require.Contains(t, c.text("a.pcap", "b.pcap"), "one way only")
	require.Contains(t, c.text("a.pcap", "b.pcap"), "behind that of a.pcap")
	// A clock that is set in the middle.
	all := synthetic(rng, 200, 1e9, 0, 0, [2]int64{1000, 1000}, false)
	for i := range all {
		if all[i].at > 5e8 {
			all[i].diff += 5e7
		}
	}
	require.Contains(t, estimate(all).text("a", "b"), "does not run evenly")
}
