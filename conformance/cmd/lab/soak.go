package main

import (
	"os"
	"time"

	"github.com/goroce/goroce/conformance/soak"
)

// soakService runs a service for a given time: a server and clients in processes of their own,
// connections that come and go, peers that are killed and stopped, lost packets, a link that goes
// down and changes its MTU. It fails if something grows, hangs or comes back wrong. Package soak
// says what is held.
func soakService(t *tool, args []string) error {
	o := soak.Options{Log: os.Stdout, Stderr: os.Stderr}
	t.DurationVar(&o.For, "for", 10*time.Minute, "how long")
	t.DurationVar(&o.Period, "period", time.Minute, "time from one rest to the next")
	t.Float64Var(&o.Loss, "loss", 0.002, "probability that a packet is lost, in each direction")
	t.Uint64Var(&o.Seed, "seed", uint64(time.Now().Unix()), "of what is drawn at random")
	t.StringVar(&o.Profile, "profile", "", "`folder` for heap profiles at each rest, of the processes that stay")
	if err := t.parseAlone(args); err != nil {
		return err
	}
	ctx, stop := t.context(0)
	defer stop()
	s, err := soak.Run(ctx, o)
	if err != nil {
		return err
	}
	s.Print(os.Stdout)
	if len(s.Faults) > 0 {
		return errFailed
	}
	return nil
}
