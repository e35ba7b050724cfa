package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// pkg is what is needed of the answer of go list.
type pkg struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	Module     struct{ Path string }
}

// load returns the packages that the names stand for.
func load(ctx context.Context, names []string) ([]*pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,GoFiles,Module"}, names...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []*pkg
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		p := new(pkg)
		if err := d.Decode(p); err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
	return pkgs, nil
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

// bench runs the tests of one package.
type bench struct {
	*mutantOptions
	pkg *pkg
	dir string // for what is made
	// limit is how long the tests may take.
	limit time.Duration
}

// test compiles the package's tests with a bug, or without one, and runs them.
func (b *bench) test(ctx context.Context, x *bug) (result, []byte) {
	binary := filepath.Join(b.dir, "tests")
	args := []string{"test", "-c", "-o", binary}
	if x != nil {
		overlay, err := b.overlay(x)
		if err != nil {
			return broken, []byte(err.Error())
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, b.pkg.ImportPath)...)
	build.Dir = b.pkg.Dir
	if out, err := build.CombinedOutput(); err != nil {
		return broken, out
	}
	return b.execute(ctx, binary)
}

// overlay writes the planted file and the list that tells the compiler of it.
func (b *bench) overlay(x *bug) (string, error) {
	src, err := os.ReadFile(x.file)
	if err != nil {
		return "", err
	}
	planted := filepath.Join(b.dir, "planted.go")
	if err := os.WriteFile(planted, x.apply(src), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {x.file: planted}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(b.dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}

// execute runs the compiled tests. The shell bounds their memory.
func (b *bench) execute(ctx context.Context, binary string) (result, []byte) {
	const grace = 20 * time.Second // for the tests to notice that their time is up
	ctx, cancel := context.WithTimeout(ctx, b.limit+grace)
	defer cancel()
	args := append(append([]string(nil), b.exec...), "sh", "-c", `ulimit -v "$0" && exec "$@"`,
		strconv.Itoa(b.memory<<10), binary, "-test.short", "-test.failfast", "-test.timeout", b.limit.String())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = b.pkg.Dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return survived, out
	case ctx.Err() != nil, bytes.Contains(out, []byte("panic: test timed out")), errors.Is(err, exec.ErrWaitDelay):
		return late, out
	}
	return found, out
}
