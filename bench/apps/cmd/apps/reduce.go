package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/apps/mesh"
	"github.com/goroce/goroce/bench/apps/reduce"
)

// network returns the one of a name.
func network(name string) (mesh.Network, error) {
	switch name {
	case "roce":
		return mesh.RoCE{}, nil
	case "tcp":
		return mesh.TCP{}, nil
	}
	return nil, fmt.Errorf("no network %q; there are roce and tcp", name)
}

func reduceMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("reduce", flag.ContinueOnError)
	members := f.Int("members", 4, "processes")
	topology := f.String("topology", "ring", "ring, star or mesh")
	sizes := f.String("bytes", "4096,65536,1048576,16777216", "sizes of the vector, in bytes")
	seconds := f.Float64("seconds", 1, "how long to measure each cell")
	rounds := f.Int("rounds", 3, "how often, the networks in turn; the median counts")
	kill := f.Bool("kill", false, "kill the last member in the middle, and tell when the others have an error")
	rank := f.Int("rank", -1, "be this member (of -addrs)")
	addrs := f.String("addrs", "", "the members' addresses, by rank, with commas")
	netName := f.String("net", "roce", "roce or tcp, of a member")
	calls := f.Int("calls", 0, "calls that are measured, of a member; 0 is until there is an error")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *rank >= 0 {
		bytes, err := strconv.Atoi(*sizes)
		if err != nil {
			return err
		}
		return reduceMember(ctx, *netName, strings.Split(*addrs, ","), *rank, *topology, bytes, *calls)
	}
	if *kill {
		return reduceKill(ctx, *members, *topology)
	}
	fmt.Printf("All-reduce of float32, %s of %d processes on one machine, median of %d rounds of %g s.\n\n",
		*topology, *members, *rounds, *seconds)
	return besideTCP(ctx, *sizes, *rounds, *seconds, func(net string, bytes, calls int) ([]*child, error) {
		return reduceStart(ctx, net, *members, *topology, bytes, calls)
	})
}

// starter starts the processes of a group, of which one prints p50, p99 and the mean of a call, in
// microseconds.
type starter func(net string, bytes, calls int) ([]*child, error)

// besideTCP prints a table of groups over RoCE and over TCP in turn, by size.
func besideTCP(ctx context.Context, sizes string, rounds int, seconds float64, start starter) error {
	fmt.Println("| bytes | RoCE p50 us | TCP p50 us | TCP/RoCE | RoCE p99 us | TCP p99 us | RoCE CPU us | TCP CPU us |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for size := range strings.SplitSeq(sizes, ",") {
		bytes, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		networks := []string{"roce", "tcp"}
		var cells [2]groupCell
		for i, name := range networks {
			warm := groupCell{calls: 20} // finds how many calls take the time
			if err := warm.measure(name, bytes, start); err != nil {
				return err
			}
			cells[i].calls = max(20, int(seconds*1e6/warm.p50[0]))
		}
		for range rounds {
			for i, name := range networks {
				if err := cells[i].measure(name, bytes, start); err != nil {
					return err
				}
			}
		}
		r, t := &cells[0], &cells[1]
		fmt.Printf("| %d | %.0f | %.0f | %.2f | %.0f | %.0f | %.0f | %.0f |\n", bytes, median(r.p50), median(t.p50),
			median(t.p50)/median(r.p50), median(r.p99), median(t.p99), median(r.cpu), median(t.cpu))
	}
	return ctx.Err()
}

// groupCell is what was measured of one network and size, in microseconds, a round each.
type groupCell struct {
	calls               int
	p50, p99, mean, cpu []float64
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// measure runs a group once.
func (c *groupCell) measure(net string, bytes int, start starter) error {
	children, err := start(net, bytes, c.calls)
	if err != nil {
		return err
	}
	out, cpu, err := waitAll(children)
	if err != nil {
		return err
	}
	var p50, p99, mean float64
	if _, err := fmt.Sscanf(out, quantiles, &p50, &p99, &mean); err != nil {
		return fmt.Errorf("%w in %q", err, out)
	}
	c.p50, c.p99, c.mean, c.cpu = append(c.p50, p50), append(c.p99, p99), append(c.mean, mean),
		append(c.cpu, float64(cpu.Microseconds())/float64(c.calls))
	return nil
}

func reduceStart(ctx context.Context, net string, members int, topology string, bytes, calls int) ([]*child, error) {
	return startGroup(ctx, members, "reduce", "-net", net, "-topology", topology, "-bytes", fmt.Sprint(bytes),
		"-calls", fmt.Sprint(calls))
}

// startGroup starts a process a member, each with args, its rank and the addresses of all.
func startGroup(ctx context.Context, members int, args ...string) ([]*child, error) {
	addrs, err := freePorts(members)
	if err != nil {
		return nil, err
	}
	var children []*child
	for rank := range members {
		c, err := start(ctx,
			append(slices.Clone(args), "-rank", fmt.Sprint(rank), "-addrs", strings.Join(addrs, ","))...)
		if err != nil {
			return nil, err
		}
		children = append(children, c)
	}
	return children, nil
}

// quantiles is what a member says, in microseconds.
const quantiles = "a call takes %f us, 1 of 100 more than %f us, on average %f us\n"

// sayQuantiles returns it.
func sayQuantiles(took []time.Duration) string {
	slices.Sort(took)
	sum := time.Duration(0)
	for _, d := range took {
		sum += d
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	return fmt.Sprintf(quantiles, us(took[len(took)/2]), us(took[len(took)*99/100]), us(sum/time.Duration(len(took))))
}

// reduceMember is one process of a group. Rank 0 prints p50 and p99 of a call, in microseconds.
// Every call is checked against the serial sum.
func reduceMember(ctx context.Context, net string, addrs []string, rank int, topology string, bytes, calls int) error {
	nw, err := network(net)
	if err != nil {
		return err
	}
	topo, err := reduce.ParseTopology(topology)
	if err != nil {
		return err
	}
	joining, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m, err := reduce.Join(joining, nw, addrs, rank, bytes/4)
	if err != nil {
		return err
	}
	defer m.Close()
	n := len(addrs)
	sum := float32(n * (n + 1) / 2)
	var took []time.Duration
	for call := 0; calls == 0 || call < calls+5; call++ {
		for i := range m.Vector {
			m.Vector[i] = float32(rank+1) * float32(i%128+call%128)
		}
		begin := time.Now()
		if err := m.Sum(ctx, topo); err != nil {
			return err
		}
		if calls > 0 && call >= 5 { // the first ones grow what has to grow
			took = append(took, time.Since(begin))
		}
		for i, got := range m.Vector {
			if want := sum * float32(i%128+call%128); got != want {
				return fmt.Errorf("call %d: element %d is %v, the serial sum %v", call, i, got, want)
			}
		}
	}
	if err := m.Leave(ctx); err != nil {
		return err
	}
	if rank == 0 {
		fmt.Print(sayQuantiles(took))
	}
	return nil
}

// reduceKill kills the last member and waits for the others.
func reduceKill(ctx context.Context, members int, topology string) error {
	return killLast(ctx, members, topology, "reduce: call", func(net string, bytes, calls int) ([]*child, error) {
		return reduceStart(ctx, net, members, topology, bytes, calls)
	})
}

// killLast starts a group over each network, kills its last member and waits for the errors of the
// others, which have to contain want.
func killLast(ctx context.Context, members int, what, want string, start starter) error {
	for _, net := range []string{"roce", "tcp"} {
		children, err := start(net, 1<<20, 0)
		if err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		last := children[members-1]
		begin := time.Now()
		if err := last.cmd.Process.Kill(); err != nil {
			return err
		}
		<-last.done
		for rank, c := range children[:members-1] {
			out, err := c.wait()
			if err == nil {
				return fmt.Errorf("%s: rank %d ended without an error: %s", net, rank, out)
			}
			if !strings.Contains(out, want) {
				return errors.Join(fmt.Errorf("%s: rank %d had another error", net, rank), err)
			}
			fmt.Printf("%s, %s: rank %d had its error %v after the kill of rank %d\n", net, what, rank,
				time.Since(begin).Round(time.Millisecond), members-1)
		}
	}
	return nil
}
