package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// runSeeds runs every test that draws from a seed (the callers of seeds.Run) over new seeds for a
// given time, and prints how many seeds each has done. It fails if one failed, and says how to run
// that seed again. With -left it runs nothing, and prints which tests do less under the race
// detector.
func runSeeds(t *tool, args []string) error {
	total := t.Duration("for", 10*time.Minute, "time for all tests together")
	workers := t.Int("workers", runtime.NumCPU(), "tests that run at a time")
	first := t.Uint64("seed", uint64(time.Now().Unix())*1e6, "first seed of each test")
	match := t.String("run", "", "only tests whose package and name match this `regexp`")
	what := t.Bool("left", false,
		"only print the arguments for go test that run the tests that do less under the race detector")
	_ = t.Parse(args) // it exits
	ctx, stop := t.context(0)
	defer stop()
	if !*what {
		return soakSeeds(ctx, *total, *workers, *first, *match, t.Args())
	}
	skipped, err := left(ctx, t.Args())
	if err == nil {
		fmt.Println(strings.Join(skipped, " "))
	}
	return err
}

// seeded is one test that runs seeds.
type seeded struct {
	pkg  *goPackage
	name string
}

// goPackage is what go list says of a package.
type goPackage struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	binary                             string
}

// soakSeeds divides the time evenly between the tests.
func soakSeeds(ctx context.Context, total time.Duration, workers int, first uint64, match string,
	patterns []string) error {
	re, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	tests, err := find(ctx, patterns, re)
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return errors.New("no test that runs seeds")
	}
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, t := range tests {
		if t.pkg.binary != "" {
			continue
		}
		t.pkg.binary = filepath.Join(dir, fmt.Sprint(i))
		if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", t.pkg.binary,
			t.pkg.ImportPath).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", t.pkg.ImportPath, err, out)
		}
	}
	workers = max(min(workers, len(tests)), 1)
	each := total * time.Duration(workers) / time.Duration(len(tests))
	fmt.Printf("%d tests, each for %v, %d at a time, from seed %d\n", len(tests),
		each.Round(time.Millisecond), workers, first)
	var (
		mu     sync.Mutex
		failed int
		wg     sync.WaitGroup
		queue  = make(chan seeded, len(tests))
	)
	for _, t := range tests {
		queue <- t
	}
	close(queue)
	for range workers {
		wg.Go(func() {
			for t := range queue {
				out, err := t.run(ctx, each, first)
				mu.Lock()
				n := seedCount.FindSubmatch(out)
				switch {
				case ctx.Err() != nil:
				case err != nil || n == nil:
					failed++
					fmt.Printf("FAIL %s %s: %v\n%s", t.pkg.ImportPath, t.name, err, out)
				default:
					fmt.Printf("ok   %9s seeds  %s %s\n", n[1], t.pkg.ImportPath, t.name)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != 0 {
		return fmt.Errorf("%d of %d tests failed", failed, len(tests))
	}
	return nil
}

// seedCount is what seeds.Run prints.
var seedCount = regexp.MustCompile(`(?m)^soak: \S+ (\d+)$`)

// hang is for how long a seed may run beyond the time of the test.
const hang = 10 * time.Minute

// run runs the test for d.
func (t *seeded) run(ctx context.Context, d time.Duration, first uint64) ([]byte, error) {
	c := exec.CommandContext(ctx, t.pkg.binary, "-test.run", "^"+t.name+"$", "-test.timeout", (d + hang).String(),
		"-soak", d.String(), "-seed", fmt.Sprint(first))
	c.Dir = t.pkg.Dir
	return c.CombinedOutput()
}

// goList is go list of packages, all if none are named.
func goList(ctx context.Context, patterns []string) (all []*goPackage, err error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	c := exec.CommandContext(ctx, "go",
		append([]string{"list", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(goPackage)
		if err := dec.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// find lists the tests that call seeds.Run.
func find(ctx context.Context, patterns []string, match *regexp.Regexp) (found []seeded, err error) {
	all, err := goList(ctx, patterns)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, test := range seededIn(f) {
				if match.MatchString(p.ImportPath + "." + test) {
					found = append(found, seeded{p, test})
				}
			}
		}
	}
	return found, nil
}

// seededIn returns the test functions of a file that call seeds.Run.
func seededIn(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		calls := false
		ast.Inspect(fn, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Run" {
				if id, ok := s.X.(*ast.Ident); ok && id.Name == "seeds" {
					calls = true
				}
			}
			return !calls
		})
		if calls {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}
