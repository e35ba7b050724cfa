package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/internal/unix"
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
		all, err := bugsOf(write(t), path)
		require.NoError(t, err)
		draw(all, seed)
		var s []string
		for i := range all {
			s = append(s, strings.TrimPrefix(all[i].id(), path))
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
	draw(all, 1)
	for _, b := range all[:6] {
		kinds[b.kind] = true
	}
	require.Len(t, kinds, 6, "each kind once")
}

// An id says which function it is in, and which of those that look the same; it has no line.
func TestBugIDs(t *testing.T) {
	all, err := bugsOf(write(t), "sample.go")
	require.NoError(t, err)
	ids := map[string]bool{}
	for i := range all {
		require.False(t, ids[all[i].id()], all[i].id())
		ids[all[i].id()] = true
	}
	require.True(t, ids["sample.go (*T).work: operator: a + 2 -> a - 2"])
	require.True(t, ids["sample.go (*T).try: constant: 0 -> 1"])
	src := []byte("package p\n\nfunc f(a int) bool { return a == 1 && a == 1 }\n")
	name := filepath.Join(t.TempDir(), "p.go")
	require.NoError(t, os.WriteFile(name, src, 0o600))
	all, err = bugsOf(name, "p.go")
	require.NoError(t, err)
	var twice []string
	for i := range all {
		if all[i].kind == "constant" {
			twice = append(twice, all[i].id())
		}
	}
	require.Equal(t, []string{"p.go f: constant: 1 -> 2", "p.go f: constant: 1 -> 2 #2"}, twice)
}

// Each explained bug is one that can be planted still: code that has changed since, or a function
// with another name, needs another look.
func TestExplained(t *testing.T) {
	t.Chdir("../../..")
	explained, err := readExplained(explainedFile)
	require.NoError(t, err)
	of := map[string]map[string]bool{}
	for id := range explained {
		file, _, _ := strings.Cut(id, " ")
		if of[file] == nil {
			of[file] = map[string]bool{}
			all, err := bugsOf(file, file)
			require.NoError(t, err)
			for i := range all {
				of[file][all[i].id()] = true
			}
		}
		require.True(t, of[file][id], "%s explains what is no more: %s", explainedFile, id)
	}
}

func TestReadExplained(t *testing.T) {
	name := filepath.Join(t.TempDir(), "explained")
	for text, want := range map[string]map[string]string{
		"// words\n\na b: c\n    Since\n    so.\nd\ne\n  Too.\n": {"a b: c": "Since so.", "d": "Too.", "e": "Too."},
		"a\n":            nil,
		"  why\n":        nil,
		"a\n b\na\n c\n": nil,
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		got, err := readExplained(name)
		require.Equal(t, want == nil, err != nil, "%q: %v", text, err)
		require.Equal(t, want, got)
	}
}

// Each package of the library is among those that bugs are planted in.
func TestMutantPackages(t *testing.T) {
	t.Chdir("../../..")
	helps := map[string]bool{"roce/link/linktest": true, "roce/internal/rocetest": true, "roce/prometheus": true}
	var all []string
	for _, root := range []string{"ib", "mem", "transport", "roce"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() || helps[path] || d.Name() == "testdata" {
				return err
			}
			files, err := filepath.Glob(filepath.Join(path, "*.go"))
			if slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, "_test.go") }) {
				all = append(all, path)
			}
			return err
		}))
	}
	require.ElementsMatch(t, all, mutantPackages)
}

// A run goes on where one was cut off: with other tests it tries again what survived, and with
// other code everything.
func TestLedger(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out", "results")
	l, err := openLedger(name)
	require.NoError(t, err)
	require.NoError(t, l.add(&entry{Code: "c", Tests: "t", Bug: "one", Result: found.String()}))
	require.NoError(t, l.add(&entry{Code: "c", Tests: "t", Bug: "two", Result: survived.String()}))
	_, err = l.WriteString(`{"Code":"c","Bu`)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l, err = openLedger(name)
	require.NoError(t, err)
	defer l.Close()
	require.NotNil(t, l.find("c", "t", "one"))
	require.NotNil(t, l.find("c", "t", "two"))
	require.NotNil(t, l.find("c", "other", "one"))
	require.Nil(t, l.find("c", "other", "two"))
	require.Nil(t, l.find("other", "t", "one"))

	require.NoError(t, l.add(&entry{Package: "p", Code: "old", Bug: "one", Result: found.String()}))
	require.NoError(t, l.add(&entry{Package: "p", Code: "new", Bug: "one", Result: survived.String()}))
	require.NoError(t,
		l.add(&entry{Package: "p", Code: "new", Bug: "two", Result: survived.String(), Line: 7, Reach: 3}))
	require.NoError(t, l.add(&entry{Package: "p", Code: "new", Bug: "why", Result: survived.String()}))
	require.NoError(t, l.add(&entry{Package: "p", Code: "new", Bug: "same", Result: survived.String()}))
	require.NoError(t,
		l.add(&entry{Package: "p", Code: "new", Bug: "one", Result: late.String(), Seconds: 2, Commit: "abc"}))
	table := string(l.table(&mutantOptions{each: 3, seed: 9}, []string{"p", "q"},
		map[string]string{"why": "Since.", "same": "The same. Since."}))
	require.Contains(t, table, "| p | 4 | 1 | 1 | 1 | 1 | 2 | abc |\n| q | not yet |")
	require.Contains(t, table, "25.0 % of all are found, 33.3 % of those that are not the same.")
	require.Contains(t, table, "- `two (3 tests come by)`")
}

// What a test has started ends with it: also if the test has ended before, and if its time is up.
func TestExecuteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	b := bench{mutantOptions: &mutantOptions{memory: 8192}, dir: dir, testers: []string{"sample"}}
	for then, want := range map[string]result{"exit 1": found, "exit 0": survived, "wait": late} {
		fifo := filepath.Join(dir, "alive")
		require.NoError(t, unix.Mkfifo(fifo, 0o600))
		alive, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
		require.NoError(t, err)
		script := fmt.Sprintf("#!/bin/sh\nexec 9>%s\nsleep 1000 >&9 2>&1 &\necho >&9\n%s\n", fifo, then)
		require.NoError(t, os.WriteFile(b.binary(0), []byte(script), 0o700))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan result, 1)
		go func() {
			r, _ := b.execute(ctx, 0, 0, nil, time.Minute, "")
			ended <- r
		}()
		require.NoError(t, alive.SetReadDeadline(time.Now().Add(time.Minute)))
		if want == late {
			for n := 0; n == 0; n, _ = alive.Read(make([]byte, 1)) { // none until there is a writer
			}
			cancel()
		}
		require.Equal(t, want, <-ended, then)
		_, err = io.ReadAll(alive)
		require.NoError(t, err, "%s: it is there still", then)
		cancel()
		require.NoError(t, alive.Close())
		require.NoError(t, os.Remove(fifo))
	}
}

const switchSample = `package sample

import "time"

type word uint16

type list struct{ n, m int }

func less(a, b int) bool { return a < b }

func spare() int { return 1 }

func Used() int { return 1 }

func add(a, b int) int { return a + b }

func pick(a, b bool, n word) (r word) {
	if a && !b {
		r = n<<2 | 1
	}
	for i := 0; i < 3; i++ {
		if i == 1 {
			continue
		}
		r++
	}
	return r * 2
}

func wait(l *list) time.Duration {
	var a [4]int
	l.n = len(a)
	l.n, l.m = l.n+1, l.n&3
	return time.Duration(l.n) * 3 * time.Second
}
`

const switchTests = `package sample

import "testing"

func TestLess(t *testing.T) {
	if less(1, 1) || !less(1, 2) {
		t.Fail()
	}
	for i := 0; add(i, 1) < 9; i = add(i, 1) {
	}
}

func TestPick(t *testing.T) {
	if r := pick(true, false, 5); r != 46 {
		t.Fatal(r)
	}
	if r := pick(true, true, 5); r != 4 {
		t.Fatal(r)
	}
	if r := pick(false, false, 5); r != 4 {
		t.Fatal(r)
	}
}

func TestWait(t *testing.T) {
	var l list
	if d := wait(&l); d.Seconds() != 15 || l.m != 0 {
		t.Fatal(d)
	}
}
`

const switchOthers = `package other

import (
	"testing"

	"sample"
)

func TestUsed(t *testing.T) {
	if sample.Used() != 1 {
		t.Fail()
	}
}
`

// Bugs in a module of its own are planted, found by its tests or those of a package that uses it,
// and gone again.
func TestBench(t *testing.T) {
	if testing.Short() || seeds.Race {
		t.Skip("short, or under the race detector: the go command compiles and links")
	}
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module sample\n\ngo 1.24\n", "x.go": switchSample,
		"x_test.go": switchTests, "other/x_test.go": switchOthers}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	pkgs, export, err := load(t.Context(), []string{"."})
	require.NoError(t, err)
	require.Len(t, pkgs, 1)
	bugs, err := pkgs[0].bugs()
	require.NoError(t, err)
	c, err := newChecker(pkgs[0], export)
	require.NoError(t, err)
	var todo, endless []*bug
	for i := range bugs {
		switch {
		case bugs[i].id() == "sample/x.go add: operator: a + b -> a - b",
			bugs[i].id() == "sample/x.go pick: assignment: i++ -> i--":
			endless = append(endless, &bugs[i])
		case c.compiles(&bugs[i]):
			todo = append(todo, &bugs[i])
		}
	}
	require.Len(t, endless, 2)
	_, alone := c.choose(todo)
	require.Len(t, alone, 1, "the length of an array")
	o := &mutantOptions{memory: 8192,
		dirs: map[string]string{"sample": dir, "sample/other": filepath.Join(dir, "other")}}
	b := bench{mutantOptions: o, pkg: pkgs[0], dir: t.TempDir(), testers: []string{"sample", "sample/other"}}
	var survivors []string
	require.NoError(t, b.tryAll(t.Context(), c, todo, func(x *bug, r result, reach int, _ time.Duration) error {
		if r == survived {
			survivors = append(survivors, fmt.Sprint(x.id(), ": ", reach))
		}
		return nil
	}))
	require.Empty(t, b.faulty)
	require.Len(t, b.all, 1)
	require.Equal(t, []string{
		"sample/x.go spare: constant: 1 -> 2: 0",
		"sample/x.go pick: constant: 1 -> 2 #2: 1", // it leaves out another round of the loop
	}, survivors)
	with, err := c.render(endless, nil)
	require.NoError(t, err)
	require.NoError(t, b.build(t.Context(), 0, with))
	for i := range endless {
		// No time at all: tests that do end may be faster all the same.
		r, said := b.execute(t.Context(), 0, i+1, []*testFunc{{name: ".*"}}, 1, "")
		require.Equal(t, late, r, string(said))
	}
	kept, err := os.ReadFile(filepath.Join(dir, "x.go"))
	require.NoError(t, err)
	require.Equal(t, switchSample, string(kept))
}
