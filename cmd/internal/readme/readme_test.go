package readme

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/cli"
	"github.com/goroce/goroce/cmd/internal/rdmacm"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

const readmePath = "../../../README.md"

func TestCodeIsTheExample(t *testing.T) {
	_, rest, ok := strings.Cut(read(t, "example_test.go"), "// README: begin\n")
	require.True(t, ok)
	code, _, ok := strings.Cut(rest, "\n// README: end\n")
	require.True(t, ok)
	require.True(t, strings.Contains(read(t, readmePath), "```go\n"+code+"```\n"),
		"the code in README.md differs from that between the markers in example_test.go")
	require.LessOrEqual(t, strings.Count(code, "\n"), 20, "lines of the example")
	for _, call := range []string{"roce.Listen(", "roce.Dial(", ".Write(", ".Read("} {
		require.Contains(t, code, call)
	}
}

// A newcomer needs two commands, in the first screen.
func TestFirstScreen(t *testing.T) {
	lines := strings.Split(read(t, readmePath), "\n")
	first := strings.Join(lines[:30], "\n")
	require.Contains(t, first, "make demo")
	require.Contains(t, first, "make test")
}

func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "../../../Makefile")
	for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(read(t, readmePath), -1) {
		require.Contains(t, makefile, "\n"+m[1]+":", "make %s", m[1])
	}
}

func TestToolsExist(t *testing.T) {
	readme := read(t, readmePath)
	tools := map[string]bool{"help": true}
	for _, c := range rdmacm.Commands() {
		tools[c.Name] = true // the README names them as a group
	}
	for _, c := range cli.Commands() {
		if tools[c.Name] {
			continue
		}
		tools[c.Name] = true
		require.True(t, strings.Contains(readme, "`"+c.Name+"`"), "README.md does not name the tool %s: add it to the table", c.Name)
	}
	for _, m := range regexp.MustCompile(`(?m)\broce ([a-z_]+)\b`).FindAllStringSubmatch(readme, -1) {
		require.True(t, tools[m[1]], "roce %s", m[1])
	}
}
