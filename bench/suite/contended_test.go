package suite

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/stretchr/testify/require"
)

// Every case has a name of its own, and one can be picked by it.
func TestLoads(t *testing.T) {
	s := &Suite{o: Options{Full: true, Logf: t.Logf}, r: &report.Report{}}
	all, err := s.settings()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, set := range all {
		for _, l := range s.loads(&set) {
			for _, by := range l.by {
				name := report.ContendedName(set.name, l.size, l.conns, by)
				require.False(t, names[name], name)
				names[name] = true
			}
		}
	}
	for _, want := range []string{
		"CPUs free: 128 B, 1 connection, rsocket", "a quota of 0.2 CPU each: 4 KiB, 64 connections, roce.Conn",
		"one CPU: stream, 16 connections, roce.Conn",
	} {
		require.True(t, names[want], want)
	}
	quick := &Suite{o: Options{Logf: t.Logf}, r: &report.Report{}}
	require.Less(t, len(quick.loads(&all[0])), len(s.loads(&all[0])))
	s.o.Full, s.o.Only = false, regexp.MustCompile(`^a quota of 0\.5.*4 KiB, 4 .*rsocket`)
	for _, set := range all {
		if set.quota == 0.5 {
			require.Equal(t, []loadCase{{4 << 10, 4, []string{node.ByRSocket}}}, s.loads(&set))
		} else {
			require.Empty(t, s.loads(&set), set.name)
		}
	}
	s.o.Only = regexp.MustCompile("pigeon")
	require.ErrorContains(t, s.contended(), "pigeon")
}

// Requests and streams are counted by every means, in each kind of setting; a server that computes
// serves.
func TestContended(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it starts processes for several settings")
	}
	s := newSuite(t)
	s.o.Links, s.o.Rounds, s.o.LoadTime = []string{"udp"}, 1, 10*time.Millisecond
	s.o.Only = regexp.MustCompile(`^(CPUs free: (128 B|stream), 4 |a quota of 1 .*4 KiB, 1 |a busy neighbour on each.*128 B, 1 |eight pairs|a server.*128 B, 1 )`)
	require.NoError(t, s.contended())
	quotas := 2
	for _, n := range s.r.Notes {
		if strings.Contains(n, report.Quota(1)) {
			quotas = 0
		}
	}
	places := map[string]int{}
	for _, c := range s.r.Cases {
		figures := []string{"x TCP", "CPU x TCP", "p50 x TCP", "p99.9 x TCP", "requests", "TCP", "CPU",
			"TCP CPU", "TCP p50", "datagrams", "sleeps"}
		switch {
		case c.Size == 0:
			figures = []string{"x TCP", "CPU x TCP", "goodput", "TCP", "CPU", "TCP CPU"}
		case c.Place == report.BusyServer:
			figures = []string{"x TCP", "p50 x TCP", "p99 x TCP", "requests"}
			require.Nil(t, c.Get("CPU"), "the server's is that of what it computes")
		}
		for _, f := range figures {
			require.NotNil(t, c.Get(f), "%s: %s", c.Name, f)
			require.Len(t, c.Get(f).Rounds, 1)
		}
		require.Positive(t, c.Value("x TCP"), c.Name)
		places[c.Place]++
	}
	want := map[string]int{report.FreeCPUs: 4, report.BusyEach: 2, report.Pairs: 2}
	if quotas > 0 {
		want[report.Quota(1)] = quotas
	}
	if cpus, err := node.CPUs(); err == nil && len(cpus) > 1 {
		want[report.BusyServer] = 3
	}
	require.Equal(t, want, places)
	require.Equal(t, s.free, s.nodes)
}

// A load that nobody knows is an error, and leaves the node alive.
func TestLoadRefused(t *testing.T) {
	s := newSuite(t)
	require.ErrorContains(t, node.Do(s.b, "ServeLoad", node.LoadArgs{By: "pigeon"}), "pigeon")
	require.ErrorContains(t, node.Do(s.a, "OpenLoad", node.LoadArgs{By: "pigeon", Conns: 1}), "pigeon")
	require.ErrorContains(t, node.Do(s.a, "LoadTimes", struct{}{}), "no requests")
	require.NoError(t, node.Do(s.a, "CloseLoad", struct{}{}))
}
