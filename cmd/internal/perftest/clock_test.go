package perftest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStopwatch(t *testing.T) {
	o := mustParse(t, writeBW, "-D", "8")
	w := o.stopwatch()
	require.False(t, w.over(1<<62), "not begun")
	const s = 1_000_000_000
	w.begin(100)
	w.begin(5 * s) // only the first counts
	w.count(100, 1)
	w.count(2*s+99, 1)
	w.count(2*s+100, 10) // the margin is 2 s
	w.count(6*s+99, 20)
	w.count(6*s+100, 1)
	require.EqualValues(t, 30, w.samples)
	require.EqualValues(t, int64(4*s), w.sampled())
	require.False(t, w.over(8*s+99))
	require.True(t, w.over(8*s+100))
}

func TestStopwatchOfIterations(t *testing.T) {
	o := mustParse(t, writeBW)
	w := o.stopwatch()
	w.begin(0)
	w.count(1, 1)
	require.False(t, w.over(1<<62))
	require.Zero(t, w.samples)
}

func TestWalk(t *testing.T) {
	for _, c := range []struct {
		size  int
		first []int
		count int
	}{
		{2, []int{1000, 1064, 1128}, 64},
		{65, []int{1000, 1128, 1256}, 32},
		{2048, []int{1000, 3048, 1000}, 2},
		{2049, []int{1000, 1000}, 1},
		{1 << 20, []int{1000, 1000}, 1},
	} {
		w := walkOf(1000, c.size, 64, 4096)
		require.Equal(t, c.count, w.count, "size %d", c.size)
		for n, at := range c.first {
			require.Equal(t, at, w.at(uint64(n)), "size %d, message %d", c.size, n)
		}
		require.Equal(t, w.at(3), w.at(3+uint64(w.count)*1_000_000))
		for n := range uint64(100) {
			require.LessOrEqual(t, w.at(n)+c.size, 1000+max(4096, c.size), "inside the page")
		}
	}
}
