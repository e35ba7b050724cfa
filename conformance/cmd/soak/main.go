// Soak runs a service for a given time: a server and clients in processes of their own, connections
// that come and go, peers that are killed and stopped, lost packets, a link that goes down and changes its MTU. It fails if
// something grows, hangs or comes back wrong. Package soak says what is held.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/soak"
)

func main() {
	if soak.Child() {
		return
	}
	o := soak.Options{Log: os.Stdout, Stderr: os.Stderr}
	flag.DurationVar(&o.For, "for", 10*time.Minute, "how long")
	flag.DurationVar(&o.Period, "period", time.Minute, "time from one rest to the next")
	flag.Float64Var(&o.Loss, "loss", 0.002, "probability that a packet is lost, in each direction")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().Unix()), "of what is drawn at random")
	flag.StringVar(&o.Profile, "profile", "", "`folder` for heap profiles at each rest, of the processes that stay")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := soak.Run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	s.Print(os.Stdout)
	if len(s.Faults) > 0 {
		os.Exit(1)
	}
}
