package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// contendedCase has the same value in every round.
func contendedCase(place string, size, conns int, by string, figures map[string]float64) Case {
	c := Case{Item: ItemContended, Name: ContendedName(place, size, conns, by), Place: place, Op: by,
		Size: size, QPs: conns}
	for name, v := range figures {
		c.Add(name, "", v)
	}
	return c
}

func TestContendedMisses(t *testing.T) {
	for _, x := range []struct {
		c    Case
		want []string
	}{
		{contendedCase(FreeCPUs, 128, 1, "rsocket", map[string]float64{
			"x TCP": 0.9, "CPU x TCP": 1.2, "p99.9 x TCP": 1.2,
		}), nil},
		{contendedCase(FreeCPUs, 128, 1, "rsocket", map[string]float64{
			"x TCP": 0.89, "CPU x TCP": 1.21, "p99.9 x TCP": 1.21,
		}), []string{"requests", "CPU", "p99.9"}},
		{contendedCase(FreeCPUs, 0, 1, "rsocket", map[string]float64{"x TCP": 0.99, "CPU x TCP": 1}),
			[]string{"goodput"}},
		{contendedCase(BusyServer, 128, 1, "READ", map[string]float64{"x TCP": 0.1, "p50 x TCP": 3, "p99 x TCP": 1.01}),
			[]string{"p99"}},
		{contendedCase(FreeCPUs, 128, 1, "rsocket", nil), nil},
	} {
		require.Equal(t, x.want, x.c.misses(), x.c.Name)
	}
}

// Each setting has its tables, and the overview a row of each size; what misses its aim is bold.
func TestContendedTables(t *testing.T) {
	r := &Report{Command: "c"}
	require.NotContains(t, string(r.Markdown("")), "not idle")
	good := map[string]float64{"x TCP": 1, "CPU x TCP": 1, "p99.9 x TCP": 1, "requests": 5000}
	r.Cases = []Case{
		contendedCase(Quota(0.5), 128, 4, "rsocket", good),
		contendedCase(Quota(0.5), 128, 1, "rsocket",
			map[string]float64{"x TCP": 0.25, "CPU x TCP": 1, "p99.9 x TCP": 7}),
		contendedCase(Quota(0.5), 4096, 1, "roce.Conn", good),
		contendedCase(Quota(0.5), 0, 1, "rsocket", map[string]float64{"x TCP": 1, "CPU x TCP": 1.5, "goodput": 9}),
		contendedCase(BusyServer, 128, 1, "READ", map[string]float64{"p50 x TCP": 2222, "p99 x TCP": 0.5}),
	}
	r.Machine.Commit, r.Machine.User = "abc", "root"
	r.SignContended()
	text := string(r.Markdown(""))
	for _, want := range []string{
		"\n3 of 5 cases miss an aim.",
		"\n| requests x TCP | rsocket, 1 | rsocket, 4 | roce.Conn, 1 | roce.Conn, 4 |\n|---|---|---|---|---|\n" +
			"| a quota of 0.5 CPU each, 128 B | **0.25** | 1.00 | – | – |\n| a quota of 0.5 CPU each, 4 KiB | – | – | 1.00 | – |\n",
		"### A quota of 0.5 CPU each\n\n2 of 4 cases miss an aim.\n\n`c` at abc,",
		"| 128 B, 1 connection, rsocket | **0.25 [0.25–0.25]** | 1.00 [1.00–1.00] | **7.00 [7.00–7.00]** |",
		"| requests, p99.9 |\n",
		"| stream, 1 connection, rsocket | 1.00 [1.00–1.00] | **1.50 [1.50–1.50]** | 9.00 |",
		"### A server that computes, GOMAXPROCS=1\n\n1 of 1 cases miss an aim.",
		"| 128 B, 1 connection, READ | **2222 [2222–2222]** | 0.50 [0.50–0.50] |",
		"as root;", "| user | root |",
	} {
		require.Contains(t, text, want)
	}
}

// A run of some cases leaves the others of the report as they were, and all are in the order of the
// report.
func TestKeep(t *testing.T) {
	at := func(conns int, v float64) Case {
		return contendedCase(FreeCPUs, 128, conns, "rsocket", map[string]float64{"x TCP": v})
	}
	quota, stream := contendedCase(Quota(1), 4096, 1, "rsocket", nil), contendedCase(FreeCPUs, 0, 1, "rsocket", nil)
	engine := Case{Item: "engine", Name: "e"}
	old := &Report{Cases: []Case{{Item: "lab", Name: "l"}, quota, at(1, 0.1), at(4, 0.4)}}
	r := &Report{Cases: []Case{engine, stream, at(16, 16), at(4, 4)}}
	r.Keep(old)
	require.Equal(t, []Case{at(1, 0.1), at(4, 4), at(16, 16), stream, quota, engine}, r.Cases)
}
