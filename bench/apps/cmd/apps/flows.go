package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/apps/scale"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport/cc"
)

func flowsMain(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("flows", flag.ContinueOnError)
	f := scale.Flows{Rate: 40e9, Cable: 2 * time.Microsecond}
	fs.IntVar(&f.Hosts, "hosts", 54, "hosts of the tree")
	fs.Float64Var(&f.Load, "load", 0.7, "of each host's cable")
	fs.DurationVar(&f.For, "for", 5*time.Millisecond, "how long flows begin, in virtual time")
	fs.IntVar(&f.QueueBytes, "queue", 240_000, "bytes that a port of a switch has room for")
	fs.IntVar(&f.Window, "window", 110,
		"packets that a queue pair has on its way at most: 120 kB are the bandwidth times the delay")
	fs.Uint64Var(&f.Seed, "seed", 1, "of everything")
	controls := fs.String("cc", "none,delay,dcqcn-paper", "congestion controls; with dcqcn switches mark")
	pfc := fs.Bool("pfc", false,
		"switches pause in place of dropping, when what came over one cable takes as much as the queue, without the way there and back")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *pfc {
		f.PFC.HeadroomBytes = int(2*f.Cable.Seconds()*float64(f.Rate)/8) + 3*1200
		f.PFC.XOFFBytes = f.QueueBytes - f.PFC.HeadroomBytes
		f.PFC.XONBytes = f.PFC.XOFFBytes - 2*1200
	}
	fmt.Printf("WRITEs of 32 B to 3 MB between %d hosts, load %g for %v, 40 Gb/s and 2 us a cable, MTU 1024, queues of %d bytes, a window of %d packets, seed %d; in virtual time.\n\n",
		f.Hosts, f.Load, f.For, f.QueueBytes, f.Window, f.Seed)
	fmt.Println("| recovery | switches | control | flows | mean slowdown | p99 slowdown | mean | p99 | p99 of one packet | packets | sent again | dropped | pauses | simulated in |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for name := range strings.SplitSeq(*controls, ",") {
		var err error
		if f.Congestion.Algorithm, err = cc.ParseAlgorithm(name); err != nil {
			return err
		}
		f.RED = sim.RED{}
		if strings.HasPrefix(name, "dcqcn") {
			f.RED = sim.RED{KminBytes: 5e3, KmaxBytes: 200e3, Pmax: 0.01} // the DCQCN paper's
		}
		for _, f.GoBackN = range []bool{false, true} {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := f.Run()
			if err != nil {
				return err
			}
			fmt.Printf("| %s | %s | %s | %d | %.2f | %.1f | %v | %v | %v | %d | %.2f %% | %.2f %% | %d | %v |\n",
				map[bool]string{false: "selective", true: "go-back-N"}[f.GoBackN],
				map[bool]string{false: "drop", true: "pause"}[*pfc], name, len(r.Times),
				scale.Mean(r.Slowdowns), scale.Percentile(r.Slowdowns, 0.99), micros(scale.Mean(r.Times)),
				micros(scale.Percentile(r.Times, 0.99)), micros(scale.Percentile(r.Small, 0.99)),
				r.Sent, 100*float64(r.Again)/float64(r.Sent), 100*float64(r.Dropped)/float64(r.Sent),
				r.Pauses, r.Wall.Round(100*time.Millisecond))
		}
	}
	return nil
}

func micros(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
