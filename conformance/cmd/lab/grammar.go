package main

import (
	"context"
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/grammar"
	"github.com/goroce/goroce/conformance/lab"
)

// speak has a target hear what package grammar says.
//
//	go run ./conformance/cmd/lab grammar -target udp -packets 1000000       # goroce, on one device for all of it
//	go run ./conformance/cmd/lab grammar -target rxe -suite trixie -for 10m # the kernel in a guest
func speak(t *tool, args []string) error {
	o := driller{logf: t.logf, targets: list{"udp"}}
	t.Var(&o.targets, "target", "engine, udp or rxe")
	suite := t.String("suite", lab.Suites[len(lab.Suites)-1],
		"Debian suite whose kernel rxe is run in, with @ and another kernel of the archive's behind it")
	seed := t.Uint64("seed", 1, "what is said follows from it, and from what is answered")
	cfg := grammar.RunConfig{}
	t.Uint64Var(&cfg.Packets, "packets", 100_000, "how many packets to say")
	t.DurationVar(&cfg.For, "for", 0, "end after this time; 0 does not")
	t.BoolVar(&cfg.Care, "care", false, "no near-misses: only what a peer may say")
	t.BoolVar(&cfg.CM, "cm", true, "speak RDMA-CM, too")
	timeout := t.Duration("timeout", 12*time.Hour, "limit for everything")
	_ = t.Parse(args) // it exits
	o.suites = list{*suite}
	if err := o.choose("", nil); err != nil {
		return usageError{err}
	}
	if o.targets[0] == "rxe" {
		lab.EnterWithGuests(o.suites, o.logf)
	}
	ctx, stop := t.context(*timeout)
	defer stop()
	columns, closeAll, err := o.open(ctx)
	defer closeAll()
	if err != nil {
		return err
	}
	return speakTo(ctx, &columns[0], *seed, cfg, t.logf)
}

// speakTo runs it, and says what came of it.
func speakTo(ctx context.Context, c *column, seed uint64, cfg grammar.RunConfig, logf func(string, ...any)) error {
	res, err := grammar.Run(ctx, grammar.FromSeed(seed), c.Target, cfg)
	logf("%s: seed %d: %+v", c.Name(), seed, res)
	if c.gone() {
		return fmt.Errorf("the machine has stopped after %d packets:\n%s", res.Said, c.guest.Console(panicLines))
	}
	if c.log == nil || err != nil {
		return err
	}
	r := drill.Result{Drill: &drill.Drill{}}
	if c.log.check(ctx, &r, c.Profile()); r.Verdict != "" {
		return fmt.Errorf("%s", r.Text)
	}
	return nil
}
