package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"
)

// pkg is what is needed of the answer of go list.
type pkg struct {
	Dir        string
	Name       string
	ImportPath string
	GoFiles    []string
	Module     struct{ Path string }
	Export     string
	DepOnly    bool
}

// load returns the packages that the names stand for, and the compiled form of all that they
// import.
func load(ctx context.Context, names []string) ([]*pkg, map[string]string, error) {
	args := []string{"list", "-export", "-deps", "-json=Dir,Name,ImportPath,GoFiles,Module,Export,DepOnly"}
	args = append(args, "os", "strconv", "syscall") // for the helpers
	cmd := exec.CommandContext(ctx, "go", append(args, names...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []*pkg
	export := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		p := new(pkg)
		if err := d.Decode(p); err != nil {
			return nil, nil, err
		}
		export[p.ImportPath] = p.Export
		if !p.DepOnly && p.Module.Path != "" {
			pkgs = append(pkgs, p)
		}
	}
	return pkgs, export, nil
}

// result is what became of a bug.
type result int

const (
	survived result = iota
	found           // a test failed
	late            // or did not end
	broken          // it does not compile
)

func (r result) String() string { return [...]string{"SURVIVED", "found", "late", "broken"}[r] }

// bench runs the tests that ought to find the bugs of one package: its own, and those of packages
// that it serves.
type bench struct {
	*mutantOptions
	pkg *pkg
	dir string // for what is made
	// short has the tests run with -short.
	short bool
	// testers are the packages whose tests are run.
	testers []string
	// all are the tests of the one that is at work.
	all []*testFunc
	// faulty are tests that fail without a bug.
	faulty []string
}

// testFunc is a test, and what it comes by.
type testFunc struct {
	name    string
	takes   time.Duration
	reached []byte
}

// build compiles the tests of a package with these files in the place of others.
func (b *bench) build(ctx context.Context, tester int, files map[string][]byte) error {
	overlay := map[string]string{}
	for name, src := range files {
		planted := filepath.Join(b.dir, strconv.Itoa(len(overlay))+".go")
		if err := os.WriteFile(planted, src, 0o600); err != nil {
			return err
		}
		overlay[name] = planted
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	name := filepath.Join(b.dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", name, "-o",
		b.binary(tester), b.testers[tester])
	cmd.Dir = b.pkg.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (b *bench) binary(tester int) string { return filepath.Join(b.dir, "tests"+strconv.Itoa(tester)) }

// probe runs each test of a package by itself, without a bug, for what it comes by and how long it
// takes.
func (b *bench) probe(ctx context.Context, tester int) error {
	b.all = nil
	if _, err := os.Stat(b.binary(tester)); errors.Is(err, fs.ErrNotExist) {
		return nil // it has no tests: those of others are all that there are
	}
	out, err := exec.CommandContext(ctx, b.binary(tester), "-test.list", "^(Test|Example|Fuzz)").Output()
	if err != nil {
		return err
	}
	reached := filepath.Join(b.dir, "reached")
	for _, name := range strings.Fields(string(out)) {
		if err := os.WriteFile(reached, make([]byte, pageSize), 0o600); err != nil {
			return err
		}
		t := &testFunc{name: name}
		start := time.Now()
		r, said := b.execute(ctx, tester, 0, []*testFunc{t}, b.longest(), reached)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r != survived {
			b.faulty = append(b.faulty, name)
			fmt.Printf("%s of %s fails without a bug: %s\n", name, b.testers[tester], lastLines(string(said)))
			continue
		}
		t.takes = time.Since(start)
		if t.reached, err = os.ReadFile(reached); err != nil {
			return err
		}
		b.all = append(b.all, t)
	}
	slices.SortStableFunc(b.all, func(x, y *testFunc) int { return cmp.Compare(x.takes, y.takes) })
	return nil
}

// longest is how long tests may take at most, whatever they take without a bug.
func (b *bench) longest() time.Duration { return cmp.Or(b.timeout, 5*time.Minute) }

// reach returns the tests that come by the switch of a bug, the quick ones first.
func (b *bench) reach(number int) []*testFunc {
	return slices.DeleteFunc(slices.Clone(b.all), func(t *testFunc) bool { return t.reached[number] == 0 })
}

// try runs tests of a package with a bug on.
func (b *bench) try(ctx context.Context, tester int, rest []*testFunc, on int) result {
	for len(rest) != 0 {
		// Some at a time, as many again as there were.
		n, takes := 0, time.Duration(0)
		for n < len(rest) && (n == 0 || n < 200 && takes < time.Second) {
			takes += rest[n].takes
			n++
		}
		limit := min(b.longest(), max(20*time.Second, 10*takes))
		if r, _ := b.execute(ctx, tester, on, rest[:n], limit, ""); r != survived {
			return r
		}
		rest = rest[n:]
	}
	return survived
}

// execute runs some compiled tests, and ends what they leave behind. The shell bounds their memory.
func (b *bench) execute(ctx context.Context, tester, on int, tests []*testFunc, limit time.Duration,
	reached string) (result, []byte) {
	const grace = 20 * time.Second // for the tests to notice that their time is up
	ctx, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
	}
	args := append(append([]string(nil), b.exec...), "sh", "-c", `ulimit -v "$0" && exec "$@"`,
		strconv.Itoa(b.memory<<10), b.binary(tester), "-test.short="+strconv.FormatBool(b.short), "-test.failfast",
		"-test.timeout", limit.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = b.dirs[b.testers[tester]]
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(on), "MUTANT_REACHED="+reached)
	cmd.WaitDelay = 5 * time.Second
	// A process that a test has started may outlive it, and hold what other tests wait for.
	unix.SetGroup(cmd)
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = cmd.Cancel() // mostly none is left
	}
	switch {
	case err == nil:
		return survived, out
	case ctx.Err() != nil, bytes.Contains(out, []byte("panic: test timed out")), errors.Is(err, exec.ErrWaitDelay):
		return late, out
	}
	return found, out
}
