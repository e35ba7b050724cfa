package transport

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Others are firm if the queue stays long although this window has become smaller, and not because
// this one has nearly all of it.
func TestWindowCutRivals(t *testing.T) {
	e := &rttEstimate{least: 1000, mostLow: 5000, low: 5000, lowNext: 5000} // longer than 3000 is long
	for _, c := range []struct {
		from, to int
		trips    []int64 // since
		firm     bool
	}{
		{40, 20, []int64{5000, 4500, 5000}, true},
		{40, 20, []int64{5000, 3200, 5000}, true},
		{40, 20, []int64{5000, 2900, 5000}, false}, // they gave way, too
		{100, 75, []int64{4100, 5000}, true},
		{100, 75, []int64{4000, 5000}, false}, // alone: a quarter less
		{100, 75, nil, false},                 // nothing is known
	} {
		cut := (*windowCut)(nil).anew(e, false, c.from, c.to)
		for _, ns := range c.trips {
			cut.trip(ns, false)
		}
		require.Equal(t, c.firm, cut.stay(e), "%+v", c)
		again := cut.anew(e, c.firm, 10, 5)
		require.Same(t, cut, again)
		require.Equal(t, c.firm, again.rivals())
		require.False(t, again.stay(e), "it begins anew")
	}
	var none *windowCut
	none.trip(1, true)
	require.False(t, none.stay(e) || none.rivals())
	require.True(t, none.mayHold(1000))
	require.Nil(t, none.anew(&rttEstimate{}, true, 10, 5), "no round trip is known")
}

// The larger of two windows gives up more, and no window more than half.
func TestConcession(t *testing.T) {
	last := 0
	for n := 1; n < 10_000; n++ {
		c := concession(n)
		require.LessOrEqual(t, c, n/2)
		require.GreaterOrEqual(t, c, n/4)
		require.GreaterOrEqual(t, c, last)
		last = c
	}
	for n, want := range map[int]int{8: 4, 9: 4, 16: 6, 36: 9, 200: 50} {
		require.Equal(t, want, concession(n))
	}
}

// Firm rivals take half of a window no more than once, and it grows by single packets beside them.
func TestWindowBesideFirmRivals(t *testing.T) {
	e := &rttEstimate{least: 1000, mostLow: 5000, low: 5000, lowNext: 5000}
	w := window{size: 100, max: 256, near: 256, used: 256, long: 2}
	w.onLoss(e)
	require.Equal(t, 50, w.size, "nothing is known of others")
	w.cut.trip(4900, false)
	w.onLoss(e)
	require.Equal(t, 38, w.size)
	for n := range 4 {
		w.onRun(w.size)
		require.Equal(t, 39+n, w.size)
	}
	w.cut.trip(1100, true)
	w.onLoss(e)
	require.Equal(t, 21, w.size, "they have given way since")
}

// After a loss a window grows by quarters up to what the path holds without a queue, and beyond
// that after three round trips in a row without one.
func TestWindowGrowsAfterCut(t *testing.T) {
	e := &rttEstimate{least: 1000, mostLow: 2000, low: 1600, lowNext: 1600}
	w := window{size: 160, max: 1000, near: 1000, used: 1000}
	w.onLoss(e)
	var sizes []int
	for _, idle := range []bool{true, true, true, false, true, true, true, true} {
		w.idle = idle
		w.cut.trip(1000, idle)
		w.onRun(w.size)
		sizes = append(sizes, w.size)
	}
	require.Equal(t, []int{100, 101, 126, 127, 158, 197, 246, 307}, sizes)
}
