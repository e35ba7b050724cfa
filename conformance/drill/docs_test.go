package drill

import (
	"os"
	"regexp"
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
