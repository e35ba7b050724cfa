package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
)

type programOptions struct {
	suites, groups                 list
	only, link, md, bin            string
	quick, smoke, verbose, install bool
	jobs, again                    int
	logf                           func(string, ...any)
}

// interopVerbs runs RDMA programs as Debian ships them on this project's libibverbs and librdmacm,
// prints a table and writes conformance/out/interop-verbs.json. bin/roce and bin/verbs must be
// there ("make build verbs"); -install installs what that needs.
func interopVerbs(t *tool, args []string) error {
	o := programOptions{logf: t.logf}
	suites := t.suites(programs.Suites, "Debian suites whose programs to run")
	t.Var(&o.groups, "group",
		"comma-separated groups to run, of "+strings.Join(programs.Groups(), ", ")+"; empty means all")
	t.StringVar(&o.only, "case", "", "run only cases whose program and arguments contain this")
	t.StringVar(&o.link, "link", "udp", "link to run on: udp, packet or xdp")
	t.StringVar(&o.md, "md", "", "also write the table to this file, as Markdown")
	t.StringVar(&o.bin, "bin", "bin", "folder of roce, with the libraries in verbs below it")
	t.BoolVar(&o.quick, "quick", false, "run a subset")
	t.BoolVar(&o.smoke, "smoke", false,
		"run some that pass on any machine, however busy, or none if the machine allows no network namespaces; -group does not count")
	t.IntVar(&o.again, "again", 0, "how often to try a case that fails again; what has failed first is printed, too")
	t.BoolVar(&o.install, "install", false,
		"install what building the libraries and running the programs needs, by apt, and do nothing else")
	t.BoolVar(&o.verbose, "v", false, "print each row as it comes")
	t.IntVar(&o.jobs, "jobs", 3, "how many cases run side by side")
	timeout := t.Duration("timeout", time.Hour, "limit for everything")
	if err := t.parseAlone(args); err != nil {
		return err
	}
	o.suites = *suites
	if err := o.check(); err != nil {
		return usageError{err}
	}
	if o.install {
		return lab.Install(context.Background(), programs.Needs, t.logf)
	}
	lab.Enter(func(ctx context.Context) error {
		return prepareVerbs(ctx, o.suites, t.logf)
	})
	ctx, stop := t.context(*timeout)
	defer stop()
	failed, err := o.run(ctx)
	if err == nil && failed > 0 {
		err = errFailed
	}
	return err
}

func (o *programOptions) check() error {
	for _, s := range o.suites {
		if !slices.Contains(programs.Suites, s) {
			return fmt.Errorf("suite %q is none of %s", s, strings.Join(programs.Suites, ", "))
		}
	}
	for _, g := range o.groups {
		if !slices.Contains(programs.Groups(), g) {
			return fmt.Errorf("group %q is none of %s", g, strings.Join(programs.Groups(), ", "))
		}
	}
	return nil
}

// prepareVerbs makes the roots that the programs run in.
func prepareVerbs(ctx context.Context, suites []string, logf func(string, ...any)) error {
	for _, s := range suites {
		if _, err := programsRoot(ctx, s, logf); err != nil {
			return err
		}
	}
	return nil
}

// programsRoot makes the root of a suite, or finds it.
func programsRoot(ctx context.Context, suite string, logf func(string, ...any)) (*lab.Root, error) {
	return lab.PrepareRoot(ctx, "programs-"+suite, suite, programs.Recipe, programs.Packages, logf)
}

// stages mounts a stage for each suite.
func stages(ctx context.Context, bin string, suites []string,
	logf func(string, ...any)) (all []*programs.Stage, err error) {
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	for _, suite := range suites {
		root, err := programsRoot(ctx, suite, logf)
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

func (o *programOptions) run(ctx context.Context) (failed int, err error) {
	report := &programs.Report{OnRow: func(row programs.Row) {
		if o.verbose || row.Result == programs.Fail || o.again > 0 && row.Detail != "" {
			o.logf("%-4s %s (%.1f s) %s", row.Result, row.Name(), row.Seconds, row.Detail)
		}
	}}
	r := &programs.Runner{Groups: o.groups, Quick: o.quick, Smoke: o.smoke, Only: o.only, Jobs: o.jobs,
		Again: o.again, Options: []string{"--link=" + o.link}, Report: report}
	r.Stages, err = stages(ctx, o.bin, o.suites, o.logf)
	if o.smoke {
		err = programs.Allowed(err)
	}
	if lacking := (*programs.NotAllowed)(nil); errors.As(err, &lacking) {
		o.logf("NOT RUN: %v", err) // the machine's doing, and not the libraries'
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
		err = o.writeMarkdown(report, r.Stages)
	}
	if err == nil && len(report.Rows()) == 0 {
		err = errors.New("no case was run")
	}
	return report.Failed(), err
}

// writeMarkdown writes the table as a page of documentation.
func (o *programOptions) writeMarkdown(report *programs.Report, stages []*programs.Stage) error {
	f, err := os.Create(o.md)
	if err != nil {
		return err
	}
	fmt.Fprintf(f, "# Debian's RDMA programs on goroce's libibverbs and librdmacm\n\nMade by `make interop-verbs INTEROPFLAGS=\"%s\"`, on the link %s.\n",
		strings.Join(os.Args[2:], " "), o.link)
	fmt.Fprintf(f, "Each case by itself is in `conformance/out/interop-verbs.json` after a run.\n\n")
	for _, s := range stages {
		fmt.Fprintf(f, "- Debian %s: rdma-core %s, with that suite's C library\n", s.Suite, s.Version("libibverbs"))
	}
	fmt.Fprintln(f)
	return cmp.Or(report.WriteTable(f, stages), f.Close())
}
