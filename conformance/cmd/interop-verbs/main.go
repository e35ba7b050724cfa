// Command interop-verbs runs RDMA programs as Debian ships them on this project's libibverbs and librdmacm, prints a table and
// writes conformance/out/interop-verbs.json. Its exit status is 1 if anything failed. bin/roce and bin/verbs must be there
// ("make build verbs"); -install installs what that needs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
)

type options struct {
	suites, groups, only, link, md, bin string
	pyverbs                             string
	quick, smoke, verbose, install      bool
	jobs, again                         int
	timeout                             time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.suites, "suite", strings.Join(programs.Suites, ","), "comma-separated Debian suites whose programs to run")
	flag.StringVar(&o.groups, "group", "", "comma-separated groups to run, of "+strings.Join(programs.Groups(), ", ")+"; empty means all")
	flag.StringVar(&o.only, "case", "", "run only cases whose program and arguments contain this")
	flag.StringVar(&o.link, "link", "udp", "link to run on: udp, packet or xdp")
	flag.StringVar(&o.md, "md", "", "also write the table to this file, as Markdown")
	flag.StringVar(&o.pyverbs, "pyverbs", "", "run the test suite of pyverbs only, here and on rxe in guests, and write a comparison to this file")
	flag.StringVar(&o.bin, "bin", "bin", "folder of roce, with the libraries in verbs below it")
	flag.BoolVar(&o.quick, "quick", false, "run a subset")
	flag.BoolVar(&o.smoke, "smoke", false, "run some that pass on any machine, however busy, or none if the machine allows no network namespaces; -group does not count")
	flag.IntVar(&o.again, "again", 0, "how often to try a case that fails again; what has failed first is printed, too")
	flag.BoolVar(&o.install, "install", false, "install what building the libraries and running the programs needs, by apt, and do nothing else")
	flag.BoolVar(&o.verbose, "v", false, "print each row as it comes")
	flag.IntVar(&o.jobs, "jobs", 3, "how many cases run side by side")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "limit for everything")
	flag.Parse()
	suites, groups := split(o.suites), split(o.groups)
	if err := check(suites, groups, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "interop-verbs:", err)
		os.Exit(2)
	}
	begun := time.Now()
	logf := func(f string, a ...any) {
		fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(begun).Seconds(), fmt.Sprintf(f, a...))
	}
	if o.install {
		if err := lab.Install(context.Background(), programs.Needs, logf); err != nil {
			fmt.Fprintln(os.Stderr, "interop-verbs:", err)
			os.Exit(1)
		}
		return
	}
	lab.Enter(func(ctx context.Context) error {
		for _, s := range suites {
			if _, err := prepare(ctx, s, logf); err != nil {
				return err
			}
		}
		if o.pyverbs != "" {
			return prepareGuests(ctx, suites, logf)
		}
		return nil
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done in %v", o.timeout))
	defer cancel()
	f := run
	if o.pyverbs != "" {
		f = compare
	}
	failed, err := f(ctx, &o, suites, groups, logf)
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop-verbs:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func check(suites, groups, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	for _, s := range suites {
		if !slices.Contains(programs.Suites, s) {
			return fmt.Errorf("suite %q is none of %s", s, strings.Join(programs.Suites, ", "))
		}
	}
	for _, g := range groups {
		if !slices.Contains(programs.Groups(), g) {
			return fmt.Errorf("group %q is none of %s", g, strings.Join(programs.Groups(), ", "))
		}
	}
	return nil
}

// prepare makes the root of a suite, or finds it.
func prepare(ctx context.Context, suite string, logf func(string, ...any)) (*lab.Root, error) {
	return lab.PrepareRoot(ctx, "programs-"+suite, suite, programs.Recipe, programs.Packages, logf)
}

// stages mounts a stage for each suite.
func stages(ctx context.Context, bin string, suites []string, logf func(string, ...any)) (all []*programs.Stage, err error) {
	for _, suite := range suites {
		root, err := prepare(ctx, suite, logf)
		if err != nil {
			return nil, err
		}
		s, err := programs.NewStage(root, bin)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func run(ctx context.Context, o *options, suites, groups []string, logf func(string, ...any)) (failed int, err error) {
	report := &programs.Report{OnRow: func(row programs.Row) {
		if o.verbose || row.Result == programs.Fail || o.again > 0 && row.Detail != "" {
			logf("%-4s %s (%.1f s) %s", row.Result, row.Name(), row.Seconds, row.Detail)
		}
	}}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return 0, err
	}
	r := &programs.Runner{Groups: groups, Quick: o.quick, Smoke: o.smoke, Only: o.only, Jobs: o.jobs, Again: o.again, Options: []string{"--link=" + o.link}, Report: report}
	r.Stages, err = stages(ctx, bin, suites, logf)
	if o.smoke {
		err = programs.Allowed(err)
	}
	if lacking := (*programs.NotAllowed)(nil); errors.As(err, &lacking) {
		logf("NOT RUN: %v", err) // the machine's doing, and not the libraries'
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	err = r.Run(ctx)
	out, e := lab.OutDir()
	if e == nil {
		e = report.WriteJSON(filepath.Join(out, "interop-verbs.json"))
	}
	err = errors.Join(err, e, report.WriteTable(os.Stdout, r.Stages))
	if o.md != "" && err == nil { // a run that was cut short is no table to keep
		err = writeMarkdown(o, report, r.Stages)
	}
	if err == nil && len(report.Rows()) == 0 {
		err = errors.New("no case was run")
	}
	return report.Failed(), err
}

// writeMarkdown writes the table as a page of documentation.
func writeMarkdown(o *options, report *programs.Report, stages []*programs.Stage) error {
	f, err := os.Create(o.md)
	if err != nil {
		return err
	}
	fmt.Fprintf(f, "# Debian's RDMA programs on goroce's libibverbs and librdmacm\n\nMade by `make interop-verbs INTEROPFLAGS=\"%s\"`, on the link %s.\n",
		strings.Join(os.Args[1:], " "), o.link)
	fmt.Fprintf(f, "Each case by itself is in `conformance/out/interop-verbs.json` after a run.\n\n")
	for _, s := range stages {
		fmt.Fprintf(f, "- Debian %s: rdma-core %s, with that suite's C library\n", s.Suite, s.Version("libibverbs"))
	}
	fmt.Fprintln(f)
	return cmp.Or(report.WriteTable(f, stages), f.Close())
}
