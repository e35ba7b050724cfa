package seeds

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What Run does with its flags is seen from outside: TestRunHere is the test that
// runs, and fails at seed 9.
func TestRun(t *testing.T) {
	for _, tc := range []struct {
		flags, seeds, says string
		fails              bool
	}{
		{"", "1 2 3", "", false},
		{"-test.short", "1", "", false},
		{"-swarm 5", "1 2 3 4 5", "", false},
		{"-seed 7", "7", "", false},
		{"-seed 6 -swarm 2", "6 7", "", false},
		{"-seed 8 -swarm 5", "8 9", "again: go test -run '^TestRunHere$' -seed 9", true},
		{"-seed 8 -soak 1h", "8 9", "soak: TestRunHere 1", true},
		{"-seed 20 -soak 1ns", "20", "soak: TestRunHere 1", false},
	} {
		c := exec.Command(os.Args[0], append(strings.Fields(tc.flags), "-test.run=^TestRunHere$")...)
		c.Env = append(os.Environ(), "SEEDS_TEST=1")
		out, err := c.CombinedOutput()
		var got []string
		for line := range strings.Lines(string(out)) {
			if s, ok := strings.CutPrefix(line, "ran "); ok {
				got = append(got, strings.TrimSpace(s))
			}
		}
		if !slices.Equal(got, strings.Fields(tc.seeds)) || (err != nil) != tc.fails ||
			!strings.Contains(string(out), tc.says) {
			t.Errorf("%q: seeds %v, %v\n%s", tc.flags, got, err, out)
		}
	}
}

func TestRunHere(t *testing.T) {
	if os.Getenv("SEEDS_TEST") == "" {
		t.Skip("only TestRun runs it")
	}
	Run(t, 3, func(t *testing.T, seed uint64) {
		_, _ = os.Stdout.WriteString("ran " + strings.TrimPrefix(t.Name(), "TestRunHere/seed=") + "\n")
		if seed == 9 {
			t.Fatal("as it should")
		}
	})
}
