package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
)

// runner runs the matrix.
type runner struct {
	links  []string // each a link, or a link and a suite: udp:trixie
	suites []string
	// Everything is run on a link against a suite's kernel; otherwise the subset of -quick.
	full     func(link, suite string) bool
	self     bool
	verbs    bool // programs on the verbs libraries
	only     string
	onlyTool string
	conform  bool // devices by the command "roce conform"
	timeout  time.Duration
	logf     func(string, ...any)
	report   *matrix.Report
}

func (r *runner) wants(group string) bool {
	return r.only == "" || strings.Contains(","+r.only+",", ","+group+",")
}

func (r *runner) run(ctx context.Context) error {
	l, err := lab.New(lab.Config{Logf: r.logf})
	if err != nil {
		return err
	}
	defer l.Close()
	targets, err := r.boot(ctx, l)
	if err != nil {
		return err
	}
	switch {
	case r.verbs:
		err = r.verbsAgainst(ctx, l, targets)
	case r.self:
		if len(targets) < 2 {
			return errors.New("rxe against rxe needs two guests")
		}
		err = r.rxeAgainstRXE(l, targets[1].life(), targets[0].life())
	default:
		err = r.goroceAgainst(ctx, l, targets)
		var missing []string
		for _, t := range targets {
			full, subset := r.split(t.im.Suite)
			missing = append(missing, r.report.MissingRows(t.name(), full, subset)...)
		}
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("%d rows are missing on a link:\n%s", len(missing), strings.Join(missing, "\n"))
		}
	}
	for _, t := range targets {
		defer t.close()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if busy := r.report.TooBusy(); len(busy) > 0 {
		err = errors.Join(err, fmt.Errorf("this machine is too busy:\n%s", strings.Join(busy, "\n")))
	}
	return errors.Join(err, r.checkGuests(ctx, targets))
}

// boot boots a machine of each suite.
func (r *runner) boot(ctx context.Context, l *lab.Lab) ([]*target, error) {
	targets := make([]*target, len(r.suites))
	errs := make([]error, len(r.suites))
	var wg sync.WaitGroup
	for i, suite := range r.suites {
		wg.Go(func() { targets[i], errs[i] = newTarget(ctx, l, suite, r.logf) })
	}
	wg.Wait()
	return targets, errors.Join(errs...)
}

// checkGuests makes a guest's kernel complaint a failure.
func (r *runner) checkGuests(ctx context.Context, targets []*target) error {
	for _, t := range targets {
		row, err := t.kernelLog(ctx, r.knownWarnings(t.im.KernelMajorMinor()))
		if err != nil {
			return err
		}
		r.report.Add(row)
	}
	return nil
}

// rxeAgainstRXE runs the matrix between two guests: what fails there is the lab's fault or
// a trait of rxe, not this module's. It ends with either.
func (r *runner) rxeAgainstRXE(l *lab.Lab, x, y *life) error {
	ctx, end := context.WithCancelCause(x.ctx)
	defer end(nil)
	context.AfterFunc(y.ctx, func() { end(context.Cause(y.ctx)) })
	context.AfterFunc(ctx, r.report.Stop)
	a, b := x.p, y.p
	env := &matrix.Env{Wire: l.Wire, Report: r.report, Kernel: a.Name() + " with " + b.Name(), Link: a.Link(),
		Subject: a, Ref: b, RefPort: b.PortName(), Full: r.full(a.Link(), a.Guest().Image.Suite),
		OnlyTool: r.onlyTool, FirstPort: matrix.DefaultPort}
	groups := append(deviceGroups(env), toolGroups(env, hosts.Guest{P: a}, hosts.Guest{P: b})...)
	if err := r.groups(ctx, env,
		append(groups, cmGroups(env, hosts.Guest{P: a}, hosts.Guest{P: b})...)); ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// group is a group of checks.
type group struct {
	name string
	run  func(context.Context) error
}

// groups runs those of the groups that were asked for.
func (r *runner) groups(ctx context.Context, env *matrix.Env, list []group) error {
	for _, g := range list {
		if !r.wants(g.name) {
			continue
		}
		start := time.Now()
		if err := g.run(ctx); err != nil {
			return fmt.Errorf("%s, %s link: %s: %w", env.Kernel, env.Link, g.name, err)
		}
		r.logf("%s, %s link: %s took %.1fs", env.Kernel, env.Link, g.name, time.Since(start).Seconds())
	}
	return nil
}

// deviceGroups are the groups that work with the peers of env.
func deviceGroups(env *matrix.Env) []group {
	capture := func(ctx context.Context) error {
		out, err := lab.OutDir()
		if err != nil {
			return err
		}
		return env.Capture(ctx,
			filepath.Join(out, "capture-"+strings.ReplaceAll(env.Kernel, " ", "-")+"-"+env.Link+".pcap"))
	}
	list := []group{{"links", env.DeviceLink}}
	for _, name := range matrix.Groups() {
		switch name {
		case "micro": // which measures, and takes its time
		case "capture":
			list = append(list, group{name, capture})
		default:
			list = append(list, group{name, func(ctx context.Context) error { return env.Run(ctx, name) }})
		}
	}
	return list
}

// limitGroups are the groups that need both the subject's device and programs on the other
// side, ref.
func limitGroups(env *matrix.Env, ref matrix.Host) []group {
	return []group{{"cmfaults", func(ctx context.Context) error { return env.CMLimits(ctx, ref) }}}
}

// toolGroups are the groups that run command-line tools on the hosts.
func toolGroups(env *matrix.Env, subject, ref matrix.Host) []group {
	return []group{
		{"links", func(ctx context.Context) error { return env.ToolLink(ctx, subject) }},
		{"tools", func(ctx context.Context) error { return env.Tools(ctx, subject, ref) }},
	}
}

// cmGroups are those of tools that connect through RDMA-CM, whose ports are fixed.
func cmGroups(env *matrix.Env, subject, ref matrix.Host) []group {
	return []group{
		{"rdmacm", func(ctx context.Context) error { return env.CMTools(ctx, subject, ref) }},
		{"cmfaults", func(ctx context.Context) error { return env.CMFaults(ctx, subject, ref) }},
	}
}
