package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

const sample = `package sample

import "fmt"

type T struct{ n int }

func (t *T) String() string { return fmt.Sprint(t.n + 1) }

func (t *T) work(a, b int) bool {
	if a < b && !t.done() {
		t.step(a + 2)
		t.n++
	}
	for range b {
		if t.n == 3 {
			continue
		}
		t.n = a
	}
	if a == 0 {
		panic(fmt.Sprintf("%d", a+b))
	}
	return true
}

func (t *T) try() (int, error) {
	if err := t.fail(); err != nil {
		return 0, err
	}
	return 0, nil
}

func (t *T) done() bool { return false }
func (t *T) step(n int) { t.n += n }
`

// write makes a file of the sample.
func write(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "sample.go")
	require.NoError(t, os.WriteFile(name, []byte(sample), 0o600))
	return name
}

func TestBugs(t *testing.T) {
	name := write(t)
	all, err := bugsOf(name, "sample.go")
	require.NoError(t, err)
	var got []string
	for i := range all {
		got = append(got, all[i].String())
		_, err := parser.ParseFile(token.NewFileSet(), "", all[i].apply([]byte(sample)), 0)
		require.NoError(t, err, all[i].String())
	}
	require.Equal(t, []string{
		"sample.go:10: condition: a < b && !t.done() -> !(a < b && !t.done())",
		"sample.go:10: condition: a < b && !t.done() -> false && (a < b && !t.done())",
		"sample.go:10: operator: a < b && !t.done() -> a < b || !t.done()",
		"sample.go:10: operator: a < b -> a <= b",
		"sample.go:10: condition: !t.done() -> t.done()",
		"sample.go:11: call: t.step(a + 2) -> nothing",
		"sample.go:11: operator: a + 2 -> a - 2",
		"sample.go:11: constant: 2 -> 3",
		"sample.go:12: assignment: t.n++ -> t.n--",
		"sample.go:15: condition: t.n == 3 -> !(t.n == 3)",
		"sample.go:15: condition: t.n == 3 -> false && (t.n == 3)",
		"sample.go:15: operator: t.n == 3 -> t.n != 3",
		"sample.go:15: constant: 3 -> 4",
		"sample.go:16: branch: continue -> break",
		"sample.go:18: assignment: t.n = a -> nothing",
		"sample.go:20: condition: a == 0 -> !(a == 0)",
		"sample.go:20: condition: a == 0 -> false && (a == 0)",
		"sample.go:20: operator: a == 0 -> a != 0",
		"sample.go:20: constant: 0 -> 1",
		"sample.go:23: constant: true -> false",
		"sample.go:27: condition: err != nil -> !(err != nil)",
		"sample.go:27: condition: err != nil -> false && (err != nil)",
		"sample.go:27: operator: err != nil -> err == nil",
		"sample.go:30: constant: 0 -> 1",
		"sample.go:33: constant: false -> true",
		"sample.go:34: assignment: t.n += n -> nothing",
	}, got)
	require.Len(t, matching(all, "sample.go:15"), 4)
}

// The same seed draws the same; another one, and another package, something else.
func TestDraw(t *testing.T) {
	order := func(seed uint64, path string) []string {
		all, err := bugsOf(write(t), "sample.go")
		require.NoError(t, err)
		draw(all, seed, path)
		var s []string
		for i := range all {
			s = append(s, all[i].String())
		}
		return s
	}
	one := order(1, "x")
	require.Equal(t, one, order(1, "x"))
	require.NotEqual(t, one, order(2, "x"))
	require.NotEqual(t, one, order(1, "y"))
	require.ElementsMatch(t, one, order(2, "x"))
	kinds := map[string]bool{}
	all, err := bugsOf(write(t), "sample.go")
	require.NoError(t, err)
	draw(all, 1, "x")
	for _, b := range all[:6] {
		kinds[b.kind] = true
	}
	require.Len(t, kinds, 6, "each kind once")
}

// A bug in a module of its own is planted, found by its tests, and gone again. Under the race detector only that: for one
// that is not found, no code or endless the go command compiles and links again.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the go command compiles and links")
	}
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module sample\n\ngo 1.24\n",
		"x.go":   "package sample\n\nfunc less(a, b int) bool { return a < b }\n\nfunc spare() int { return 1 }\n\nfunc add(a, b int) int { return a + b }\n",
		"x_test.go": "package sample\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif less(1, 1) || !less(1, 2) {\n\t\tt.Fail()\n\t}\n" +
			"\tfor i := 0; add(i, 1) < 9; i = add(i, 1) {\n\t}\n}\n",
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	pkgs, err := load(t.Context(), []string{"."})
	require.NoError(t, err)
	require.Len(t, pkgs, 1)
	bugs, err := pkgs[0].bugs()
	require.NoError(t, err)
	b := bench{mutantOptions: &mutantOptions{memory: 8192}, limit: time.Minute, pkg: pkgs[0], dir: t.TempDir()}
	r, out := b.test(t.Context(), nil)
	require.Equal(t, survived, r, string(out))
	want := map[string]result{
		"sample/x.go:3: operator: a < b -> a <= b": found,
		"sample/x.go:5: constant: 1 -> 2":          survived,
	}
	if seeds.Race {
		delete(want, "sample/x.go:5: constant: 1 -> 2")
	}
	seen := 0
	for i := range bugs {
		if r, ok := want[bugs[i].String()]; ok {
			got, out := b.test(t.Context(), &bugs[i])
			require.Equal(t, r, got, "%v: %s", &bugs[i], out)
			seen++
		}
	}
	require.Equal(t, len(want), seen)
	if !seeds.Race {
		bad := bugs[0]
		bad.with = "no code"
		r, _ = b.test(t.Context(), &bad)
		require.Equal(t, broken, r)
		endless := slices.IndexFunc(bugs, func(b bug) bool { return b.String() == "sample/x.go:7: operator: a + b -> a - b" })
		b.limit = 1 // tests that do end may be faster all the same
		r, _ = b.test(t.Context(), &bugs[endless])
		require.Equal(t, late, r)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "x.go"))
	require.NoError(t, err)
	require.Equal(t, files["x.go"], string(kept))
}
