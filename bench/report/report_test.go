package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVerdict(t *testing.T) {
	more := Aim{Floor: 0.75, Goal: 0.95}
	less := Aim{Floor: 1.6, Goal: 1.2, Less: true}
	none := Aim{Floor: math.NaN(), Goal: 0, Less: true}
	for _, x := range []struct {
		a    Aim
		v    float64
		want string
	}{
		{more, 0.95, VerdictGoal}, {more, 0.94, VerdictFloor}, {more, 0.75, VerdictFloor}, {more, 0.74, VerdictMissed},
		{less, 1.2, VerdictGoal}, {less, 1.21, VerdictFloor}, {less, 1.6, VerdictFloor}, {less, 1.61, VerdictMissed},
		{none, 0, VerdictGoal}, {none, 1, VerdictMissed}, {more, math.NaN(), VerdictNone},
	} {
		require.Equal(t, x.want, x.a.Verdict(x.v), "%v of %v", x.v, x.a)
	}
}

func TestMedian(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
	require.True(t, math.IsNaN(median(nil)))
	var c Case
	c.Add("x", "", math.NaN())
	require.Nil(t, c.Get("x"), "what could not be computed is not a round")
}

// sample has one case of each item.
func sample() *Report {
	r := &Report{Command: "c", Rounds: 2, RoundMs: 5, Notes: []string{"a note"}}
	add := func(c Case, figures ...string) {
		for _, f := range figures {
			c.Add(f, "u", 0.5)
			c.Add(f, "u", 1.5)
		}
		r.Cases = append(r.Cases, c)
	}
	add(Case{Item: "single", Name: "write", Link: "udp", Op: "WRITE", Size: mib, MTU: 4096, Region: large},
		"x TCP", "x ceiling", "goodput", "TCP", "ceiling", "CPU x TCP")
	add(Case{Item: "latency", Name: "half", Link: "udp", Mode: "polling", Place: OwnCPU}, "p50 x TCP",
		"p50", "p99", "p99.9")
	add(Case{Item: "scale", Name: "ten QPs", Link: "udp", QPs: 10, Mode: "goodput"}, "x 1 QP", "goodput")
	add(Case{Item: "scale", Name: "memory of an idle QP, udp", Mode: "memory"}, "heap")
	add(Case{Item: "engine", Name: "Packet/SEND/64/send"}, "time", "allocs")
	add(Case{Item: "engine", Name: "Packet/SEND/64/send+icrc"}, "time", XWithoutICRC)
	add(Case{Item: "engine", Name: "Window/16"}, "time")
	add(Case{Item: "engine", Name: "Window/64"}, "time", XSmallest)
	add(Case{Item: "engine", Name: "Engines/WRITE/64/1"}, "time")
	add(Case{Item: "engine", Name: "Engines/WRITE/64/2"}, "time", XOneEngine)
	add(Case{Item: "lab", Name: "write_bw -m 4096, polling", Place: "offloads", Op: "write_bw", Mode: "polling"},
		"x rxe")
	return r
}

// What is written can be read, and written again without a difference.
func TestWrite(t *testing.T) {
	dir, again := t.TempDir(), t.TempDir()
	require.NoError(t, sample().Write(dir))
	r, err := Read(dir)
	require.NoError(t, err)
	require.NoError(t, r.Write(again))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 7)
	for _, f := range files {
		a, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(again, f.Name()))
		require.NoError(t, err)
		require.Equal(t, string(a), string(b))
	}
}

func TestMarkdown(t *testing.T) {
	md := string(sample().Markdown("It is the kernel.\n"))
	for _, want := range []string{
		"| WRITE of 1 MiB, MTU 4096, 64 MiB regions, udp: goodput x TCP | 1.00 x | 0.75 | ≥ 0.95 | goal |",
		"| half round trip, polling, udp: p50 x TCP | 1.00 x | 0.40 | ≤ 0.30 | missed |",
		"| half round trip, event-driven, udp: p50 x TCP | – x | 0.85 | ≤ 0.70 | not measured |",
		"| engine alone, SEND of 64 B, send | 1.00 allocs/packet | – | ≤ 0 | missed |",
		"1.00 [0.50–1.50]", "- a note",
		"| two guests, offloads: write_bw, MTU 4096: bandwidth x kernel rxe | 1.00 x | – | ≥ 1.50 | missed |",
		"| SEND/64/send | 1.00 | 1.00 | 0 | 1.00 [0.50–1.50] |",
		"Missed in this run:\n\n- half round trip, polling, udp: p50 x TCP\n", "It is the kernel.\n",
	} {
		require.True(t, strings.Contains(md, want), "%s\nis not in\n%s", want, md)
	}
}

// Every headline is an aim.
func TestHeadlines(t *testing.T) {
	aims := map[string]bool{}
	for _, a := range Aims() {
		aims[a.What] = true
	}
	for _, h := range headlines {
		require.True(t, aims[h], h)
	}
}

// A report is about what the run was asked for: rows of other items, links and guests are left out,
// those of an item that was asked for and gave nothing are not.
func TestOnlyWhatWasAskedFor(t *testing.T) {
	rows := func(r *Report) (n int, text string) {
		text = string(r.Markdown(""))
		return strings.Count(text, VerdictNone), text
	}
	r := &Report{Items: []string{"verbs"}}
	n, text := rows(r)
	require.Equal(t, len(VerbsPairs())+1, n)
	require.NotContains(t, text, "half round trip")
	require.NotContains(t, text, "## Headlines")

	r.Items = []string{"latency"}
	_, text = rows(r)
	require.NotContains(t, text, "## Aims", "no link was measured: a note says why")
	c := Case{Item: "latency", Name: "half", Link: "udp", Mode: "polling", Place: OwnCPU}
	c.Add("p50 x TCP", "", 0.1)
	r.Cases = append(r.Cases, c)
	n, text = rows(r)
	require.Equal(t, 6, n, text) // one of them among the headlines, too
	require.Contains(t, text, "| half round trip, polling, udp: p99/p50 | – x |")
	require.NotContains(t, text, "half round trip, polling, packet")

	guests := Case{Item: "lab", Name: "write_bw -m 4096, polling", Place: "offloads", Op: "write_bw", Mode: "polling"}
	guests.Add("x rxe", "", 2)
	r = &Report{Items: []string{"engine"}, Cases: []Case{guests}}
	_, text = rows(r)
	require.Contains(t, text, "| two guests, no offloads: send_lat, polling: latency x kernel rxe | – x |")
	r.LabPart = true
	_, text = rows(r)
	require.NotContains(t, text, "send_lat")
	require.Contains(t, text, "| two guests, offloads: write_bw, MTU 4096: bandwidth x kernel rxe | 2.00 x |")
}
