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
	links    []string
	suites   []string
	full     func(link string) bool // everything is run on a link; otherwise the subset of -quick
	self     bool
	verbs    bool // programs on the verbs libraries
	only     string
	onlyTool string
	conform  bool // devices by the command "roce conform"
	timeout  time.Duration
	logf     func(string, ...any)
	report   *matrix.Report
	pulses   map[*hosts.RXE]*lab.Pulse
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
	peers, err := r.boot(ctx, l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	context.AfterFunc(ctx, r.report.Stop)
	r.pulses = map[*hosts.RXE]*lab.Pulse{}
	for _, p := range peers {
		go endWith(ctx, cancel, p.Guest())
		if r.pulses[p], err = p.Guest().StartPulse(ctx); err != nil {
			return err
		}
	}
	switch {
	case r.verbs:
		err = r.verbsAgainst(ctx, l, peers)
	case r.self:
		if len(peers) < 2 {
			return errors.New("rxe against rxe needs two guests")
		}
		err = r.rxeAgainstRXE(ctx, l, peers[1], peers[0])
	default:
		err = r.goroceAgainst(ctx, l, peers)
		if missing := r.report.MissingRows(r.fullLinks(), r.subsetLinks()); err == nil && len(missing) > 0 {
			err = fmt.Errorf("%d rows are missing on a link:\n%s", len(missing), strings.Join(missing, "\n"))
		}
	}
	for p, pulse := range r.pulses {
		r.logf("%s: asked 20 times a second, %s", p.Name(), pulse.Summary())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if busy := r.report.TooBusy(); len(busy) > 0 {
		err = errors.Join(err, fmt.Errorf("this machine is too busy:\n%s", strings.Join(busy, "\n")))
	}
	return errors.Join(err, r.checkGuests(ctx, peers))
}

// endWith ends the run when a guest is gone: each row would wait for it as long as it may.
func endWith(ctx context.Context, cancel context.CancelCauseFunc, g *lab.Guest) {
	select {
	case <-g.Gone():
		cancel(g.Err())
	case <-ctx.Done():
	}
}

// boot boots a guest of each suite.
func (r *runner) boot(ctx context.Context, l *lab.Lab) ([]*hosts.RXE, error) {
	peers := make([]*hosts.RXE, len(r.suites))
	errs := make([]error, len(r.suites))
	var wg sync.WaitGroup
	for i, s := range r.suites {
		im, err := lab.OpenImage(s)
		if err != nil {
			return nil, err
		}
		wg.Go(func() {
			g, err := l.Boot(ctx, lab.GuestConfig{Name: im.Suite, Image: im})
			if err != nil {
				errs[i] = err
				return
			}
			peers[i], errs[i] = hosts.NewRXE(ctx, g)
		})
	}
	wg.Wait()
	return peers, errors.Join(errs...)
}

// checkGuests makes a guest's kernel complaint a failure.
func (r *runner) checkGuests(ctx context.Context, peers []*hosts.RXE) error {
	for _, p := range peers {
		log, err := p.Guest().KernelTrouble(ctx)
		if err != nil {
			return err
		}
		row := matrix.Row{Kernel: kernelOf(p), Group: "guests", Op: "kernel log", Role: "responder", Link: p.Link()}
		row.Result, row.Detail = kernelResult(log, r.knownWarnings(p.Guest().Image.KernelMajorMinor()))
		r.report.Add(row)
	}
	return nil
}

func kernelOf(p *hosts.RXE) string { return strings.TrimPrefix(p.Name(), "rxe ") }

// rxeAgainstRXE runs the matrix between two guests: what fails there is the lab's fault or
// a trait of rxe, not this module's.
func (r *runner) rxeAgainstRXE(ctx context.Context, l *lab.Lab, a, b *hosts.RXE) error {
	env := &matrix.Env{Wire: l.Wire, Report: r.report, Kernel: a.Name() + " with " + b.Name(), Link: a.Link(), Subject: a, Ref: b, RefPort: b.PortName(), Full: r.full(a.Link()), OnlyTool: r.onlyTool, FirstPort: matrix.DefaultPort}
	groups := append(deviceGroups(env), toolGroups(env, hosts.Guest{P: a}, hosts.Guest{P: b})...)
	return r.groups(ctx, env, append(groups, cmGroups(env, hosts.Guest{P: a}, hosts.Guest{P: b})...))
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
		return env.Capture(ctx, filepath.Join(out, "capture-"+strings.ReplaceAll(env.Kernel, " ", "-")+"-"+env.Link+".pcap"))
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
