package drill

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManual holds docs/drills.md: its example runs, its ladder is one, and it names every step,
// field, feature and packet.
func TestManual(t *testing.T) {
	b, err := os.ReadFile("../../docs/drills.md")
	require.NoError(t, err)
	text := string(b)
	block := func(kind string) string {
		m := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindStringSubmatch(text)
		require.NotNil(t, m, kind)
		return m[1]
	}
	example := block("drill")
	d, err := Parse("example.drill", []byte(example))
	require.NoError(t, err)
	r := Run(t.Context(), d, NewEngine(), Options{})
	require.Equal(t, Pass, r.Verdict, "%v\n%s", r, r.Ladder)

	// The ladder is the example's, with another value in the last answer.
	i := strings.LastIndex(example, "value=10")
	d, err = Parse("example.drill", []byte(example[:i]+"value=11"+example[i+len("value=10"):]))
	require.NoError(t, err)
	r = Run(t.Context(), d, NewEngine(), Options{})
	require.Equal(t, Fail, r.Verdict)
	require.Equal(t, block("ladder"), r.Ladder)

	for _, name := range stepNames() {
		require.Regexp(t, "`"+regexp.QuoteMeta(name)+"[ `]", text, "step %s", name)
	}
	for _, f := range features {
		require.Contains(t, text, "`"+string(f)+"`")
	}
	for _, f := range fields {
		require.Regexp(t, `\b`+f.name+`\b`, text, "field %s", f.name)
	}
	for verb, sc := range schemas {
		for key := range sc.args {
			require.Regexp(t, `\b`+key+`\b`, text, "%s %s=", verb, key)
		}
		for _, op := range sc.ops {
			if statuses[op] == 0 && op != "SUCCESS" && verb != "state" && verb != "modify" {
				require.Contains(t, text, op)
			}
		}
	}
	for name := range cmMessages {
		require.Contains(t, text, name)
	}
}

// TestTableIsComplete: conformance/DRILLS.md has a row for each drill, and none that failed.
func TestTableIsComplete(t *testing.T) {
	b, err := os.ReadFile("../DRILLS.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(string(b), -1)
	titles := map[string]bool{}
	for _, r := range rows {
		titles[r[1]] = true
		require.NotNil(t, byName(r[1]), "DRILLS.md has %s, which is no drill", r[1])
		require.NotContains(t, r[2], "**", "%s failed", r[1])
	}
	for _, d := range List() {
		require.True(t, titles[d.Name], "DRILLS.md lacks %s: make it again", d.Name)
	}
}

// TestRxeRows: docs/rxe.md has the 27 rows that were known, its drills are there, and a drill that
// names a row is at that row, and so is the warning that one makes a kernel log.
func TestRxeRows(t *testing.T) {
	b, err := os.ReadFile("../../docs/rxe.md")
	require.NoError(t, err)
	names := map[string]string{} // of a row: its drills
	for _, r := range regexp.MustCompile(`(?m)^\| \[(\d+)\]\(#row-\d+\) \|.*\| ([^|]*) \|$`).FindAllStringSubmatch(
		string(b), -1) {
		names[r[1]] = r[2]
		require.Contains(t, string(b), "### Row "+r[1]+"\n")
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(r[2], -1) {
			require.NotNil(t, byName(m[1]), "row %s: %s", r[1], m[1])
		}
	}
	for n := 1; n <= 27; n++ {
		require.Contains(t, names, strconv.Itoa(n))
	}
	for _, d := range List() {
		for _, x := range append(slices.Clone(d.Deviations), d.Stops...) {
			if x.Row > 0 {
				require.Contains(t, names[strconv.Itoa(x.Row)], "`"+d.Name+"`", "row %d", x.Row)
			}
		}
		for _, x := range d.Warnings {
			require.Contains(t, string(b), x.Place, "the warning of %s", d.Name)
		}
	}
}
