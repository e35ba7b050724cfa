package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/roce/link"
)

// Result is how a run ended.
type Result struct {
	Report  *matrix.Report
	Peer    string // what the other side is
	Profile peer.Profile
	Link    string
	// Here is this side, or the device of the first of two agents, and There the peer.
	Here, There Side
	Note        string // on the profile
	Only        []string
	Quick       bool
	Seed        uint64
	Took        time.Duration
	// Cut is why the run ended before its end; nil if it did not.
	Cut error
}

// Run runs the rows. An error means that there was nothing to run: wrong options, no agent, no
// device.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Lanes = cmp.Or(o.Lanes, DefaultLanes)
	for i := range o.Agents {
		o.Agents[i].Timeout = cmp.Or(o.Agents[i].Timeout, AnswerTimeout)
		if o.Agents[i].Client == "" {
			name, err := clientName()
			if err != nil {
				return nil, err
			}
			o.Agents[i].Client = name
		}
	}
	start := time.Now()
	sw := ether.New()
	defer sw.Close()
	outer := ctx
	ctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	env := &matrix.Env{Wire: sw, Report: &matrix.Report{OnRow: o.OnRow}, Full: !o.Quick, Lanes: o.Lanes,
		Seed: o.Seed, Choose: o.wants, Tolerant: &matrix.Tolerance{}}
	// What an interrupted row has seen is no result: first the report is stopped, and then all that
	// rows wait for.
	defer context.AfterFunc(outer, func() {
		env.Report.Stop()
		end(context.Cause(outer))
	})()
	meet := o.oneAgent
	if len(o.Agents) == 2 {
		meet = o.twoAgents
	}
	done, err := meet(ctx, env)
	if err != nil {
		return nil, err
	}
	defer done()
	res := &Result{
		Report: env.Report, Peer: env.Kernel, Profile: env.Ref.Profile(), Note: o.note(env.Ref), Link: env.Link,
		Here: sideOf(env.Subject), There: sideOf(env.Ref), Only: o.Only, Quick: o.Quick, Seed: o.Seed,
	}
	if res.Note != "" {
		o.logf("%s", res.Note)
	}
	res.Cut = o.run(ctx, env)
	if ctx.Err() != nil {
		res.Cut = context.Cause(ctx)
	}
	res.Took = time.Since(start)
	return res, nil
}

// run runs the groups one after the other.
func (o *Options) run(ctx context.Context, env *matrix.Env) error {
	for _, g := range o.groups() {
		begin, before := time.Now(), len(env.Report.Rows())
		run := env.Run
		switch {
		case g == drillsGroup:
			run = func(ctx context.Context, _ string) error { return o.lastDrills(ctx, env) }
		case g == "capture" && !env.Blind:
			run = o.capture(env)
		}
		if err := run(ctx, g); err != nil {
			return fmt.Errorf("%s: %w", g, err)
		}
		o.logf("%s: %d rows in %.1fs", g, len(env.Report.Rows())-before, time.Since(begin).Seconds())
	}
	return nil
}

// lastDrills closes the device here, whose address and port the drills take, and plays them.
func (o *Options) lastDrills(ctx context.Context, env *matrix.Env) error {
	dev, ok := env.Subject.(*peer.Goroce)
	ref, behind := env.Ref.(*peer.Agent)
	if !ok || !behind {
		for _, row := range o.drillRows(env.Kernel, env.Link) {
			row.Result, row.Detail = matrix.Skip, "drills are played by this side: with one agent only"
			env.Report.Add(row)
		}
		return nil
	}
	if err := dev.Close(); err != nil {
		return err
	}
	return o.drills(ctx, env, ref)
}

// oneAgent makes a device here the subject, and what is behind the agent its peer.
func (o *Options) oneAgent(ctx context.Context, env *matrix.Env) (end func(), err error) {
	at := peer.AgentPlace{Agent: o.Agents[0], PortName: switchlink.Far, Profile: o.Profile}
	at.Addr4, at.Addr6 = byFamily(o.PeerAddrs)
	ref, err := newAgent(ctx, at)
	if err != nil {
		return nil, err
	}
	place := peer.GorocePlace{PortName: switchlink.Near, Link: o.link(), RxeFlush: ref.Profile() == peer.ProfileRXE}
	if place.Addr4, place.Addr6, err = o.locals(ref); err != nil {
		return nil, err
	}
	var wrapErr error
	place.WrapLink = func(l link.Link) link.Link {
		w, err := switchlink.New(l, env.Wire)
		if wrapErr = err; err != nil {
			return l
		}
		return w
	}
	dev, err := peer.NewGoroce(place)
	if err != nil {
		return nil, err
	}
	if wrapErr != nil {
		return nil, errors.Join(wrapErr, dev.Close())
	}
	// Rows wait for completions, which nobody is to wait for any more when the run ends.
	stop := context.AfterFunc(ctx, func() { dev.Close() })
	env.Subject, env.Ref, env.RefPort = dev, ref, switchlink.Far
	env.Kernel, env.Link, env.Untried = ref.Name(), o.link(), untried(ref)
	o.keeper = &keeper{dir: o.PcapDir, sw: env.Wire, explain: o.Explain, local: place.Addrs(),
		near: "goroce", far: "peer"}
	env.Explain = o.keeper.keep
	o.logf("%s here, against %s at %s, profile %s", addrs(place.Addr4, place.Addr6), ref.Name(),
		addrs(ref.Addr(peer.V4), ref.Addr(peer.V6)), ref.Profile())
	return func() {
		stop()
		dev.Close()
	}, nil
}
