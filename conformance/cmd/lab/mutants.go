package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutantPackages are all packages of the library. Those that serve others and have few tests of
// their own are tested by those of others, too.
var mutantPackages = []string{
	"ib", "ib/mad", "mem", "transport", "transport/cc", "transport/edge",
	"roce/rdmacm/cm", "roce/internal/shard", "roce/internal/slots",
	"roce/link/udp", "roce/link/packet", "roce/link/xdp", "roce/link/sim", "roce/link/fault",
	"roce/link/trace", "roce/link", "roce/link/internal/endpoint", "roce/link/internal/frame",
	"roce/link/internal/nexthop", "roce/link/internal/receive", "roce/link/internal/sockio",
	"roce/link/internal/transmit", "roce", "roce/verbs", "roce/rsocket", "roce/rdmacm", "roce/analyse",
	"roce/analyse/stage", "roce/analyse/strict", "roce/auth", "roce/internal/access", "roce/internal/everyaddr",
	"roce/internal/processes", "roce/internal/rtnl", "roce/layers", "roce/metrics", "roce/pcap", "roce/stat",
}

var testedBy = map[string][]string{
	"roce/link/fault":             {"roce/link/sim"},
	"roce/link/internal/endpoint": {"roce/link/udp", "roce/link/packet"},
	"roce/link/internal/frame":    {"roce/link/packet", "roce/link/xdp"},
	"roce/link/internal/nexthop":  {"roce/link/packet"},
	"roce/link/internal/receive":  {"roce/link/udp", "roce/link/packet"},
	"roce/link/internal/sockio":   {"roce/link/udp"},
	"roce/link/internal/transmit": {"roce/link/packet", "roce/link/xdp"},
	"roce/internal/shard":         {"roce/verbs", "roce"},
	"roce/internal/slots":         {"roce/link/udp"},
	"roce/internal/access":        {"roce"},
	"roce/internal/everyaddr":     {"roce"},
	"roce/internal/processes":     {"roce/rdmacm"},
	"roce/analyse/stage":          {"roce/analyse"},
	"roce/analyse":                {"cmd/internal/explain", "conformance/captures"},
}

// wholly are packages whose tests run as they are: the short run leaves out what finds most, and
// they take a second.
var wholly = map[string]bool{"roce/analyse/strict": true}

type mutantOptions struct {
	seed    uint64
	each    int
	only    string
	list    bool
	again   bool
	known   bool
	long    bool
	exec    []string
	timeout time.Duration
	memory  int
	results string
	report  string
	dirs    map[string]string // of the packages, by what is asked for
}

// mutants plants bugs and looks whether the tests find them.
//
// It draws changes of one operator, condition, constant, call or assignment each from a seed, in
// every package that it is given, compiles the package's tests with all of them, each behind a
// switch, and runs with each switched on the tests that come by it. Nothing in the work tree
// changes: the compiler sees the planted files through an overlay. A bug that no test finds is a
// test that is missing, or code that makes no difference. Those that can make none are explained in
// a file.
func mutants(t *tool, args []string) error {
	var o mutantOptions
	t.Uint64Var(&o.seed, "seed", 4711, "what is drawn depends on this")
	t.IntVar(&o.each, "n", 20, "bugs to plant in each package")
	t.StringVar(&o.only, "only", "", "plant only what is listed with this `text`, as transport/retry.go:90")
	t.BoolVar(&o.list, "list", false, "list all that could be planted, and plant nothing")
	command := t.String("exec", "", "run the tests with this `command`, as go test -exec does")
	t.DurationVar(&o.timeout, "timeout", 0,
		"tests that take longer have found the bug; 0 is ten times what they take without one, 20 s at least and 5 minutes at most")
	t.IntVar(&o.memory, "memory", 8192, "address space of a test, MiB: a bug may be a loop that allocates")
	t.StringVar(&o.results, "results", "conformance/out/mutants.json",
		"`file` with what is known: a run goes on from there")
	t.BoolVar(&o.long, "long", false,
		"run the tests as they are without -short; a bug that they find is found without this option, too")
	t.BoolVar(&o.again, "again", false, "run what is known again")
	t.BoolVar(&o.known, "known", false, "run nothing, and report what is known")
	t.StringVar(&o.report, "report", "", "write a table of all packages to this `file`")
	t.Usage = func() {
		fmt.Fprintln(t.Output(), "usage: mutants [options] [package ...]")
		t.PrintDefaults()
	}
	_ = t.Parse(args) // it exits
	o.exec = strings.Fields(*command)
	names := t.Args()
	if len(names) == 0 {
		names = mutantPackages
	}
	ctx, stop := t.context(0)
	defer stop()
	return plant(ctx, &o, names)
}

// plant plants bugs in the packages one after the other and reports.
func plant(ctx context.Context, o *mutantOptions, names []string) error {
	known, err := openLedger(o.results)
	if err != nil {
		return err
	}
	defer known.Close()
	explained, err := readExplained(explainedFile)
	if err != nil {
		return err
	}
	for i, n := range names {
		names[i] = filepath.ToSlash(filepath.Clean(n))
	}
	report := func() error {
		if o.report == "" {
			return nil
		}
		return os.WriteFile(o.report, known.table(o, names, explained), 0o644)
	}
	if o.known {
		return report()
	}
	var total count
	for _, n := range names {
		c, err := o.plantIn(ctx, n, known, explained)
		if err == nil {
			total.add(c)
			err = report()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	if o.list {
		return nil
	}
	fmt.Printf("%v (seed %d)\n", &total, o.seed)
	for _, s := range total.open {
		fmt.Println("open:", s)
	}
	return nil
}

// plantIn plants bugs in a package.
func (o *mutantOptions) plantIn(ctx context.Context, name string, known *ledger,
	explained map[string]string) (*count, error) {
	testers := []string{"./" + name}
	for _, t := range testedBy[name] {
		testers = append(testers, "./"+t)
	}
	pkgs, export, err := load(ctx, testers)
	if err != nil {
		return nil, err
	}
	o.dirs = map[string]string{}
	var p *pkg
	for i, t := range testers {
		for _, q := range pkgs {
			if q.ImportPath == q.Module.Path && t == "./." || q.ImportPath == q.Module.Path+strings.TrimPrefix(t, ".") {
				testers[i] = q.ImportPath
				o.dirs[q.ImportPath] = q.Dir
				if i == 0 {
					p = q
				}
			}
		}
	}
	if p == nil {
		return nil, fmt.Errorf("go list has no package for it")
	}
	all, err := p.bugs()
	if err != nil {
		return nil, err
	}
	if o.list {
		for i := range all {
			fmt.Printf("%s (line %d)\n", all[i].id(), all[i].line)
		}
		return new(count), nil
	}
	code, tests, err := fingerprints(p, o.dirs)
	if err != nil {
		return nil, err
	}
	if o.long || wholly[name] {
		tests += " long"
	}
	c, err := newChecker(p, export)
	if err != nil {
		return nil, err
	}
	each := o.each
	if o.only != "" {
		all = matching(all, o.only)
		each = len(all)
	} else {
		draw(all, o.seed)
	}
	sum, drawn, now := new(count), 0, commit(ctx)
	var todo []*bug
	for i := range all {
		b := &all[i]
		if drawn == each {
			break
		}
		if !c.compiles(b) {
			continue // the compiler found it
		}
		drawn++
		e := known.find(code, tests, b.id())
		if o.again || o.only != "" {
			e = nil
		}
		if e == nil && explained[b.id()] != "" && o.only == "" {
			e = &entry{Package: name, Commit: now, Code: code, Tests: tests, Bug: b.id(), Line: b.line,
				Result: survived.String()}
			if err := known.add(e); err != nil {
				return nil, err
			}
		}
		if e != nil {
			sum.count(e, explained)
			continue
		}
		todo = append(todo, b)
	}
	if len(todo) == 0 {
		return sum, nil
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b := bench{mutantOptions: o, pkg: p, dir: dir, testers: testers, short: !o.long && !wholly[name]}
	err = b.tryAll(ctx, c, todo, func(x *bug, r result, reach int, takes time.Duration) error {
		e := &entry{
			Package: name, Commit: now, Code: code, Tests: tests, Bug: x.id(), Line: x.line,
			Result: r.String(), Reach: reach, Seconds: takes.Seconds(),
		}
		fmt.Printf("%-8v %5.1fs %3d tests %v\n", r, e.Seconds, reach, x)
		sum.count(e, explained)
		if o.only != "" {
			return nil
		}
		return known.add(e)
	})
	return sum, err
}

// attempt is a bug that is being tried.
type attempt struct {
	*bug
	number int // of its switch
	alone  bool
	reach  int
	takes  time.Duration
}

// tryAll tries the bugs one after the other: first those that go behind switches, and all of them
// by the package's own tests before anything is made of those of others, which get what is left.
func (b *bench) tryAll(ctx context.Context, c *checker, bugs []*bug,
	done func(*bug, result, int, time.Duration) error) error {
	together, alone := c.choose(bugs)
	files, err := c.render(together, alone)
	if err != nil {
		return err
	}
	var left []*attempt
	for i, x := range slices.Concat(together, alone) {
		left = append(left, &attempt{bug: x, number: i + 1, alone: i >= len(together)})
	}
	for tester := range b.testers {
		if len(left) == 0 {
			break
		}
		start := time.Now()
		if err := b.build(ctx, tester, files); err != nil {
			return err
		}
		built := time.Since(start)
		if err := b.probe(ctx, tester); err != nil {
			return err
		}
		fmt.Printf("%s: %d tests, %d bugs; built in %.1fs, probed in %.1fs\n",
			b.testers[tester], len(b.all), len(left), built.Seconds(), (time.Since(start) - built).Seconds())
		if left, err = b.tryBy(ctx, tester, left, done); err != nil {
			return err
		}
	}
	return nil
}

// tryBy tries the bugs with the tests of one package. It returns those that are left for the next
// one.
func (b *bench) tryBy(ctx context.Context, tester int, bugs []*attempt,
	done func(*bug, result, int, time.Duration) error) (left []*attempt, err error) {
	for _, x := range bugs {
		start, on, reach := time.Now(), x.number, b.reach(x.number)
		if x.alone && len(reach) != 0 {
			on = 0
			src, err := os.ReadFile(x.file)
			if err != nil {
				return nil, err
			}
			if err := b.build(ctx, tester, map[string][]byte{x.file: x.apply(src)}); err != nil {
				return nil, err
			}
		}
		r := b.try(ctx, tester, reach, on)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		x.reach += len(reach)
		x.takes += time.Since(start)
		if r == survived && tester < len(b.testers)-1 {
			left = append(left, x)
			continue
		}
		if err := done(x.bug, r, x.reach, x.takes); err != nil {
			return nil, err
		}
	}
	return left, nil
}

func matching(all []bug, text string) (some []bug) {
	for i := range all {
		if strings.Contains(all[i].String(), text) || strings.Contains(all[i].id(), text) {
			some = append(some, all[i])
		}
	}
	return some
}
