package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hop is a file in docs/design.md with the functions that are named after it.
type hop struct {
	file  string
	funcs []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

// hops returns the hops in the numbered lists of a text: a path of a Go file in backquotes,
// and the names in backquotes up to the next one on the same line.
func hops(text string) (all []hop) {
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] < '0' || line[0] > '9' {
			continue
		}
		var h *hop
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			switch word := m[1]; {
			case strings.HasSuffix(word, ".go") && strings.Contains(word, "/"):
				all = append(all, hop{file: word})
				h = &all[len(all)-1]
			case h != nil && regexp.MustCompile(`^[A-Za-z]\w*$`).MatchString(word):
				h.funcs = append(h.funcs, word)
			}
		}
	}
	return all
}

// functionsOf returns the names of the functions and methods of a file.
func functionsOf(t *testing.T, file string) map[string]bool {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}

// The files and functions that docs/design.md leads its reader through are there.
func TestDesignHops(t *testing.T) {
	text, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	all := hops(string(text))
	if len(all) < 20 {
		t.Fatalf("only %d hops were found: the search is wrong", len(all))
	}
	for _, h := range all {
		have := functionsOf(t, filepath.Join("..", filepath.FromSlash(h.file)))
		for _, f := range h.funcs {
			// GSO and the like are words, no functions.
			if !have[f] && strings.ToUpper(f) != f && f != "Conn" && f != "ID" && f != "sendmmsg" &&
				f != "recvmmsg" && f != "Poll" {
				t.Errorf("docs/design.md: %s has no function %s", h.file, f)
			}
		}
	}
}

// The search finds what is wrong.
func TestHops(t *testing.T) {
	got := hops("1. `a/b.go` `f`, `g`: x `c/d.go` `h`\n`alone`")
	if len(got) != 2 || got[0].file != "a/b.go" || len(got[0].funcs) != 2 || got[1].funcs[0] != "h" {
		t.Errorf("%+v", got)
	}
}

// mapRow is a row of the map in docs/design.md: folders, and words in backquotes anywhere in the
// row.
type mapRow struct{ folders, words []string }

// mapRows reads the map.
func mapRows(text string) (all []mapRow) {
	for line := range strings.SplitSeq(text, "\n") {
		first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !strings.HasPrefix(line, "| `") || !ok {
			continue
		}
		var r mapRow
		for _, m := range quoted.FindAllStringSubmatch(first, -1) {
			r.folders = append(r.folders, strings.TrimSuffix(m[1], "/..."))
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			r.words = append(r.words, m[1])
		}
		all = append(all, r)
	}
	return all
}

// has reports whether a row names a package, as a folder or as a word below one.
func (r *mapRow) has(pkg string) bool {
	return slices.Contains(r.words, pkg) || slices.ContainsFunc(r.folders, func(f string) bool {
		below, ok := strings.CutPrefix(pkg, f+"/")
		return pkg == f || ok && slices.Contains(r.words, below)
	})
}

// Each package has a place in the map of docs/design.md, and each folder of the map is there.
func TestDesignMap(t *testing.T) {
	text, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n## ")
	all := mapRows(head)
	for _, r := range all {
		for _, f := range r.folders {
			if i, err := os.Stat(filepath.Join("..", f)); err != nil || !i.IsDir() {
				t.Errorf("docs/design.md: there is no folder %s", f)
			}
		}
	}
	for pkg := range packages(sources(t, false)) {
		if !slices.ContainsFunc(all, func(r mapRow) bool { return r.has(pkg) }) {
			t.Errorf("docs/design.md: the map has no place for package %s", pkg)
		}
	}
}
