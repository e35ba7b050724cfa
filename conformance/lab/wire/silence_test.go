package wire

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
		p.heard(at * ms)
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
		p.heard(time.Duration(i+1) * minSilence)
	}
	require.LessOrEqual(t, len(p.silences), maxSilences)
	require.True(t, p.SilentIn((n-1)*minSilence, n*minSilence), "the last")
	require.False(t, p.SilentIn(minSilence, 2*minSilence), "forgotten")
}
