package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// embedded are texts that other pages are made of: their links hold from there.
var embedded = []string{"conformance/suites/runs.md"}

var (
	anyLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	marks   = regexp.MustCompile("`|[^\\p{L}\\p{N}_\\- ]")
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// headings returns the anchors of a page's headings, as GitHub names them.
func headings(page string) map[string]bool {
	found, code := map[string]bool{}, false
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if h := strings.TrimLeft(line, "#"); h != line && !code {
			h = linked.ReplaceAllString(strings.TrimSpace(h), "$1")
			found[strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(h), ""), " ", "-")] = true
		}
	}
	return found
}

// broken returns the links of a page that lead nowhere; read returns other pages.
func broken(page, name string, read func(string) (string, error)) (found []string) {
	for _, m := range anyLink.FindAllStringSubmatch(page, -1) {
		file, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(m[1], ":") {
			continue // an address elsewhere
		}
		target := name
		if file != "" {
			target = filepath.Join(filepath.Dir(name), file)
		}
		text, err := read(target)
		if err != nil || anchor != "" && strings.HasSuffix(target, ".md") && !headings(text)[anchor] {
			found = append(found, m[1])
		}
	}
	return found
}

// Every link of every page leads to a file that is there, and to a heading that it has. Every page
// of docs can be reached by links from README.md.
func TestLinks(t *testing.T) {
	pages := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n := d.Name(); d.IsDir() && path != root && (n[0] == '.' || n == "bin" || n == "out") {
			return fs.SkipDir
		}
		if rel, _ := filepath.Rel(root, path); strings.HasSuffix(path, ".md") {
			pages[filepath.ToSlash(rel)] = text(t, path)
		}
		return nil
	})
	require.NoError(t, err)
	read := func(name string) (string, error) {
		if page, ok := pages[name]; ok {
			return page, nil
		}
		_, err := os.Stat(filepath.Join(root, name))
		return "", err
	}
	for _, name := range embedded {
		require.Contains(t, pages, name)
		delete(pages, name)
	}
	for name, page := range pages {
		for _, l := range broken(page, name, read) {
			t.Errorf("%s: %s leads nowhere", name, l)
		}
	}
	reached, next := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		for _, m := range anyLink.FindAllStringSubmatch(pages[name], -1) {
			file, _, _ := strings.Cut(m[1], "#")
			to := filepath.Join(filepath.Dir(name), file)
			if _, ok := pages[to]; ok && !reached[to] {
				reached[to], next = true, append(next, to)
			}
		}
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
}

func TestBroken(t *testing.T) {
	other := func(name string) (string, error) {
		if name == "docs/b.md" {
			return "# Two words, `x`\n```\n# code\n```\n## A [link](c.md)", nil
		}
		return "", fs.ErrNotExist
	}
	require.Empty(t, broken("[1](b.md) [2](b.md#two-words-x) [3](https://b) [4](b.md#a-link)", "docs/a.md", other))
	require.Equal(t, []string{"c.md", "b.md#code", "b.md#two-words"},
		broken("[1](c.md) [2](b.md#code) [3](b.md#two-words)", "docs/a.md", other))
}
