package ether

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSilentIn(t *testing.T) {
	const ms = time.Millisecond
	s := New()
	defer s.Close()
	p := &Port{sw: s}
	for _, at := range []time.Duration{10, 20, 500, 510, 900} {
		p.frames.heard(at * ms)
	}
	for _, c := range []struct {
		from, to time.Duration
		want     bool
	}{
		{20, 500, true},
		{100, 400, true},
		{15, 400, false}, // it spoke at 20
		{100, 505, false},
		{510, 900, true},
		{900, 2000, true}, // and since then nothing
		{899, 2000, false},
		{10, 20, false}, // too short to say
	} {
		require.Equal(t, c.want, p.SilentIn(c.from*ms, c.to*ms), "%d to %d", c.from, c.to)
	}
}

func TestSilencesAreBounded(t *testing.T) {
	s := New()
	defer s.Close()
	p := &Port{sw: s}
	const n = 3 * maxSilences
	for i := range n {
		p.frames.heard(time.Duration(i+1) * minSilence)
	}
	require.LessOrEqual(t, len(p.frames.silences), maxSilences)
	require.True(t, p.SilentIn((n-1)*minSilence, n*minSilence), "the last")
	require.False(t, p.SilentIn(minSilence, 2*minSilence), "forgotten")
}

// Who answers nobody, though several ask, is not running, whatever else comes from there.
func TestMuteIn(t *testing.T) {
	const ms = time.Millisecond
	s := New()
	defer s.Close()
	p := &Port{sw: s}
	p.packets.heard(10 * ms)
	for _, at := range []time.Duration{100, 200, 300} {
		p.frames.heard(at * ms)
		p.packets.asked(at*ms, 7)
	}
	require.False(t, p.SilentIn(50*ms, 300*ms))
	require.False(t, p.MuteIn(50*ms, 300*ms, 2), "only one is without an answer")
	require.True(t, p.MuteIn(50*ms, 300*ms, 1))
	p.packets.asked(310*ms, 8)
	require.False(t, p.MuteIn(50*ms, 300*ms, 2), "that was later")
	require.True(t, p.MuteIn(50*ms, 310*ms, 2))
	frames, packets := p.LongestSilences(50*ms, 310*ms)
	require.Equal(t, 100*ms, frames)
	require.Equal(t, 260*ms, packets)
	p.packets.heard(320 * ms)
	require.False(t, p.MuteIn(50*ms, 330*ms, 2), "it answered")
	require.True(t, p.MuteIn(50*ms, 310*ms, 2), "before that it did not")
	frames, packets = p.LongestSilences(250*ms, 330*ms)
	require.Equal(t, 50*ms, frames)
	require.Equal(t, 70*ms, packets)

	// Nor does it matter what was asked afterwards, and how often.
	for i := range 10 * maxAsked {
		p.packets.asked(400*ms, uint32(i))
	}
	require.Len(t, p.packets.asks, maxAsked)
	require.True(t, p.MuteIn(50*ms, 310*ms, 2))
	require.True(t, p.MuteIn(330*ms, 400*ms, maxAsked))
}
