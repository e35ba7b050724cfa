package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/bench/apps/scale"
	"github.com/goroce/goroce/transport/cc"
)

func logsMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("logs", flag.ContinueOnError)
	l := scale.Log{Rate: 40e9, Cable: time.Microsecond}
	hosts := f.String("hosts", "16,64,256,1024", "hosts, with commas; 1024 take minutes")
	members := f.String("members", "3,5", "servers of a group, with commas")
	f.IntVar(&l.Clients, "clients", 2, "clients of a group, at its leader")
	f.IntVar(&l.Bytes, "bytes", 128, "size of an entry")
	f.DurationVar(&l.For, "for", time.Millisecond, "how long clients begin, in virtual time")
	f.IntVar(&l.QueueBytes, "queue", 1<<20, "bytes that a port of a switch has room for")
	f.Uint64Var(&l.Seed, "seed", 1, "of the places and of the cross traffic")
	cross := f.String("cross", "0,0.3", "loads of the cross traffic, with commas")
	control := f.String("cc", "none", "congestion control: none or delay")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if l.Congestion.Algorithm, err = cc.ParseAlgorithm(*control); err != nil {
		return err
	}
	fmt.Printf("Groups of servers at random hosts of a fat tree, %d clients each at the leader, entries of %d bytes for %v; 40 Gb/s and 1 us a cable, queues of %d bytes, control %s, seed %d; in virtual time.\n\n",
		l.Clients, l.Bytes, l.For, l.QueueBytes, *control, l.Seed)
	fmt.Println("| hosts | groups | of | load of the cross traffic | commits/s | ideal | p50 | p99.9 | p50 of its ideal | p99.9 of its ideal | fairness | packets | dropped | simulated in | CPU us a packet |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for h := range strings.SplitSeq(*hosts, ",") {
		if l.Hosts, err = strconv.Atoi(h); err != nil {
			return err
		}
		for m := range strings.SplitSeq(*members, ",") {
			if l.Members, err = strconv.Atoi(m); err != nil {
				return err
			}
			for c := range strings.SplitSeq(*cross, ",") {
				if l.Cross, err = strconv.ParseFloat(c, 64); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				before := ownCPU()
				r, err := l.Run()
				if err != nil {
					return err
				}
				cpu := ownCPU() - before
				fmt.Printf("| %d | %d | %d | %g | %.0f | %.1fµs | %.1fµs | %.1fµs | %.2f | %.2f | %.3f | %d | %d | %v | %.1f |\n",
					l.Hosts, r.Groups, l.Members, l.Cross, float64(len(r.Commits))/l.For.Seconds(),
					float64(r.Ideal)/1e3, float64(scale.Percentile(r.Commits, 0.5))/1e3,
					float64(scale.Percentile(r.Commits, 0.999))/1e3, scale.Percentile(r.Slowdowns, 0.5),
					scale.Percentile(r.Slowdowns, 0.999), r.Jain, r.Packets, r.Dropped,
					r.Wall.Round(100*time.Millisecond), float64(cpu.Microseconds())/float64(r.Packets))
			}
		}
	}
	return nil
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
