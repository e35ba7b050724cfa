package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/apps/scale"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport/cc"
)

func scaleMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	a := scale.AllReduce{Rate: 40e9, Cable: time.Microsecond}
	hosts := f.String("hosts", "16,64,256", "hosts, with commas; 1024 take minutes")
	f.IntVar(&a.Bytes, "bytes", 4<<20, "size of the vector")
	f.IntVar(&a.Calls, "calls", 3, "calls that count")
	f.IntVar(&a.QueueBytes, "queue", 1<<20, "bytes that a port of a switch has room for")
	f.BoolVar(&a.Scattered, "scattered", true, "place ranks at random, so that flows meet")
	f.Uint64Var(&a.Seed, "seed", 1, "of everything")
	controls := f.String("cc", "none,dcqcn-paper,delay", "congestion controls; with dcqcn switches mark")
	if err := f.Parse(args); err != nil {
		return err
	}
	fmt.Printf("All-reduce of %d bytes, a ring in a fat tree, 40 Gb/s and 1 us a cable, queues of %d bytes, seed %d; the median of %d calls, in virtual time.\n\n",
		a.Bytes, a.QueueBytes, a.Seed, a.Calls)
	fmt.Println("| hosts | control | a call | of the ideal | slowest - fastest rank | packets | dropped | marked | simulated in | us a packet |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for h := range strings.SplitSeq(*hosts, ",") {
		var err error
		if a.Hosts, err = strconv.Atoi(h); err != nil {
			return err
		}
		for name := range strings.SplitSeq(*controls, ",") {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if a.Congestion.Algorithm, err = cc.ParseAlgorithm(name); err != nil {
				return err
			}
			a.RED = sim.RED{}
			if strings.HasPrefix(name, "dcqcn") {
				a.RED = sim.RED{KminBytes: 5e3, KmaxBytes: 200e3, Pmax: 0.01} // the DCQCN paper's
			}
			r, err := a.Run()
			if err != nil {
				return err
			}
			fmt.Printf("| %d | %s | %v | %.2f | %v | %d | %d | %d | %v | %.1f |\n", a.Hosts, name,
				r.Median().Round(time.Microsecond), float64(r.Ideal)/float64(r.Median()),
				r.Spread.Round(time.Microsecond), r.Packets, r.Dropped, r.Marked,
				r.Wall.Round(100*time.Millisecond), float64(r.Wall.Microseconds())/float64(r.Packets))
		}
	}
	return nil
}
