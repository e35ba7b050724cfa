package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/bench/apps/mesh"
	"github.com/goroce/goroce/bench/apps/reduce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// AllReduce is a run of package reduce on a tree.
type AllReduce struct {
	Hosts      int
	Bytes      int // of the vector
	Calls      int // that are measured, after one that is not
	Rate       int64
	Cable      time.Duration // the delay of each cable
	QueueBytes int           // of each port
	RED        sim.RED       // marks by ports; zero: none
	Congestion cc.Config
	Scattered  bool // ranks are placed at random; otherwise neighbours of the ring are neighbours in the tree
	Seed       uint64
}

// Result is what a run took.
type Result struct {
	Calls []time.Duration // of each call, from its begin to the end of the slowest rank
	// Ideal is what no call can be faster than: the larger of the time that 2(n-1)/n of the vector
	// takes at the rate of the cable, headers included, and of the way of one piece over 2(n-1)
	// neighbours, each of which has to have all of it before it goes on.
	Ideal   time.Duration
	Spread  time.Duration // between the end of the first rank and that of the last, the largest of all calls
	Packets uint64        // that hosts sent, in the whole run
	Dropped uint64        // in queues of switches, the last one before the host included
	Marked  uint64
	Wall    time.Duration // of the simulation
}

// Median is the middle one of the calls.
func (r *Result) Median() time.Duration {
	c := slices.Sorted(slices.Values(r.Calls))
	return c[len(c)/2]
}

// headers is what a packet of a WRITE has on the cable beside its payload.
const headers = 82

// ideal is Result.Ideal for a mean number of cables between neighbours.
func (a AllReduce) ideal(cables float64) time.Duration {
	const mtu = 4096
	steps := 2 * float64(a.Hosts-1)
	wire := func(bytes float64) float64 { // ns
		return bytes * (mtu + headers) / mtu * 8e9 / float64(a.Rate)
	}
	part := a.Bytes / a.Hosts
	piece := float64(min(part, 4*reduce.PieceOf(part/4)))
	first := min(piece, mtu)
	way := cables*(float64(a.Cable)+wire(first)) + wire(piece-first)
	return time.Duration(max(wire(float64(a.Bytes))/float64(a.Hosts)*steps, steps*way))
}

// Run runs it, with a rank on every host, and checks every sum.
func (a AllReduce) Run() (*Result, error) {
	r := &Result{}
	begin := time.Now()
	var err error
	pipe := cable(a.Rate, a.Cable, a.QueueBytes, a.RED)
	sim.Run(network(a.Seed, pipe), func(fabric *sim.Fabric) { err = a.run(fabric, pipe, r) })
	r.Wall = time.Since(begin)
	return r, err
}

func (a AllReduce) run(fabric *sim.Fabric, pipe sim.Pipe, r *Result) (err error) {
	tree := NewTree(fabric, a.Hosts, pipe, a.Seed)
	places := make([]int, a.Hosts)
	for i := range places {
		places[i] = i
	}
	if a.Scattered {
		places = rand.New(rand.NewPCG(a.Seed, 2)).Perm(a.Hosts)
	}
	links := make([]*sim.Link, a.Hosts)
	devices := make([]*verbs.Device, a.Hosts)
	cables := 0
	addrs := make([]string, a.Hosts)
	for rank, host := range places {
		next := places[(rank+1)%a.Hosts]
		tree.Connect(host, next)
		cables += tree.Cables(host, next)
		if links[rank], err = fabric.Link(Addr(host)); err != nil {
			return err
		}
		conf := a.Congestion
		conf.LineRate = cc.Rate(a.Rate) / 8
		devices[rank], err = verbs.Open(
			verbs.Config{Link: links[rank], Rand: fabric.Rand(), Tuning: transport.Tuning{Congestion: conf}})
		if err != nil {
			return err
		}
		addrs[rank] = netip.AddrPortFrom(Addr(host), 7471).String()
	}
	r.Ideal = a.ideal(float64(cables) / float64(a.Hosts))
	w := &watch{ends: make([]time.Time, a.Calls+1), begins: make([]time.Time, a.Calls+1),
		first: make([]time.Time, a.Calls+1)}
	errs := make([]error, a.Hosts)
	var all sync.WaitGroup
	for rank := range a.Hosts {
		all.Go(func() {
			if errs[rank] = a.member(devices[rank], addrs, rank, w); errs[rank] != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, errs[rank])
			}
		})
	}
	all.Wait()
	for call := 1; call <= a.Calls; call++ {
		r.Calls = append(r.Calls, w.ends[call].Sub(w.begins[call]))
		r.Spread = max(r.Spread, w.ends[call].Sub(w.first[call]))
	}
	st := fabric.Stats()
	r.Packets, r.Dropped, r.Marked = st.Sent, st.Overflowed, st.Marked
	for _, d := range devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// watch notes when calls begin and end. Goroutines of a simulation run one at a time.
type watch struct {
	mu                  sync.Mutex
	begins, first, ends []time.Time // by call
}

func (w *watch) begin(call int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begins[call].IsZero() {
		w.begins[call] = time.Now()
	}
}

func (w *watch) end(call int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[call] = time.Now()
	if w.first[call].IsZero() {
		w.first[call] = w.ends[call]
	}
}

func (a AllReduce) member(d *verbs.Device, addrs []string, rank int, w *watch) error {
	ctx := context.Background()
	m, err := reduce.Join(ctx, mesh.RoCE{Device: d}, addrs, rank, a.Bytes/4, reduce.Ring)
	if err != nil {
		return err
	}
	sum := float32(a.Hosts * (a.Hosts + 1) / 2)
	for call := range a.Calls + 1 {
		for i := range m.Vector {
			m.Vector[i] = float32((rank + 1) * (1 + (i+call)%4))
		}
		w.begin(call)
		if err := m.Sum(ctx, reduce.Ring); err != nil {
			return err
		}
		w.end(call)
		for i, got := range m.Vector {
			if want := sum * float32(1+(i+call)%4); got != want {
				return errors.Join(
					fmt.Errorf("call %d: element %d is %v, the serial sum %v", call, i, got, want), m.Close())
			}
		}
	}
	return m.Leave(ctx)
}
