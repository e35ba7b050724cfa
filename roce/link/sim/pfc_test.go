package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// paused is a fabric of cables with a byte a nanosecond and a delay of 1 us, whose switches pause.
func paused(headroom int) *Fabric {
	cable := Pipe{BitsPerSecond: 8e9, Latency: time.Microsecond}
	return New(Config{Up: cable, Down: cable, PFC: PFC{XOFFBytes: 20_000, XONBytes: 15_000, HeadroomBytes: headroom}})
}

// enough is the headroom of such a cable: its delay twice, a packet at each end, and the pause
// frame.
const enough = 2*1000 + 2*1100 + 100

// Ten hosts send to one, which drops nothing, and gets all in order; with no headroom what is on
// its way to the switch is lost.
func TestPFC(t *testing.T) {
	for _, headroom := range []int{enough, 0} {
		f := paused(headroom)
		to := newHost(t, f, 100)
		var from []*host
		for i := range byte(10) {
			from = append(from, newHost(t, f, i))
			from[i].send(100, 100, 1000, 0)
		}
		run(f)
		st := f.Stats()
		require.NotZero(t, st.Pauses)
		if headroom == 0 {
			require.NotZero(t, st.Overflowed)
			continue
		}
		require.Zero(t, st.Overflowed)
		require.Len(t, to.got, 1000)
		for _, h := range from {
			next := 0
			for i, p := range to.got {
				if p.Src == h.addrs[0] {
					require.Equal(t, next, to.psns()[i])
					next++
				}
			}
			up, down := h.Queued()
			require.Zero(t, up+down)
		}
		_, down := to.QueueStats()
		require.LessOrEqual(t, down.PeakBytes, 10*(20_000+enough))
		require.EqualValues(t, 1000, down.Packets)
	}
}

// What a host sends to a third one waits behind what it sends to one that is congested, unless it
// has another priority.
func TestPFCBlocksTheHeadOfTheLine(t *testing.T) {
	took := func(pfc bool, tclass uint8) int64 {
		f := paused(enough)
		if !pfc {
			f.cfg.PFC = PFC{}
		}
		a, b, free := newHost(t, f, 1), newHost(t, f, 2), newHost(t, f, 4)
		newHost(t, f, 3)
		for range 2 {
			for _, h := range []*host{a, b} {
				h.send(3, 100, 1000, 0)
			}
		}
		a.send(4, 1, 1000, tclass)
		run(f)
		require.Len(t, free.got, 1)
		return free.times[0]
	}
	alone, behind, beside := took(false, 0), took(true, 0), took(true, 5<<5)
	require.Greater(t, behind, alone+alone/2, "behind 200 packets at half of the rate")
	require.Less(t, beside, alone/10, "a priority of its own")
}

// A cable between switches is paused, too, and those before it.
func TestPFCOverTrunks(t *testing.T) {
	f := paused(enough)
	cable := Pipe{BitsPerSecond: 8e9, Latency: time.Microsecond}
	slow := newHost(t, f, 3)
	var from [2]*host
	trunk := f.NewTrunk(cable)
	for i := range from {
		from[i] = newHost(t, f, byte(1+i))
		f.Route(addr(byte(1+i)), addr(3), trunk)
		from[i].send(3, 300, 1000, 0)
	}
	run(f)
	require.Zero(t, f.Stats().Overflowed)
	require.Len(t, slow.got, 600)
	s := trunk.QueueStats()
	require.EqualValues(t, 600, s.Packets)
	require.LessOrEqual(t, s.PeakBytes, 2*(20_000+enough), "those before the trunk were paused")
	require.LessOrEqual(t, s.Percentile(1), 2*(20_000+enough)+queueBinBytes)
}
