package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/apps/reduce"
)

func paramsMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("params", flag.ContinueOnError)
	var o reduce.Shared
	f.IntVar(&o.Servers, "servers", 1, "processes that keep the parameters")
	workers := f.Int("workers", 3, "processes that push gradients")
	f.IntVar(&o.Staleness, "staleness", 0, "how many steps a worker may be ahead of the slowest")
	sizes := f.String("bytes", "4096,65536,1048576,16777216", "sizes of the parameters, in bytes")
	seconds := f.Float64("seconds", 1, "how long to measure each cell")
	rounds := f.Int("rounds", 3, "how often, the networks in turn; the median counts")
	kill := f.Bool("kill", false, "kill the last worker in the middle, and tell when the others have an error")
	rank := f.Int("rank", -1, "be this member (of -addrs), of which the servers are the first")
	addrs := f.String("addrs", "", "the members' addresses, by rank, with commas")
	netName := f.String("net", "roce", "roce or tcp, of a member")
	calls := f.Int("calls", 0, "steps that are measured, of a member; 0 is until there is an error")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *rank >= 0 {
		bytes, err := strconv.Atoi(*sizes)
		if err != nil {
			return err
		}
		o.Length = bytes / 4
		return paramsMember(ctx, *netName, strings.Split(*addrs, ","), *rank, o, *calls)
	}
	members := o.Servers + *workers
	start := func(net string, bytes, calls int) ([]*child, error) {
		return paramsStart(ctx, net, o.Servers, *workers, o.Staleness, bytes, calls)
	}
	if *kill {
		return killLast(ctx, members, "params", "reduce: s", start) // of a step, or of a server
	}
	fmt.Printf("Parameters in float32, %d servers and %d workers with staleness %d, processes on one machine, a step, median of %d rounds of %g s.\n\n",
		o.Servers, *workers, o.Staleness, *rounds, *seconds)
	return besideTCP(ctx, *sizes, *rounds, *seconds, start)
}

func paramsStart(ctx context.Context, net string, servers, workers, staleness, bytes, calls int) ([]*child, error) {
	return startGroup(ctx, servers+workers, "params", "-net", net, "-servers", fmt.Sprint(servers),
		"-staleness", fmt.Sprint(staleness), "-bytes", fmt.Sprint(bytes), "-calls", fmt.Sprint(calls))
}

// paramsMember is one process of a group. The first worker prints p50 and p99 of a step, in
// microseconds. Each worker checks that its parameters are what staleness allows.
func paramsMember(ctx context.Context, net string, addrs []string, rank int, o reduce.Shared, calls int) error {
	nw, err := network(net)
	if err != nil {
		return err
	}
	joining, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if rank < o.Servers {
		s, err := reduce.JoinServer(joining, nw, addrs, rank, o)
		if err != nil {
			return err
		}
		return s.Serve(ctx, reduce.Add)
	}
	w, err := reduce.JoinWorker(joining, nw, addrs, rank, o)
	if err != nil {
		return err
	}
	defer w.Close()
	workers := len(addrs) - o.Servers
	for i := range w.Gradient {
		w.Gradient[i] = 1
	}
	var took []time.Duration
	for step := 1; calls == 0 || step <= calls+5; step++ {
		begin := time.Now()
		if err := w.Step(ctx); err != nil {
			return err
		}
		if calls > 0 && step > 5 { // the first ones grow what has to grow
			took = append(took, time.Since(begin))
		}
		// Every step of a worker adds one: ours are there, and those of others that have to be and
		// may be.
		low := step + (workers-1)*max(0, step-o.Staleness)
		high := step + (workers-1)*(step+o.Staleness)
		for i, got := range w.Params {
			if int(got) < low || int(got) > high {
				return fmt.Errorf("step %d: parameter %d is %v, not %d to %d", step, i, got, low, high)
			}
		}
	}
	if err := w.Leave(ctx); err != nil {
		return err
	}
	if rank == o.Servers {
		fmt.Print(sayQuantiles(took))
	}
	return nil
}
