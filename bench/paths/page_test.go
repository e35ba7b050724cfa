package paths

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// line is the line of a table in a section that begins with a path.
func line(t *testing.T, page, section, path string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "## "+section+"\n")
	require.True(t, ok, section)
	rest, _, _ = strings.Cut(rest, "\n## ")
	for l := range strings.Lines(rest) {
		if strings.HasPrefix(l, "| "+path+" |") {
			return l
		}
	}
	t.Fatalf("no line for %s in %s", path, section)
	return ""
}

// What misses an aim is bold, medians are of rounds that count, and cells of another run stay if
// this one has none of them.
func TestPage(t *testing.T) {
	row := Rows()[0].Name
	lossy, full := Rows()[1].Name, Rows()[2].Name
	shared := pick(func(r *Row) bool { return r.Beside != "" })[0].Name
	r := Report{Runs: []Ran{{Command: "first"}}, Results: []Result{
		{Row: row, Contender: "TCP cubic", Mbps: 180, Data: 1000},
		{Row: row, Contender: "TCP bbr", Mbps: 100, Data: 1000},
		{Row: row, Contender: "WRITE", Mbps: 172, Data: 1000, Dropped: 6, Repeats: 20, Needless: 10},
		{Row: row, Contender: "WRITE", Mbps: 50, Behind: "late"},
		{Row: row, Contender: "READ", Mbps: 170, Data: 1000, Dropped: 5},
		{Row: row, Contender: "rsocket", Error: "no"},
		{Row: lossy, Contender: "TCP cubic", Mbps: 100},
		{Row: lossy, Contender: "quic-go", Mbps: 150},
		{Row: lossy, Contender: "WRITE", Mbps: 120},
		{Row: lossy, Contender: "READ", Mbps: 1, Behind: "late"},
		{Row: full, Contender: "TCP cubic", Mbps: 192},
		{Row: full, Contender: "WRITE", Mbps: 180},
		{Row: full, Contender: "READ", Mbps: 179},
		{Row: full, Contender: "WRITE, going back", Mbps: 150},
		{Row: shared, Contender: "WRITE", Mbps: 30, Beside: 150},
		{Row: shared, Contender: "READ", Mbps: 70, Beside: 110},
		{Row: shared, Contender: "TCP bbr", Mbps: 150, Beside: 30},
	}}
	page := string(r.page())
	const goodput = "Goodput"
	l := line(t, page, goodput, row)
	require.Contains(t, l, "| 172 |")
	require.Contains(t, l, "| **170** |")
	require.Contains(t, l, "| fails |")
	l = line(t, page, goodput, lossy)
	require.Contains(t, l, "| **120** |")
	require.Contains(t, l, "| behind |")
	l = line(t, page, goodput, full)
	require.Contains(t, l, "| 180 |", "0.97 of what RoCE's packets leave")
	require.Contains(t, l, "| **179** |")
	require.Contains(t, l, "| **150** |")
	require.Contains(t, page,
		"With the defaults 3 of 5 cells miss the aim; with another control, or going back, 1 of 1.")
	l = line(t, page, "Dropped, sent again, and sent again for nothing", row)
	require.Contains(t, l, "| **0.60** / 2.00 / 1.00 |")
	require.Contains(t, l, "| 0.50 / 0.00 / 0.00 |")
	l = line(t, page, "Beside a TCP flow", shared)
	require.Contains(t, l, "| **30 / 150** |")
	require.Contains(t, l, "| 70 / 110 |")
	require.Contains(t, l, "| 150 / 30 |")
	require.NotContains(t, page, "dcqcn-mellanox |", "nothing of it was measured")

	dir := t.TempDir()
	require.NoError(t, r.Write(dir, true))
	next := Report{Runs: []Ran{{Command: "second"}},
		Results: []Result{{Row: row, Contender: "WRITE", Mbps: 175, Data: 1}}}
	require.NoError(t, next.Write(dir, true))
	require.NoError(t, Redraw(dir))
	b, err := os.ReadFile(dir + "/README.md")
	require.NoError(t, err)
	page = string(b)
	require.Contains(t, line(t, page, goodput, row), "| 175 |")
	require.Contains(t, line(t, page, goodput, row), "| **170** |")
	require.Less(t, strings.Index(page, "    second\n"), strings.Index(page, "    first\n"))
}

// Each contender and each path has a name of its own, which -only is matched against.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range append([]Row{calibration()}, Rows()...) {
		require.False(t, seen[row.Name], row.Name)
		seen[row.Name] = true
		own := map[string]bool{}
		for _, c := range row.contenders() {
			require.False(t, own[c.Name], c.Name)
			own[c.Name] = true
		}
		require.NotEmpty(t, own)
	}
}

// The data of the flow beside goes the way that the data of the contender goes, and is counted
// where it arrives.
func TestBesideGoesTheSameWay(t *testing.T) {
	row := pick(func(r *Row) bool { return r.Beside != "" })[0]
	all := row.contenders()
	for i := range all {
		c := &all[i]
		from := 0
		if c.Kind == flowRead {
			from = 1
		}
		require.Equal(t, from, c.sender(), c.Name)
		m := round{runner: &runner{}, row: &row, c: c}
		v, w := view{}, view{}
		for e := range w.ends {
			w.ends[e].Ns = 8e3
		}
		w.ends[1-from].Bytes[1] = 7
		w.link.Lanes[from][RoCE].Data, w.link.Lanes[from][TCP].Data = 5, 5
		var res Result
		m.fill(&res, &v, &w)
		require.EqualValues(t, 7, res.Beside, c.Name)
		require.Equal(t, 5, res.Data, c.Name)
	}
}
