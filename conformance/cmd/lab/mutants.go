package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// defaultPackages are those whose tests ought to find everything.
var defaultPackages = []string{
	"./ib", "./mem", "./transport", "./transport/cc", "./roce/rdmacm/cm", "./roce/internal/shard", "./roce/rsocket", "./roce/link",
}

type mutantOptions struct {
	seed    uint64
	each    int
	only    string
	list    bool
	exec    []string
	timeout time.Duration
	memory  int
}

// mutants plants bugs and looks whether the tests find them.
//
// It draws changes of one operator, condition, constant, call or assignment each from a seed, in every package that it
// is given, compiles the package's tests with that change and runs them. Nothing in the work tree changes: the
// compiler sees the planted file through an overlay. A bug that no test finds is a test that is missing, or code that
// makes no difference; a few changes make none, as a bound that nothing comes near.
func mutants(t *tool, args []string) error {
	var o mutantOptions
	t.Uint64Var(&o.seed, "seed", 1, "what is drawn depends on this")
	t.IntVar(&o.each, "n", 8, "bugs to plant in each package")
	t.StringVar(&o.only, "only", "", "plant only what is listed with this `text`, as transport/retry.go:90")
	t.BoolVar(&o.list, "list", false, "list all that could be planted, and plant nothing")
	command := t.String("exec", "", "run the tests with this `command`, as go test -exec does")
	t.DurationVar(&o.timeout, "timeout", 0, "tests that take longer have found the bug; 0 is ten times what they take without one, at least a minute")
	t.IntVar(&o.memory, "memory", 8192, "address space of a test, MiB: a bug may be a loop that allocates")
	t.Usage = func() {
		fmt.Fprintln(t.Output(), "usage: mutants [options] [package ...]")
		t.PrintDefaults()
	}
	_ = t.Parse(args) // it exits
	o.exec = strings.Fields(*command)
	names := t.Args()
	if len(names) == 0 {
		names = defaultPackages
	}
	ctx, stop := t.context(0)
	defer stop()
	return plant(ctx, &o, names)
}

// plant plants bugs in the packages one after the other and reports.
func plant(ctx context.Context, o *mutantOptions, names []string) error {
	pkgs, err := load(ctx, names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var found, planted int
	var survivors []string
	for _, p := range pkgs {
		bugs, err := p.bugs()
		if err != nil {
			return err
		}
		if o.list {
			for i := range bugs {
				fmt.Println(&bugs[i])
			}
			continue
		}
		if o.only != "" {
			bugs = matching(bugs, o.only)
			o.each = len(bugs)
		} else {
			draw(bugs, o.seed, p.ImportPath)
		}
		if len(bugs) == 0 {
			continue
		}
		b := bench{mutantOptions: o, pkg: p, dir: dir, limit: cmp.Or(o.timeout, time.Hour)}
		start := time.Now()
		if r, out := b.test(ctx, nil); r != survived {
			return fmt.Errorf("the tests of %s fail without a bug: %v\n%s", p.ImportPath, r, out)
		}
		b.limit = cmp.Or(o.timeout, max(time.Minute, 10*time.Since(start)))
		left := o.each
		for i := range bugs {
			if left == 0 {
				break
			}
			start := time.Now()
			r, _ := b.test(ctx, &bugs[i])
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if r == broken {
				continue // the compiler found it
			}
			left--
			planted++
			if r == survived {
				survivors = append(survivors, bugs[i].String())
			} else {
				found++
			}
			fmt.Printf("%-8v %5.1fs %v\n", r, time.Since(start).Seconds(), &bugs[i])
		}
	}
	if o.list {
		return nil
	}
	fmt.Printf("%d of %d found (seed %d)\n", found, planted, o.seed)
	for _, s := range survivors {
		fmt.Println("not found:", s)
	}
	return nil
}

func matching(all []bug, text string) (some []bug) {
	for i := range all {
		if strings.Contains(all[i].String(), text) {
			some = append(some, all[i])
		}
	}
	return some
}
