package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// A guest that is emulated on one CPU is idle for half of a run: programs wait for each
// other to start, and queue pairs for their timers. So each guest has three lanes of groups
// at work side by side, and each lane goes from link to link by itself. A lane has a Host of
// its own, and thereby an interface, addresses and ports: on the xdp link an interface
// has only one program, and on all of them an address has only one device.

// lane is what runs one after the other.
type lane struct {
	t   *target
	at  *lab.Host
	bin string
	lab *lab.Lab
	// firstPort is the tools' first TCP port.
	firstPort int
	// The machine that it runs against, and where the rows go: see target.untilItLives.
	*life
	report *matrix.Report
}

// goroceAgainst runs this module's stack against each guest, side by side.
func (r *runner) goroceAgainst(ctx context.Context, l *lab.Lab, targets []*target) error {
	var bin string
	if r.conform || r.wants("links") || r.wants("tools") || r.wants("rdmacm") || r.wants("cmfaults") {
		var err error
		if bin, err = buildRoce(ctx); err != nil {
			return err
		}
	}
	devices := r.deviceLane
	if r.conform {
		devices = r.conformLane
	}
	var runs []func() error
	for i, t := range targets {
		for _, on := range []func(context.Context, lane, string) error{devices, r.toolLane, r.cmLane} {
			at, err := l.AddHost()
			if err != nil {
				return err
			}
			x := lane{t: t, at: at, bin: bin, lab: l, firstPort: matrix.DefaultPort + i*matrix.PortRange}
			runs = append(runs, func() error {
				for _, link := range r.linksTo(t.im.Suite) {
					err := t.untilItLives(ctx, r.report, func(v *life, rows *matrix.Report) error {
						x := x
						x.life, x.report = v, rows
						return on(v.ctx, x, link)
					})
					if err != nil {
						return fmt.Errorf("%s, %s link: %w", t.name(), link, err)
					}
				}
				return nil
			})
		}
	}
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, run := range runs {
		wg.Go(func() { errs[i] = run() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// env is what the groups of a lane work with; the peers are missing.
func (r *runner) env(x lane, link string) *matrix.Env {
	return &matrix.Env{
		StoodStill: x.pulse.StoodStill, Wire: x.lab.Wire, Report: x.report, Kernel: x.t.name(), Link: link,
		Full: r.full(link, x.t.im.Suite), OnlyTool: r.onlyTool, FirstPort: x.firstPort, Guest: &x.t.programs,
		RefPort: x.p.PortName(),
	}
}

// hosts are where the programs run.
func (x lane) hosts(link string) (local, guest matrix.Host) {
	return hosts.Local{Lab: x.lab, At: x.at, Bin: x.bin, Link: link}, hosts.Guest{P: x.p}
}

// withDevice opens a device for the time of f.
func (r *runner) withDevice(x lane, link string, f func(*matrix.Env) error) error {
	var dev *peer.Goroce
	err := x.at.Do(func() (err error) {
		dev, err = peer.NewGoroce(peer.GorocePlace{
			Addr4: x.at.Addr4, Addr6: x.at.Addr6, PortName: x.at.Name, Link: link, RxeFlush: true,
		})
		return err
	})
	if err != nil {
		return err
	}
	env := r.env(x, link)
	env.Subject, env.Ref = dev, x.p
	env.LinkInUse = func() (string, error) { return hosts.LinkAt(x.at) }
	err = f(env)
	return errors.Join(err, dev.Close())
}

// deviceLane runs what works with a device of this program.
func (r *runner) deviceLane(ctx context.Context, x lane, link string) error {
	return r.withDevice(x, link, func(env *matrix.Env) error { return r.groups(ctx, env, deviceGroups(env)) })
}

// toolLane runs the tools that connect over TCP.
func (r *runner) toolLane(ctx context.Context, x lane, link string) error {
	env := r.env(x, link)
	local, guest := x.hosts(link)
	return r.groups(ctx, env, toolGroups(env, local, guest))
}

// cmLane runs all that uses the fixed ports of RDMA-CM's programs.
func (r *runner) cmLane(ctx context.Context, x lane, link string) error {
	local, guest := x.hosts(link)
	err := r.withDevice(x, link, func(env *matrix.Env) error { return r.groups(ctx, env, limitGroups(env, guest)) })
	if err != nil {
		return err
	}
	env := r.env(x, link)
	return r.groups(ctx, env, cmGroups(env, local, guest))
}
