package sim_test

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

var tableFlag = flag.String("threads.table", "", "write the table of the scheduler to this file")

// cell is a machine with a client and a server on it.
type cell struct {
	wakeup, syscall time.Duration
	cpus            int
	neighbours      int // CPUs with one
	quota           time.Duration
	conns           int
	long            time.Duration // how long it is measured
}

// figures are what is measured.
type figures struct {
	requests   int
	p50, p99   time.Duration
	mean, cpu  time.Duration // a request; of both ends
	transcript string
}

// The packet of a request takes 1 us at each end, beyond the system call; the wake-up counts as CPU
// time for the most part, as on virtual machines; the program takes nothing.
func (c cell) machine() sim.MachineConfig {
	return sim.MachineConfig{CPUs: c.cpus, Costs: sim.Costs{
		Syscall: c.syscall, Packet: time.Microsecond, Wakeup: c.wakeup, WakeShare: 0.8, WakeCall: c.syscall +
			time.Microsecond,
	}}
}

// measure runs clients for a time, after a while in which the shell learns. ask makes a client,
// which makes one request at each call.
func (c cell) measure(t *testing.T, begin func(ctx context.Context, t *testing.T, net *sim.Fabric,
	client, server *sim.Process) (ask func() (func() error, error), end func())) (f figures) {
	t.Helper()
	sim.OnThreads(t, sim.Config{Seed: 1}, func(t *testing.T, net *sim.Fabric) {
		m := net.Machine(c.machine())
		for i := range c.neighbours {
			m.Neighbour(m.CPUs()-1-i, 1)
		}
		procs := [2]*sim.Process{m.Process(sim.ProcessConfig{Quota: c.quota}),
			m.Process(sim.ProcessConfig{Quota: c.quota})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ask, end := begin(ctx, t, net, procs[0], procs[1])
		cpu := func() time.Duration { return procs[0].CPUTime() + procs[1].CPUTime() }
		learn := int64(c.long / 4)
		if c.quota > 0 {
			learn = int64(100 * time.Millisecond)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		var took []time.Duration
		for range c.conns {
			all.Add(1)
			procs[0].Go(func() {
				defer all.Done()
				request, err := ask()
				if err != nil {
					t.Error(err)
					return
				}
				for net.Now() < learn+int64(c.long) {
					start := net.Now()
					if err := request(); err != nil {
						t.Error(err)
						return
					}
					if start >= learn {
						mu.Lock()
						took = append(took, time.Duration(net.Now()-start))
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(time.Duration(learn))
		before := cpu()
		time.Sleep(c.long)
		used := cpu() - before
		all.Wait()
		end()
		n := len(took)
		if n == 0 {
			t.Error("no request")
			return
		}
		slices.Sort(took)
		f = figures{
			requests: n, p50: took[n/2], p99: took[n*99/100], mean: c.long * time.Duration(c.conns) / time.Duration(n),
			cpu: used / time.Duration(n), transcript: net.Transcript(),
		}
	})
	return f
}

// roceConns asks a server of package roce.
func (c cell) roceConns(ctx context.Context, t *testing.T, net *sim.Fabric,
	client, server *sim.Process) (func() (func() error, error), func()) {
	addr := netip.MustParseAddrPort("192.0.2.1:7000")
	ds, dc := hostedDevice(t, net, server, "192.0.2.1"), hostedDevice(t, net, client, "192.0.2.2")
	sctx, stop := context.WithCancel(ctx)
	wait := serveEchoes(sctx, t, server, ds, addr, 0)
	var conns []*roce.Conn
	return func() (func() error, error) {
			d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: dc}}
			conn, err := d.DialAddr(ctx, addr)
			if err != nil {
				return nil, err
			}
			conns = append(conns, conn)
			b := make([]byte, 128)
			return func() error {
				if err := conn.Send(ctx, b); err != nil {
					return err
				}
				_, err := conn.Recv(ctx, b)
				return err
			}, nil
		}, func() {
			for _, conn := range conns {
				_ = conn.Close()
			}
			stop()
			wait()
		}
}

// tcpEnd is the model of one end of a connection of TCP in Go: a write and a read are system calls,
// and the write brings the segment to the other end. A read that finds nothing waits: the poller of
// the runtime, a thread that sleeps in epoll_wait, is woken, and the goroutine runs there.
type tcpEnd struct {
	p    *sim.Process
	net  *sim.Fabric
	cost sim.Costs
	peer *tcpEnd
	came chan struct{}
}

func (e *tcpEnd) write() {
	e.p.Call(e.cost.Syscall + 2*e.cost.Packet)
	e.net.At(e.net.Now()+int64(2*time.Microsecond), func() { e.peer.came <- struct{}{} })
}

func (e *tcpEnd) read(ctx context.Context) error {
	e.p.Call(e.cost.Syscall)
	select {
	case <-e.came:
		return nil
	default:
	}
	select {
	case <-e.came:
	case <-ctx.Done():
		e.p.Resumed()
		return ctx.Err()
	}
	e.p.Resumed()
	e.p.Call(2 * e.cost.Syscall) // epoll_wait returns, and the read
	return nil
}

// tcpConns asks a server of TCP.
func (c cell) tcpConns(ctx context.Context, t *testing.T, net *sim.Fabric,
	client, server *sim.Process) (func() (func() error, error), func()) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	return func() (func() error, error) {
		a := &tcpEnd{p: client, net: net, cost: c.machine().Costs, came: make(chan struct{}, 1)}
		b := &tcpEnd{p: server, net: net, cost: c.machine().Costs, came: make(chan struct{}, 1), peer: a}
		a.peer = b
		all.Add(1)
		server.Go(func() {
			defer all.Done()
			for b.read(ctx) == nil {
				b.write()
			}
		})
		return func() error { a.write(); return a.read(ctx) }, nil
	}, func() { stop(); all.Wait() }
}

// The model repeats, and says what is known: where CPUs are free who looks is faster than who is
// woken, and by more the more a wake-up takes.
func TestThreadsTable(t *testing.T) {
	if *tableFlag != "" {
		was, _ := os.ReadFile(*tableFlag)
		_, byHand, _ := strings.Cut(string(was), tableByHand)
		require.NoError(t, os.WriteFile(*tableFlag, []byte(table(t)+tableByHand+byHand), 0o644))
		return
	}
	c := cell{wakeup: 10 * time.Microsecond, syscall: 500 * time.Nanosecond, cpus: 2, conns: 1,
		long: 2 * time.Millisecond}
	a, b := c.measure(t, c.roceConns), c.measure(t, c.roceConns)
	require.Equal(t, a, b)
	tcp := c.measure(t, c.tcpConns)
	require.Less(t, a.p50, tcp.p50)
	require.Greater(t, tcp.p50, 2*c.wakeup)
}

func us(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e3) }

func (c cell) String() string {
	n := []string{"none", "on one", "on each"}[min(c.neighbours, 1)]
	if c.neighbours == c.cpus {
		n = "on each"
	}
	q := "none"
	if c.quota > 0 {
		q = fmt.Sprintf("%.1f CPU", float64(c.quota)/1e8)
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %s | %d |", us(c.wakeup), us(c.syscall), c.cpus, n, q, c.conns)
}

// table measures all cells.
func table(t *testing.T) string {
	var out strings.Builder
	out.WriteString(tableHead)
	row := func(c cell) {
		c.long = 10 * time.Millisecond
		if c.neighbours > 0 {
			c.long = 100 * time.Millisecond // as long as it takes to learn when not to yield
		}
		if c.quota > 0 {
			c.long = 100 * time.Millisecond
		}
		r, tcp := c.measure(t, c.roceConns), c.measure(t, c.tcpConns)
		if r.requests == 0 || tcp.requests == 0 {
			return
		}
		fmt.Fprintf(&out, "%v %.2f | %.2f | %s | %s | %s | %s | %s | %s | %s | %s |\n", c,
			float64(tcp.mean)/float64(r.mean), float64(r.cpu)/float64(tcp.cpu),
			us(r.mean), us(r.p50), us(r.p99), us(r.cpu), us(tcp.mean), us(tcp.p50), us(tcp.p99), us(tcp.cpu))
		t.Log(c)
	}
	out.WriteString(tableColumns)
	const us = time.Microsecond
	for _, cpus := range []int{1, 2} {
		for neighbours := range cpus + 1 {
			c := cell{cpus: cpus, neighbours: neighbours, conns: 1}
			for _, c.wakeup = range []time.Duration{2 * us, 10 * us, 50 * us} {
				for _, c.syscall = range []time.Duration{300, 3 * us} {
					row(c)
				}
			}
			c.wakeup, c.syscall, c.quota = 10*us, 300, 20*time.Millisecond
			row(c)
			c.quota, c.conns = 0, 16
			row(c)
		}
	}
	out.WriteString(tableReal)
	for _, c := range realCells {
		row(c)
	}
	return out.String()
}

// realCells have the costs of the machine that docs/bench/contended was measured on.
var realCells = []cell{
	{wakeup: 25 * time.Microsecond, syscall: 600, cpus: 2, conns: 1},
	{wakeup: 25 * time.Microsecond, syscall: 600, cpus: 1, conns: 1},
	{wakeup: 25 * time.Microsecond, syscall: 600, cpus: 2, neighbours: 1, conns: 1},
	{wakeup: 25 * time.Microsecond, syscall: 600, cpus: 2, neighbours: 2, conns: 1},
	{wakeup: 25 * time.Microsecond, syscall: 600, cpus: 2, conns: 16},
}

// tableByHand begins what is written by hand, which stays.
const tableByHand = `
## What each rule is for
`

const tableColumns = `
| wake-up | system call | CPUs | neighbour | quota | connections | requests x TCP | CPU x TCP | mean | p50 | p99 | CPU | TCP: mean | p50 | p99 | CPU |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

const tableHead = `# The scheduler in virtual time

Made by "go test ./roce/link/sim -run TestThreadsTable -threads.table FILE"; don't edit, but for what each rule is for. Where nothing else
is said, none of it is measured on a real machine.

Requests and responses of 128 B between two processes on one machine, by roce.Conn and by a model of Go's TCP (a write, a read, one
wake-up, an epoll_wait). The shell of the devices is the real one; CPUs, threads and costs are modelled (roce/link/sim, OnThreads): a
packet takes 1 us beyond its system call, and four fifths of a wake-up count as CPU time. A quota is
for each process, in periods of 100 ms; a neighbour computes all the time. Times are microseconds a request, CPU is that of both ends.
`
const tableReal = `
## Beside the real machine

The costs here are those of the machine of docs/bench/contended. The model is near it for one connection on free CPUs and on one CPU.
It is wrong about TCP beside a neighbour on one of two CPUs: there the machine keeps both ends on the free CPU, and TCP takes 8.5 us.
So it also hides the gain of sharing that CPU (tryout): 8 % at most here, 30 to 60 % on the machine. It has no GSO or GRO, so sixteen
connections are slower here. Compare rules by this table, not goroce with TCP.
` + tableColumns
