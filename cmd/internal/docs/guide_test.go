package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/cli"
	"github.com/stretchr/testify/require"
)

const guidePath = "../../../docs/guide.md"

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// parts returns what is between the markers in the files of this package.
func parts(t *testing.T) map[string]string {
	names, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	out := map[string]string{}
	marked := regexp.MustCompile(`(?s)// guide: begin ([a-z]+)\n(.*?)\n*// guide: end`)
	for _, name := range names {
		if name == "guide_test.go" {
			continue
		}
		for _, m := range marked.FindAllStringSubmatch(text(t, name), -1) {
			out[m[1]] = m[2] + "\n"
		}
	}
	return out
}

// The Go in the guide is that of the tests, all of it, each once.
func TestCodeIsThatOfTheTests(t *testing.T) {
	left := parts(t)
	require.Greater(t, len(left), 8)
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```\n").FindAllStringSubmatch(text(t, guidePath), -1) {
		name := ""
		for n, code := range left {
			if code == m[1] {
				name = n
			}
		}
		require.NotEmpty(t, name, "no test has this:\n%s", m[1])
		delete(left, name)
	}
	require.Empty(t, left, "not in the guide")
}

// What it tells to run is there.
func TestCommands(t *testing.T) {
	guide := text(t, guidePath)
	makefile := text(t, "../../../Makefile")
	for _, m := range regexp.MustCompile("(?m)(?:^    |`)make ([a-z-]+)").FindAllStringSubmatch(guide, -1) {
		require.Contains(t, makefile, "\n"+m[1]+":", "make %s", m[1])
	}
	tools := map[string]bool{}
	for _, c := range cli.Commands() {
		tools[c.Name] = true
	}
	found := 0
	for _, m := range regexp.MustCompile(`bin/roce ([a-z_]+)`).FindAllStringSubmatch(guide, -1) {
		require.True(t, tools[m[1]], "bin/roce %s", m[1])
		found++
	}
	require.NotZero(t, found)
	require.False(t, strings.Contains(guide, "TODO"))
}
