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
		require.NoError(t, os.WriteFile(*tableFlag, []byte(table(t)), 0o644))
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
	out.WriteString(tableWithout)
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

const tableColumns = `
| wake-up | system call | CPUs | neighbour | quota | connections | requests x TCP | CPU x TCP | mean | p50 | p99 | CPU | TCP: mean | p50 | p99 | CPU |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

const tableHead = `# The scheduler in virtual time

Made by "go test ./roce/link/sim -run TestThreadsTable -threads.table FILE"; don't edit. None of it is measured on a real machine.

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

// tableWithout was made of tables of programs without a rule, beside that of the same program with
// it.
const tableWithout = `
## What each rule is for

The same table with one rule of the shell switched off: how many of its 45 rows get worse, and better, by more than 10 % in time or CPU
time a request, and the worst. Made by hand at 9cba577, with a program in which a rule could be switched off. Rules of streams, of programs
that compute and of programs in other languages do nothing in the model, and sharing a datagram has no effect there. So the last column is
of a real machine with two CPUs, by turns, everything else stopped: medians of 3 for Go (bench -items contended, 128 B, 300 ms), and each
run for programs in C (64 B). A rule without a row that it makes 10 % better is to go, so this says why the others stay.

| without | worse | better | the worst row | on a machine |
|---|---|---|---|---|
| lending the seat to a goroutine that waits (lease) | 23 | 0 | 1.46 times the time: neighbours, a quota of 0.2 | |
| the same for the only one that waits, on several connections in turn (lease.alone) | 2 | 2 | 1.15 times: a neighbour | 16 connections, neighbours: 0.87 of the requests |
| an ACK that waits for an answer (delayedAck) | 14 | 9 | 1.44 times: two CPUs, neighbours | |
| not giving way to a thread that computes (staleNs) | 8 | 1 | 130 times: one CPU, a neighbour | for 50 ms each time, as before: a neighbour on one of two CPUs 0.8 of the requests |
| looking for longer where packets come soon (pace.most) | 5 | 10 | 7.3 times: two CPUs, a wake-up of 50 us | CPUs free: 0.69 of the requests, 0.58 with 16 connections |
| acknowledging several batches at once (gather) | 2 | 5 | 1.25 times: two CPUs, 16 connections | a neighbour on one CPU: 0.68 |
| sharing a CPU where that is better (tryout) | 0 | 0 | | a neighbour on one CPU: 0.26, a stream 0.59 |
| sharing a CPU that others want (demand) | 2 | 3 | 1.63 times the CPU time: a neighbour on one of two CPUs, 16 connections | eight pairs of processes: 0.45 of the requests, four: 0.7; one CPU: 0.9 |
| answers of a crowd that wait for each other | 0 | 4 | | 16 connections: 0.52 (one CPU) to 0.64 (CPUs free) |
| the same, and messages behind others (coalescer) | 0 | 4 | | 16 connections: 0.49 to 0.66; a stream 0.8 |
| leaving goroutines that compute alone (computing) | 0 | 0 | | a server that computes: 24 requests/s in place of 2,538 |
| looking on for the request behind an acknowledgement (linger) | 0 | 0 | | ib_write_lat 19, 24, 31 us in place of 13, 13, 15 |
| posting counts as being at work (activity) | 0 | 0 | | ib_write_lat beside a busy loop: 52 and 150 us in place of 21 |
| polling again for longer after a miss (attention.proof) | 0 | 0 | | ib_write_lat beside two: 70 and 395 us in place of 42 and 52 |
| no relief for a thread that lacks a CPU (putOff) | 0 | 0 | | ucx_perftest beside four: 1,600 us in place of 172, when it was made |
| standby | 0 | 0 | | none: it bounds how long a packet waits that a program in C does not take |
| ACKs waiting less often for no answer | 0 | 0 | | ib_send_bw -e -s 64: 0.06 M/s in place of 0.56 |
| a longer lease after mistakes | 0 | 0 | | none (128 B and streams of 4 and 16 connections, ib_send_bw, ib_read_bw, sockets of C): it bounds what a program loses that works on each message |
| no lease while messages are posted behind others (lease.posted) | 0 | 0 | | Ceph, 16 requests at a time: a sixth fewer, when it was made; streams, 128 B, ib_send_bw and ib_read_bw as before |

What is gone, since no row was worse by 10 %:

| rule | what its absence did |
|---|---|
| messages of a program in C that wait in the shard, and a goroutine that sends them (hold) | ib_send_bw, ib_write_bw, ib_atomic_bw, UD: 0.99 to 1.12 times the rate; the ring of the queue pair does this |
| threads that get less than a twelfth of a CPU leave receiving and sending to the goroutine (starved) | ib_send_lat beside 12 busy loops: 0.4 and 4.3 ms, and with it 0.4 and 4.5; beside 30, and others' work, 300 messages were done in 18 s, and with it not in 25; by itself neither was done in 12 |
| letting others run whatever it costs after a packet woke a goroutine | a server that computes: READ 15,401 requests/s in place of 11,022 |
| looking for longer on a slow machine | emulated guests needed it: send_lat -e 2171 us in place of 810; looks are counted in turns since |
| looking less after others took much of the time; learning whether giving way is worth it; fewer looks for a program in C after some that found nothing | nothing |

What was tried and is not in:

| rule | what it did |
|---|---|
| in place of tryout, yields and staleNs: sleep at once while more threads want a CPU than there are, by /proc/loadavg, which takes 0.8 us (or, where a process may not run on all CPUs, by whether a yield lets another thread run) | asked at each look, in the table above: a neighbour on one of two CPUs 0.43 to 0.89, 0.95 to 2.16 of TCP, on each 0.57 to 0.86; two CPUs with 16 connections 0.76 to 0.50. On a machine CPUs free: 0.6 of the requests before |
| the same, asked after 20 looks, and only if two answers in succession agree | a neighbour: GETs of four clients 0.58 to 1.01 of TCP, of one 0.49 to 0.54; 128 B, a ring of four, a parameter server as before. CPUs free: 0.8 of the requests, with 1 and 16 connections |
| four or six answers, and goroutines let run only if some are ready, so that the runtime wakes no thread that counts | a neighbour: GETs of four clients 0.56 to 1.09, of one 0.43 to 0.53. CPUs free: 0.6 to 0.8 |
| yields that may lose a twentieth of the time, and 50 ms beyond that | a neighbour on one of two CPUs 0.85 of the requests, on the only CPU 0.86; a twelfth: 0.97 and 0.92 |
| a yield each 0.1, 0.25 or 0.5 ms by a receiver that keeps its CPU, so that no thread waits for a time slice | CPUs free, p99.9 of 4 connections 0.35 to 1 ms in place of 1.8 to 3, of 16 0.8 to 2.5 in place of 4; but requests of 4 0.7 to 0.95 of those before, of 16 0.6 to 0.9 |
| beside neighbours, goroutines let run only if some are ready | one connection 0.5 of the requests, 16 1.0 to 1.5 |
| sleeping at once always (Spin -1) | beside a neighbour: a ring of four 1,362 us in place of 1,603, GETs of one client 0.65 of TCP in place of 0.58, of four 0.95 in place of 0.74, 128 B as before; CPUs free 0.5 of the requests |
`
