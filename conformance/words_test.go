package conformance

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// hardToRead are turns of phrase that a reader stumbles over: a clause with "who" as the subject of
// a sentence, before its verb is known; "in vain"; and "too" before what it belongs to.
var hardToRead = regexp.MustCompile(`(?:^W|(?:[.!:;] |\b(?:[Ss]ince|[Bb]ecause|[Ii]f|until|so|but) )[Ww])` +
	`ho(?:ever|m|se)? [^?:.]*(?:[:.]|$)|\b[Ii]n vain\b|(?:^|[.;] )(?:So, too|So too|Too),? `)

// stumbles returns what of a text is hard to read.
func stumbles(text string) []string {
	return hardToRead.FindAllString(strings.Join(strings.Fields(text), " "), -1)
}

// markdownProse returns the paragraphs of a page: what is neither code, a table, a heading nor a
// line of a list of links.
func markdownProse(page string) (paragraphs []string) {
	code := false
	for _, p := range strings.Split(page, "\n\n") {
		fences := strings.Count(p, "```")
		if !code && fences == 0 && !strings.HasPrefix(p, "|") && !strings.HasPrefix(p, "#") &&
			!strings.HasPrefix(p, "    ") {
			paragraphs = append(paragraphs, p)
		}
		code = code != (fences%2 == 1)
	}
	return paragraphs
}

func TestPlainWords(t *testing.T) {
	seeds.Long(t)
	for _, s := range sources(t, false) {
		for _, g := range s.file.Comments {
			for _, found := range stumbles(prose(g)) {
				t.Errorf("%s: say it in plain words: %q", s.name, found)
			}
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	for _, name := range append(pages, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md") {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, p := range markdownProse(string(page)) {
			for _, found := range stumbles(p) {
				t.Errorf("%s: say it in plain words: %q", name, found)
			}
		}
	}
}

// prose is a comment without what is indented in it: code, and tables.
func prose(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, l := range strings.Split(g.Text(), "\n") {
		if !strings.HasPrefix(l, "\t") {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

func TestStumbles(t *testing.T) {
	for text, want := range map[string]int{
		"Who sleeps is run soon.":                     1,
		"The lock is free: who waits costs a thread.": 1,
		"It sleeps, since\nwhoever posts wakes it.":   1,
		"The look was in\nvain.":                      1,
		"So too is the ring.":                         1,
		"Who receives? The keeper.":                   0,
		"A peer who asks, and one whose ring is full": 0,
		"It says who sent the packet.":                0,
		"It is too large; the window, too, is full.":  0,
	} {
		require.Len(t, stumbles(text), want, text)
	}
	require.Equal(t, []string{"a", "b"}, markdownProse("# Who reads\n\na\n\n```\nx\n\ny\n```\n\n| who waits\n\nb"))
}
