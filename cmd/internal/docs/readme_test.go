package docs_test

import (
	"os"
	"regexp"
	"strconv"
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
	_, rest, ok := strings.Cut(read(t, "first_test.go"), "// README: begin\n")
	require.True(t, ok)
	code, _, ok := strings.Cut(rest, "\n// README: end\n")
	require.True(t, ok)
	require.True(t, strings.Contains(read(t, readmePath), "```go\n"+code+"```\n"),
		"the code in README.md differs from that between the markers in first_test.go")
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
	for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(
		read(t, readmePath)+read(t, "../../../CONTRIBUTING.md"), -1) {
		require.Contains(t, makefile, "\n"+m[1]+":", "make %s", m[1])
	}
}

// The README is for the first five minutes: what is longer goes into docs.
func TestShort(t *testing.T) {
	words := len(strings.Fields(read(t, readmePath)))
	require.LessOrEqual(t, words, 1000, "words of README.md")
}

// figures are the rows of the README's table, and the headline of the report that each repeats.
var figures = map[string]string{
	"WRITE of 1 MiB: goodput, of TCP's":                "WRITE of 1 MiB, MTU 4096, 64 MiB regions, udp: goodput x TCP",
	"READ of 1 MiB: goodput, of TCP's":                 "READ of 1 MiB, MTU 4096, 64 MiB regions, udp: goodput x TCP",
	"64 B there or back, event-driven: time, of TCP's": "half round trip, event-driven, udp: p50 x TCP",

	"HTTP over rsocket, 100 clients: requests, of TCP's": "rsocket, HTTP/1.1, 100 clients, udp: requests x TCP",
	"a stream over rsocket: goodput, of TCP's":           "rsocket, stream, writes of 1 MiB, udp: goodput x TCP",
}

// Nobody types a figure: each is that of the committed report.
func TestFiguresAreTheReports(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9.]+)(?: x)? \|`)
	reached := func(path string) map[string]float64 {
		m := map[string]float64{}
		for _, f := range row.FindAllStringSubmatch(read(t, path), -1) {
			v, err := strconv.ParseFloat(f[2], 64)
			require.NoError(t, err)
			if _, twice := m[f[1]]; !twice {
				m[f[1]] = v
			}
		}
		return m
	}
	ours, report := reached(readmePath), reached("../../../docs/bench/README.md")
	require.Len(t, ours, len(figures), "rows with a figure in README.md")
	for name, headline := range figures {
		require.Contains(t, ours, name)
		require.Contains(t, report, headline)
		require.InDelta(t, report[headline], ours[name], 0.00501, name)
	}
}

const toolsPath = "../../../docs/tools.md"

func TestToolsExist(t *testing.T) {
	page := read(t, toolsPath)
	tools := map[string]bool{"help": true}
	for _, c := range rdmacm.Commands() {
		tools[c.Name] = true // the page names them as a group
	}
	for _, c := range cli.Commands() {
		if tools[c.Name] {
			continue
		}
		tools[c.Name] = true
		require.True(t, strings.Contains(page, "`"+c.Name+"`"),
			"docs/tools.md does not name the tool %s: add it to the table", c.Name)
	}
	for _, m := range regexp.MustCompile(`(?m)\broce ([a-z_]+)\b`).FindAllStringSubmatch(page+read(t, readmePath), -1) {
		require.True(t, tools[m[1]], "roce %s", m[1])
	}
}
