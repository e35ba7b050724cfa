package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// The swarm of the shell: a seed draws machines, what things cost there, who else wants their CPUs,
// and programs. All has to come to an end. Nobody receives beside another one. No packet waits for
// longer than a bound while its process has a CPU, a processor of Go's runtime and quota to receive
// it with. Where nothing is contended no request takes long, and when all is done nobody looks.
func TestThreadsSwarm(t *testing.T) {
	var sum threadsSum
	n := seeds.Run(t, seeds.Fewer(8), func(t *testing.T, seed uint64) { threadsSwarm(t, seed, &sum) })
	if n > 1 {
		t.Logf("%d seeds: %d requests, %d that were given up; the longest wait %v, the longest request without contention %v",
			n, sum.requests, sum.impatient, sum.waited, sum.request)
	}
}

// threadsSum is what a swarm has done.
type threadsSum struct {
	requests, impatient int
	waited, request     time.Duration
}

// program is what the clients and the server of a run do.
type program uint8

const (
	asks    program = iota // requests and answers, of roce.Conn
	streams                // messages one way, of roce.Conn
	polls                  // requests and answers, of verbs.CQ.Poll; now and then the program goes away
	foreign                // the same of a program in another language, by CQ.Progress
	looks                  // requests and answers of such a program, by memory that the peer writes
	programs
)

func (p program) String() string {
	return [...]string{"asks", "streams", "polls", "foreign", "looks"}[p]
}

// threadsRun is one seed.
type threadsRun struct {
	rng     *rand.Rand
	net     *sim.Fabric
	program program
	m       sim.MachineConfig
	two     bool // a machine each
	ends    [2]sim.ProcessConfig
	busy    []float64 // shares that neighbours take of each CPU
	compute [2]int    // goroutines that compute
	conns   int
	count   int // requests or messages of each
	bytes   int
	work    time.Duration // for each request
	idle    float64       // how often a client pauses
	closes  int           // the end whose device is closed in the middle; -1: none
	closeAt time.Duration

	ps      [2]*sim.Process
	devices [2]*verbs.Device
	closed  atomic.Bool
	over    atomic.Bool // all has been done

	mu  sync.Mutex
	sum threadsSum
}

// logUniform draws between two durations.
func logUniform(rng *rand.Rand, from, to time.Duration) time.Duration {
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), rng.Float64()))
}

func drawThreads(seed uint64) *threadsRun {
	rng := rand.New(rand.NewPCG(seed, 0x7468726561647321))
	r := &threadsRun{rng: rng, program: program(rng.IntN(int(programs))), closes: -1}
	if rng.IntN(3) == 0 {
		r.program = asks
	}
	r.m = sim.MachineConfig{
		CPUs: 1 + rng.IntN(4),
		Costs: sim.Costs{
			Syscall: logUniform(rng, 300*time.Nanosecond, 3*time.Microsecond), Packet: logUniform(rng,
				200*time.Nanosecond, 2*time.Microsecond),
			Wakeup: logUniform(rng, 2*time.Microsecond, 50*time.Microsecond), WakeCall: logUniform(rng,
				300*time.Nanosecond, 5*time.Microsecond),
			Retake: logUniform(rng, 20*time.Microsecond, 10*time.Millisecond),
		},
		Slice: logUniform(rng, 700*time.Microsecond, 4*time.Millisecond), Preempt: logUniform(rng,
			100*time.Microsecond, 3*time.Millisecond),
	}
	r.two = rng.IntN(4) == 0
	for i := range r.ends {
		e := &r.ends[i]
		if rng.IntN(3) == 0 {
			e.Procs = 1 + rng.IntN(4)
		}
		if rng.IntN(4) == 0 {
			e.CPUs = []int{rng.IntN(r.m.CPUs)}
		}
		if rng.IntN(5) == 0 {
			e.Quota = logUniform(rng, 10*time.Millisecond, 100*time.Millisecond)
		}
		if rng.IntN(6) == 0 {
			r.compute[i] = 1 + rng.IntN(2)
		}
	}
	for range r.m.CPUs {
		share := 0.0
		switch rng.IntN(6) {
		case 0:
			share = 1
		case 1:
			share = 0.5
		}
		r.busy = append(r.busy, share)
	}
	if rng.IntN(2) == 0 {
		r.busy = nil
	}
	r.conns = []int{1, 1, 4, 16}[rng.IntN(4)]
	r.count = max(2, (5+rng.IntN(60))/r.conns)
	if r.program >= polls { // who polls takes many steps
		r.conns, r.count = min(r.conns, 2), min(r.count, 12)
	}
	r.bytes = 1 << rng.IntN(13)
	if rng.IntN(2) == 0 {
		r.work = logUniform(rng, 100*time.Nanosecond, 50*time.Microsecond)
	}
	if rng.IntN(2) == 0 {
		r.idle = rng.Float64() * 0.3
	}
	if rng.IntN(6) == 0 {
		r.closes, r.closeAt = rng.IntN(2), logUniform(rng, 10*time.Microsecond, 20*time.Millisecond)
	}
	return r
}

// contended reports whether somebody may have to wait for a CPU, a processor or a quota.
func (r *threadsRun) contended() bool {
	for _, e := range r.ends {
		// Each connection and the device have a goroutine that runs.
		if r.program >= polls && e.Procs > 0 && e.Procs <= r.conns {
			return true
		}
	}
	return r.busy != nil || r.compute != [2]int{} || r.ends[0].Quota+r.ends[1].Quota > 0 || r.m.CPUs < 3 ||
		r.ends[0].CPUs != nil || r.ends[1].CPUs != nil
}

// bound is the longest that a packet may wait. A goroutine that waits is there at once, or the
// lease lapses; a program that polls may go away, and then it takes the patience of the keeper. The
// runtime may notice late that a thread sleeps, and a thread has to be woken.
func (r *threadsRun) bound() time.Duration {
	b := 2*time.Millisecond + r.m.Retake + 4*r.m.Wakeup + 100*(r.m.Syscall+r.m.Packet+r.m.WakeCall)
	if r.program >= polls {
		b += 8 * time.Millisecond
	}
	return b
}

// requestBound is the longest that a request may take where nothing is contended.
func (r *threadsRun) requestBound() time.Duration {
	return 2*r.bound() + time.Duration(r.conns)*20*(r.work+r.m.Wakeup+r.m.Syscall+r.m.Packet)
}

func threadsSwarm(t *testing.T, seed uint64, sum *threadsSum) {
	r := drawThreads(seed)
	sim.OnThreads(t, sim.Config{Seed: seed}, func(t *testing.T, net *sim.Fabric) {
		r.net = net
		r.run(t)
	})
	if t.Failed() {
		t.Logf("%+v", fmt.Sprint(r.program, " ", r.m, " ", r.two, " ", r.ends, r.busy, r.compute, r.conns,
			r.count, r.bytes, r.work, r.idle, r.closes, r.closeAt))
	}
	sum.requests += r.sum.requests
	sum.impatient += r.sum.impatient
	sum.waited = max(sum.waited, r.sum.waited)
	if !r.contended() {
		sum.request = max(sum.request, r.sum.request)
	}
}

var threadsAddrs = [2]string{"192.0.2.1", "192.0.2.2"}

func (r *threadsRun) run(t *testing.T) {
	hang := 2 * time.Minute // so long takes only what hangs
	if r.program >= polls {
		hang = 5 * time.Second
		for i, e := range r.ends {
			if e.Quota > 0 && r.compute[i] > 0 { // each goroutine that computes takes half of a quota, or all
				hang = 30 * time.Second
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	ms := [2]*sim.Machine{}
	ms[0] = r.net.Machine(r.m)
	ms[1] = ms[0]
	if r.two {
		ms[1] = r.net.Machine(r.m)
	}
	for i, share := range r.busy {
		if share > 0 {
			ms[0].Neighbour(i, share)
		}
	}
	var computing, all sync.WaitGroup
	for i := range r.ps {
		r.ps[i] = ms[i].Process(r.ends[i])
		r.devices[i] = hostedDevice(t, r.net, r.ps[i], threadsAddrs[i])
		for range r.compute[i] {
			computing.Add(1)
			r.ps[i].Go(func() {
				defer computing.Done()
				for !r.over.Load() {
					r.ps[i].Work(5 * time.Millisecond)
				}
			})
		}
	}
	if r.closes >= 0 {
		all.Add(1)
		r.ps[r.closes].Go(func() {
			defer all.Done()
			r.ps[r.closes].Sleep(r.closeAt)
			r.closed.Store(true)
			if err := r.devices[r.closes].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if r.program < polls {
		r.connections(ctx, t, &all)
	} else {
		r.queues(ctx, t, &all)
	}
	all.Wait()
	r.over.Store(true)
	computing.Wait()
	r.quiet(t)
	for i, p := range r.ps {
		for _, f := range p.Faults() {
			t.Errorf("end %d: %s", i, f)
		}
		if w := p.LongestWait(); w > r.bound() {
			t.Errorf("end %d: a packet has waited for %v, the bound is %v", i, w, r.bound())
		} else {
			r.sum.waited = max(r.sum.waited, w)
		}
	}
	if !r.contended() && r.sum.request > r.requestBound() {
		t.Errorf("a request has taken %v, the bound is %v", r.sum.request, r.requestBound())
	}
}

// quiet checks that nobody looks for packets when nothing comes any more.
func (r *threadsRun) quiet(t *testing.T) {
	time.Sleep(500 * time.Millisecond) // what is under way, timers, and quotas
	before := [2]time.Duration{r.ps[0].CPUTime(), r.ps[1].CPUTime()}
	time.Sleep(200 * time.Millisecond)
	for i, p := range r.ps {
		if used := p.CPUTime() - before[i]; used > 2*time.Millisecond {
			t.Errorf("end %d has nothing to do, and took %v of CPU time in 200 ms", i, used)
		}
	}
}

// failed notes an error; those that a device makes that is closed are none.
func (r *threadsRun) failed(t *testing.T, what string, err error) {
	if err != nil && r.closes < 0 {
		t.Errorf("%s: %v, at %v", what, err, time.Duration(r.net.Now()))
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s hangs: %v", what, err)
	}
}

// took notes a request.
func (r *threadsRun) took(since int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.requests++
	r.sum.request = max(r.sum.request, time.Duration(r.net.Now()-since))
}

// connections runs clients and a server of package roce.
func (r *threadsRun) connections(ctx context.Context, t *testing.T, all *sync.WaitGroup) {
	addr := netip.AddrPortFrom(netip.MustParseAddr(threadsAddrs[0]), 7000)
	l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: r.devices[0]}}).ListenAddr(addr)
	if err != nil {
		r.failed(t, "listen", err)
		return
	}
	sctx, stop := context.WithCancel(ctx)
	all.Add(1)
	r.ps[0].Go(func() {
		defer all.Done()
		defer l.Close()
		for {
			c, err := l.Accept(sctx)
			r.ps[0].Resumed()
			if err != nil {
				return
			}
			all.Add(1)
			r.ps[0].Go(func() {
				defer all.Done()
				defer c.Close()
				r.serve(sctx, c)
			})
		}
	})
	var clients sync.WaitGroup
	for i := range r.conns {
		rng := rand.New(rand.NewPCG(r.rng.Uint64(), uint64(i)))
		clients.Add(1)
		r.ps[1].Go(func() {
			defer clients.Done()
			d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: r.devices[1]}}
			c, err := d.DialAddr(ctx, addr)
			if err != nil {
				r.failed(t, "dial", err)
				return
			}
			defer c.Close()
			if r.program == streams {
				r.stream(ctx, t, c)
				return
			}
			r.ask(ctx, t, c, rng)
		})
	}
	all.Add(1)
	go func() {
		defer all.Done()
		clients.Wait()
		stop()
	}()
}

func (r *threadsRun) serve(ctx context.Context, c *roce.Conn) {
	b := make([]byte, 1<<13)
	for {
		n, err := c.Recv(ctx, b)
		if err != nil {
			return
		}
		if r.work > 0 {
			r.ps[0].Work(r.work)
		}
		if r.program == streams && b[0] == 0 {
			continue // the last one is answered
		}
		if c.Send(ctx, b[:n]) != nil {
			return
		}
	}
}

func (r *threadsRun) stream(ctx context.Context, t *testing.T, c *roce.Conn) {
	b := make([]byte, r.bytes)
	for i := range r.count * 4 {
		if i == r.count*4-1 {
			b[0] = 1
		}
		if err := c.Send(ctx, b); err != nil {
			r.failed(t, "send", err)
			return
		}
	}
	_, err := c.Recv(ctx, b)
	r.failed(t, "receive", err)
}

func (r *threadsRun) ask(ctx context.Context, t *testing.T, c *roce.Conn, rng *rand.Rand) {
	p := r.ps[1]
	b := make([]byte, r.bytes)
	for range r.count {
		if rng.Float64() < r.idle {
			if p.Sleep(time.Duration(rng.ExpFloat64() *
				float64(logUniform(rng, 5*time.Microsecond, 10*time.Millisecond)))); rng.IntN(2) == 0 {
				r.impatient(ctx, t, c, rng)
			}
		}
		start := r.net.Now()
		if err := c.Send(ctx, b); err != nil {
			r.failed(t, "send", err)
			return
		}
		if _, err := c.Recv(ctx, b); err != nil {
			r.failed(t, "receive", err)
			return
		}
		r.took(start)
		if r.work > 0 {
			p.Work(r.work)
		}
	}
}

// impatient waits for what nobody has sent.
func (r *threadsRun) impatient(ctx context.Context, t *testing.T, c *roce.Conn, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, logUniform(rng, time.Microsecond, 5*time.Millisecond))
	defer cancel()
	if _, err := c.Recv(ctx, make([]byte, 1<<13)); !errors.Is(err, os.ErrDeadlineExceeded) &&
		!errors.Is(err, context.DeadlineExceeded) {
		r.failed(t, "receive of nothing", err)
		if err == nil {
			t.Error("something came that nobody has sent")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.impatient++
}

// queues runs queue pairs whose programs poll.
func (r *threadsRun) queues(ctx context.Context, t *testing.T, all *sync.WaitGroup) {
	for i := range r.ps {
		if r.program >= foreign {
			access.Shard(r.devices[i]).ServeForeign()
		}
	}
	for i := range r.conns {
		var ends [2]*pollEnd
		for j := range ends {
			var err error
			if ends[j], err = newPollEnd(r, j); err != nil {
				r.failed(t, "objects", err)
				return
			}
		}
		for j, e := range ends {
			e.peer = ends[1-j].mr
			if err := e.qp.Connect(ends[1-j].qp.LocalInfo(0), nil); err != nil {
				r.failed(t, "connect", err)
				return
			}
		}
		for j, e := range ends {
			e.rng = rand.New(rand.NewPCG(r.rng.Uint64(), uint64(i)))
			all.Add(1)
			r.ps[j].Go(func() {
				defer all.Done()
				if err := e.run(ctx, j == 1); err != nil {
					r.failed(t, fmt.Sprintf("end %d", j), err)
				}
			})
		}
	}
}

// pollEnd is one end of such a pair.
type pollEnd struct {
	r     *threadsRun
	p     *sim.Process
	cq    *verbs.CQ
	qp    *verbs.QP
	mr    *verbs.MR
	buf   []byte
	peer  *verbs.MR
	rng   *rand.Rand
	sent  int
	got   int
	empty int
}

func newPollEnd(r *threadsRun, i int) (*pollEnd, error) {
	d := r.devices[i]
	e := &pollEnd{r: r, p: r.ps[i], buf: make([]byte, 2*(1<<13))}
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	if e.cq, err = d.CreateCQ(64, nil); err != nil {
		return nil, err
	}
	if e.mr, err = pd.RegisterMR(e.buf, verbs.AccessAll, nil); err != nil {
		return nil, err
	}
	e.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: e.cq})
	return e, err
}

// run asks and waits for the answer, or the other way round.
func (e *pollEnd) run(ctx context.Context, client bool) error {
	for range 4 {
		if err := e.receive(); err != nil {
			return err
		}
	}
	if client {
		e.p.Sleep(time.Millisecond) // until the other end has posted its receives
	}
	for i := range e.r.count {
		start := e.r.net.Now()
		if client {
			if err := e.send(i); err != nil {
				return err
			}
		}
		if err := e.await(ctx, i); err != nil {
			return err
		}
		if e.r.work > 0 {
			e.p.Work(e.r.work)
		}
		if client {
			e.r.took(start)
		} else if err := e.send(i); err != nil {
			return err
		}
		if e.rng.Float64() < e.r.idle {
			e.away(ctx)
		}
	}
	// Until all that was sent is acknowledged.
	for e.sent > 0 {
		if err := e.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *pollEnd) receive() error {
	return e.qp.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{e.mr.SGE(0, e.r.bytes)}})
}

// send sends the ith message, or writes it into the memory of the peer.
func (e *pollEnd) send(i int) error {
	wr := verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{e.mr.SGE(1<<13, e.r.bytes)}}
	if e.r.program == looks {
		e.buf[1<<13] = byte(i + 1)
		wr.Opcode, wr.RemoteAddr, wr.RKey = verbs.WRWrite, e.peer.Addr(), e.peer.RKey()
	}
	e.sent++
	return e.qp.PostSend(&wr)
}

// await returns when the ith message has come.
func (e *pollEnd) await(ctx context.Context, i int) error {
	for {
		if e.r.program == looks {
			// At memory, as long as nothing is to be acknowledged.
			for e.sent == 0 || e.rng.IntN(2) == 0 {
				if e.buf[0] == byte(i+1) {
					return nil
				}
				e.p.Work(time.Microsecond)
				if err := e.over(ctx); err != nil {
					return err
				}
			}
		} else if e.got > i {
			return nil
		}
		if err := e.look(ctx); err != nil {
			return err
		}
	}
}

// over tells of the end of the context, or of a device.
func (e *pollEnd) over(ctx context.Context) error {
	if e.r.closed.Load() {
		return verbs.ErrClosed
	}
	return ctx.Err()
}

// look polls the queue once.
func (e *pollEnd) look(ctx context.Context) error {
	if err := e.over(ctx); err != nil {
		return err
	}
	var wcs [4]verbs.WC
	var n int
	if e.r.program == polls {
		var err error
		if n, err = e.cq.Poll(wcs[:]); err != nil {
			return err
		}
	} else if n = access.Waiting(e.cq).Take(wcs[:]); n == 0 {
		if e.empty++; e.empty%4 == 0 {
			core.Open(e.cq).Progress(1)
		}
	}
	if n == 0 {
		e.p.Work(time.Microsecond)
	}
	for i := range wcs[:n] {
		if err := verbs.WCError(&wcs[i]); err != nil {
			return err
		}
		if wcs[i].Opcode&verbs.WCRecv == 0 {
			e.sent--
			continue
		}
		e.got++
		if err := e.receive(); err != nil {
			return err
		}
	}
	return nil
}

// away does something else for a while, or waits for the queue.
func (e *pollEnd) away(ctx context.Context) {
	long := time.Duration(e.rng.ExpFloat64() * float64(logUniform(e.rng, 5*time.Microsecond, 10*time.Millisecond)))
	if e.rng.IntN(2) == 0 {
		e.p.Work(min(long, 5*time.Millisecond))
		return
	}
	e.p.Sleep(long)
}
