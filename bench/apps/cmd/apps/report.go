package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/bench/quota"
)

// conditions are what the processors do besides, by name; each returns what ends it.
var conditions = []string{"free", "neighbour", "quota"}

// limit makes a group of half a CPU for a process, if it is set.
var limit func(pid int) error

// impose makes a condition true until the function that it returns is called.
func impose(ctx context.Context, condition string) (end func(), err error) {
	switch condition {
	case "free":
		return func() {}, nil
	case "neighbour":
		c, in, out, err := startPiped(ctx, "spin")
		if err != nil {
			return nil, err
		}
		return func() { in.Close(); out.Close(); c.wait() }, nil
	case "quota":
		var groups []*quota.Group
		var n atomic.Int64
		limit = func(pid int) error {
			g, err := quota.New(fmt.Sprintf("apps-%d-%d", os.Getpid(), n.Add(1)), 0.5)
			if err != nil {
				return err
			}
			groups = append(groups, g)
			return os.WriteFile(filepath.Join(g.Dir(), "cgroup.procs"), fmt.Append(nil, pid), 0)
		}
		return func() {
			limit = nil
			for _, g := range groups {
				g.Close()
			}
		}, nil
	}
	return nil, fmt.Errorf("no condition %q; there are %v", condition, conditions)
}

// spinMain is a neighbour: it takes one CPU until its standard input ends.
func spinMain(context.Context, []string) error {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var one unix.CPUSet
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	for {
	}
}

// reportRow is an application with so many connections.
type reportRow struct {
	name, connections string
	measure           func(net string) (reportCell, error)
}

// reportCell is what an application does a second, how long half of these take at most, and the CPU
// time of all its processes for one; times are in microseconds.
type reportCell struct{ rate, p50, cpu float64 }

func reportMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	which := f.String("conditions", strings.Join(conditions, ","),
		"free: nothing else runs; neighbour: a process that computes has one CPU; quota: each process gets half a CPU, in slices of 100 ms")
	only := f.String("only", "", "rows whose name contains this")
	seconds := f.Float64("seconds", 0.5, "how long to measure each cell")
	rounds := f.Int("rounds", 3, "how often, goroce and TCP in turn; the median counts")
	if err := f.Parse(args); err != nil {
		return err
	}
	get := func(clients int) reportRow {
		return reportRow{"cache: GET of 64 bytes", fmt.Sprint(clients), func(net string) (reportCell, error) {
			r, err := cacheMeasure(ctx, map[string]string{"roce": "read", "tcp": "tcp"}[net], clients,
				1000, 64, *seconds)
			return reportCell{r.Rate, r.P50, r.All}, err
		}}
	}
	commit := func(clients int) reportRow {
		return reportRow{fmt.Sprintf("raft: commit, %d clients", clients), "2 of the leader",
			func(net string) (reportCell, error) {
				r, err := raftMeasure(ctx, net, 3, clients, 128, *seconds)
				return reportCell{r.Rate, r.P50, r.CPU}, err
			}}
	}
	group := func(name, connections string, bytes int, start starter) reportRow {
		calls := map[string]int{}
		return reportRow{fmt.Sprintf("%s of %d KiB", name,
			bytes>>10), connections, func(net string) (cell reportCell, err error) {
			if calls[net] == 0 {
				warm := groupCell{calls: 20}
				if err := warm.measure(net, bytes, start); err != nil {
					return cell, err
				}
				calls[net] = max(20, int(*seconds*1e6/warm.p50[0]))
			}
			c := groupCell{calls: calls[net]}
			if err := c.measure(net, bytes, start); err != nil {
				return cell, err
			}
			// Not from p50: a call that a quota stops takes ten times as long, so that half of them
			// say nothing about the rate.
			return reportCell{1e6 / c.mean[0], c.p50[0], c.cpu[0]}, nil
		}}
	}
	ring := func(members, bytes int) reportRow {
		return group(fmt.Sprintf("all-reduce, ring of %d,", members), fmt.Sprintf("%d between %d",
			members*(members-1)/2, members), bytes, func(net string, bytes, calls int) ([]*child, error) {
			return reduceStart(ctx, net, members, "ring", bytes, calls)
		})
	}
	params := group("parameter server, step", "3", 64<<10, func(net string, bytes, calls int) ([]*child, error) {
		return paramsStart(ctx, net, 1, 3, 0, bytes, calls)
	})
	blocks := func(what, op string, writers int) reportRow {
		return reportRow{fmt.Sprintf("block store: %s, %d at a time", what, writers), "2",
			func(net string) (reportCell, error) {
				r, err := storeMeasure(ctx, net, 256, writers, op, *seconds)
				return r.reportCell, err
			}}
	}
	rows := []reportRow{get(1), get(4), commit(1), commit(16), blocks("4 KiB read", "read", 1),
		blocks("4 KiB to two replicas", "write", 1), blocks("4 KiB to two replicas", "write", 4), ring(2, 4<<10),
		ring(2, 64<<10), ring(2, 1<<20), ring(2, 16<<20), ring(4, 64<<10), ring(4, 1<<20), params}
	fmt.Printf("Median of %d rounds of %g s.\n\n", *rounds, *seconds)
	fmt.Println("| application | connections | CPUs | goroce /s | TCP /s | goroce/TCP | goroce p50 us | TCP p50 us | goroce CPU us | TCP CPU us |\n|---|---|---|---|---|---|---|---|---|---|")
	for condition := range strings.SplitSeq(*which, ",") {
		end, err := impose(ctx, condition)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !strings.Contains(row.name, *only) {
				continue
			}
			rates, p50s, cpus := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
			for range *rounds {
				for _, net := range []string{"roce", "tcp"} {
					c, err := row.measure(net)
					if err != nil {
						end()
						return fmt.Errorf("%s over %s: %w", row.name, net, err)
					}
					rates[net], p50s[net], cpus[net] = append(rates[net], c.rate), append(p50s[net], c.p50),
						append(cpus[net], c.cpu)
				}
			}
			r, t := median(rates["roce"]), median(rates["tcp"])
			fmt.Printf("| %s | %s | %s | %.0f | %.0f | %.2f | %.0f | %.0f | %.0f | %.0f |\n", row.name,
				row.connections, condition, r, t, r/t, median(p50s["roce"]), median(p50s["tcp"]),
				median(cpus["roce"]), median(cpus["tcp"]))
		}
		end()
	}
	return ctx.Err()
}
