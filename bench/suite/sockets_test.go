package suite

import (
	"testing"
	"time"

	"github.com/goroce/goroce/bench/report"
	"github.com/stretchr/testify/require"
)

// Every use of sockets does something by rsocket and by TCP, and the aims find it.
func TestSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it measures for seconds, with a hundred connections")
	}
	s := newSuite(t)
	s.o.Links, s.o.Rounds, s.o.SocketTime = []string{"udp"}, 1, 10*time.Millisecond
	require.NoError(t, s.sockets())
	require.Len(t, s.r.Cases, len(socketUses()))
	for _, c := range s.r.Cases {
		for _, f := range []string{"x TCP", "CPU x TCP", "TCP", "CPU", "TCP CPU", "client CPU", "TCP server CPU"} {
			require.NotNil(t, c.Get(f), "%s: %s", c.Name, f)
			require.GreaterOrEqual(t, c.Get(f).Min, 0.0)
		}
		require.Positive(t, c.Value("x TCP"))
	}
	found := 0
	for _, a := range report.Aims() {
		if v := a.Value(s.r); v == v { // not NaN
			found++
		}
	}
	require.Equal(t, 2*len(socketUses()), found)
}

// Each can be profiled by its name.
func TestSocketProfiles(t *testing.T) {
	for _, name := range socketProfiles() {
		u, _, ok := profiledSockets(name)
		require.True(t, ok, name)
		require.NotEmpty(t, u.name)
		require.Contains(t, ProfileNames(), name)
	}
	_, _, ok := profiledSockets("pigeon")
	require.False(t, ok)
}
