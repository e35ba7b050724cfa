package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are what a run is told. The zero value runs for one period.
type Options struct {
	For    time.Duration
	Period time.Duration // from rest to rest; 0 is a minute
	Loss   float64       // of packets, in each direction
	Seed   uint64
	Log    io.Writer // one line a period, and what went wrong; nil: nowhere
	Stderr io.Writer // of the processes
	// Profile is a folder for heap profiles, one of each process that stays at each rest.
	Profile string
}

const (
	defaultPeriod = time.Minute
	// explains is for how long what was done to the link explains errors: the time after which a
	// silent peer counts as gone, and a request for a connection.
	explains = 90 * time.Second
	// stopTime is how long a process is stopped that stays: less than the silence that connections
	// survive.
	stopTime = 10 * time.Second
	// returnTime is how long clients may take to be back at a server that was killed and started
	// anew.
	returnTime = 90 * time.Second
	// A silent peer counts as gone after a minute, a disconnect that a dead peer does not answer is
	// tried for half a minute, and TIMEWAIT lasts a minute at most.
	settleTime = 3 * time.Minute
	answerTime = 6 * time.Minute // of a process
	faultLimit = 20              // faults that are listed, and end the run
	mostRecent = 5               // errors of servers that are told with a fault
	connPort   = 7471
)

// The processes.
const (
	theServer, mortalServer = "server", "mortal server"
	theClient, mortalClient = "client", "mortal client"
)

// run is a run.
type run struct {
	Options
	stderr io.Writer
	net    *network
	rand   *rand.Rand
	procs  map[string]*process
	roles  map[string]role
	sides  map[string]*side

	mu     sync.Mutex
	sum    Summary
	downAt time.Time // when the link was last down
	mtuAt  time.Time // when its MTU last changed
	done   map[string]int64
	recent []string // the last errors of the servers, which may be the cause of a client's
}

// Run runs a soak. The error is about a run that could not be made; what was found is in the
// summary.
func Run(ctx context.Context, o Options) (*Summary, error) {
	r := &run{Options: o, rand: rand.New(rand.NewPCG(o.Seed, 3)), stderr: o.Stderr,
		procs: map[string]*process{}, done: map[string]int64{}}
	if r.Period == 0 {
		r.Period = defaultPeriod
	}
	if r.Log == nil {
		r.Log = io.Discard
	}
	var err error
	if r.net, err = newNetwork(); err != nil {
		return nil, err
	}
	defer r.net.close()
	r.sum = Summary{Network: r.net.String(), Events: map[string]int{}, Errors: map[string]int{},
		Exchanges: map[string]int64{}, Rests: map[string][]Sample{}}
	r.assign()
	start := time.Now()
	defer func() {
		for _, p := range r.procs {
			p.kill()
		}
	}()
	for _, name := range []string{theServer, mortalServer, theClient, mortalClient} {
		if err := r.begin(ctx, name); err != nil {
			return nil, err
		}
	}
	for n := 0; ctx.Err() == nil && len(r.sum.Faults) < faultLimit && (n == 0 || time.Since(start) < o.For); n++ {
		if err := r.period(ctx, n); err != nil && ctx.Err() == nil {
			r.fault("%v", err)
			break
		}
	}
	r.sum.Took = time.Since(start)
	r.finish()
	return &r.sum, nil
}

// assign says which process does what, and where.
func (r *run) assign() {
	a, b := &r.net.sides[0], &r.net.sides[1]
	servers := map[string]target{}
	r.roles, r.sides = map[string]role{}, map[string]*side{}
	for i, name := range []string{theServer, mortalServer} {
		port := uint16(connPort + 10*i)
		r.roles[name] = role{Name: name, Addr: b.addr, Server: true, Port: port}
		r.sides[name] = b
		servers[name] = target{netip.AddrPortFrom(b.addr, port), netip.AddrPortFrom(b.addr, port+1)}
	}
	for i, name := range []string{theClient, mortalClient} {
		r.roles[name] = role{Name: name, Addr: a.addr, Servers: servers, Seed: r.Seed<<8 + uint64(i)}
		r.sides[name] = a
	}
	for _, name := range []string{theServer, theClient} {
		stays := r.roles[name]
		stays.Profile = r.Profile
		if name == theClient {
			stays.Loss = r.Loss
		}
		r.roles[name] = stays
	}
}

// begin starts a process, with a seed of its own.
func (r *run) begin(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	role := r.roles[name]
	role.Seed += uint64(r.sum.Events["kill "+name]) << 32
	p, err := r.start(ctx, r.sides[name], role)
	if err == nil {
		r.procs[name] = p
		r.anew(name)
	}
	return err
}

// period is some time of work, with disturbances, and a rest. What happens to the link happens in
// periods of its own: a path that has become too narrow explains what a process that was stopped
// must not cause.
func (r *run) period(ctx context.Context, n int) error {
	end := time.Now().Add(r.Period * 3 / 4)
	disturb := []func(context.Context) error{r.disturbProcess, r.disturbState, r.disturbMTU}[n%3]
	if !r.net.virtual() || n%3 == 0 {
		disturb = r.disturbProcess
		// Those that stay are stopped in turns, and the server that is killed has its clients back.
		if err := r.stop(ctx, []string{theServer, theClient}[n/3%2], min(stopTime, r.Period/6)); err != nil {
			return err
		}
		if err := r.restartServer(ctx); err != nil {
			return err
		}
	}
	for time.Now().Before(end) && ctx.Err() == nil {
		if err := disturb(ctx); err != nil {
			return err
		}
		wait(ctx, r.Period/30+time.Duration(r.rand.Int64N(int64(r.Period/10))))
	}
	if n%3 == 2 && r.net.virtual() {
		// What the link has broken is found out before the rest.
		wait(ctx, r.Period/10)
	}
	return r.rest(ctx, n)
}

// disturbProcess does something to a process.
func (r *run) disturbProcess(ctx context.Context) error {
	switch r.rand.IntN(4) {
	case 0:
		return r.restart(ctx, mortalClient)
	case 1:
		return r.restart(ctx, mortalServer)
	case 2:
		return r.stop(ctx, mortalServer, time.Duration(r.rand.Int64N(int64(3*time.Second))))
	}
	return r.stop(ctx, mortalClient, time.Duration(r.rand.Int64N(int64(3*time.Second))))
}

// disturbState does something to a process, or takes the link down for a while.
func (r *run) disturbState(ctx context.Context) error {
	if r.rand.IntN(3) > 0 {
		return r.disturbProcess(ctx)
	}
	r.count("link down and up")
	side := r.rand.IntN(2)
	r.note(&r.downAt)
	err := r.net.setUp(side, false)
	wait(ctx, time.Duration(r.rand.Int64N(int64(4*time.Second))))
	err = errors.Join(err, r.net.setUp(side, true))
	r.note(&r.downAt)
	return err
}

// disturbMTU does something to a process, or changes the MTU of the link.
func (r *run) disturbMTU(ctx context.Context) error {
	if r.rand.IntN(3) > 0 {
		return r.disturbProcess(ctx)
	}
	mtu := mtus[r.rand.IntN(len(mtus))]
	r.count(fmt.Sprintf("MTU %d", mtu))
	r.note(&r.mtuAt)
	err := r.net.setMTU(mtu)
	r.note(&r.mtuAt)
	return err
}

// stop has a process stand still for a time.
func (r *run) stop(ctx context.Context, name string, d time.Duration) error {
	r.count("stop " + name)
	p := r.procs[name]
	if err := p.freeze(true); err != nil {
		return err
	}
	wait(ctx, d)
	return p.freeze(false)
}

// restart kills a process and starts it again.
func (r *run) restart(ctx context.Context, name string) error {
	r.procs[name].kill()
	delete(r.procs, name)
	r.count("kill " + name)
	return r.begin(ctx, name)
}

// restartServer kills the server that can be killed, starts it again at the same place, and waits
// until each client has exchanged something with it on either kind of connection. The longest such
// time is noted.
func (r *run) restartServer(ctx context.Context) error {
	if err := r.restart(ctx, mortalServer); err != nil {
		return err
	}
	began := time.Now()
	before := map[string]int64{}
	for first := true; ctx.Err() == nil; first = false {
		missing := ""
		for _, name := range []string{theClient, mortalClient} {
			asked, cancel := context.WithTimeout(ctx, answerTime)
			s, err := r.procs[name].ask(asked, "count", "counted")
			cancel()
			if err != nil {
				return err
			}
			for _, kind := range []string{connKind, streamKind} {
				key := name + " to " + mortalServer + " " + kind
				n := s.Done[mortalServer+" "+kind]
				if first {
					before[key] = n
				}
				if n == before[key] {
					missing = key
				}
			}
		}
		took := time.Since(began)
		if missing == "" {
			r.mu.Lock()
			r.sum.Returned = max(r.sum.Returned, took)
			r.mu.Unlock()
			return nil
		}
		if took > returnTime {
			r.fault("%s: nothing was exchanged for %v after the server was killed and started again",
				missing, returnTime)
			return nil
		}
		wait(ctx, 50*time.Millisecond)
	}
	return nil
}

// note notes when something was done to the link.
func (r *run) note(at *time.Time) {
	r.mu.Lock()
	*at = time.Now()
	r.mu.Unlock()
}

func (r *run) count(event string) {
	r.mu.Lock()
	r.sum.Events[event]++
	r.mu.Unlock()
}

// rest has the clients close what is not meant to last, and waits until the servers have what the
// clients have. Then it measures.
func (r *run) rest(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	open := map[string]int64{}
	clients := []string{theClient, mortalClient}
	for _, name := range clients {
		if err := r.procs[name].tell("rest"); err != nil {
			return err
		}
	}
	for _, name := range clients {
		s, err := r.procs[name].hear(ctx, "resting")
		if err != nil {
			return err
		}
		for to, n := range s.Open {
			open[to] += n
		}
		for to, n := range s.Done {
			r.progress(name, to, n)
		}
	}
	for _, name := range []string{theServer, mortalServer} {
		want := [2]int{int(open[name+" "+connKind]), int(open[name+" "+streamKind])}
		if err := r.settle(ctx, name, want); err != nil {
			return err
		}
	}
	for _, name := range clients {
		if err := r.settle(ctx, name, [2]int{-1, -1}); err != nil {
			return err
		}
	}
	line := fmt.Sprintf("%v: ", time.Now().Format(time.TimeOnly))
	for _, name := range []string{theServer, theClient} {
		s, err := r.procs[name].ask(ctx, "exact", "sample")
		if err != nil {
			return err
		}
		r.sum.Rests[name] = append(r.sum.Rests[name], *s.Sample)
		line += fmt.Sprintf("%s: heap %d KiB, resident %d MiB, %d goroutines, %d descriptors, %d slots, CPU %v; ", name,
			s.Sample.HeapBytes>>10, s.Sample.ResidentBytes>>20, s.Sample.Goroutines, s.Sample.Descriptors,
			s.Sample.Slots, s.Sample.CPU.Round(time.Millisecond))
	}
	r.mu.Lock()
	var all int64
	for _, n := range r.sum.Exchanges {
		all += n
	}
	fmt.Fprintf(r.Log, "rest %d, %s%d exchanges, %d faults\n", n+1, line, all, len(r.sum.Faults))
	r.mu.Unlock()
	for _, name := range clients {
		if err := r.procs[name].tell("go"); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until a process has as many connections as it should, and nothing that ends by
// itself.
func (r *run) settle(ctx context.Context, name string, want [2]int) error {
	for end := time.Now().Add(settleTime); ; {
		s, err := r.procs[name].ask(ctx, "sample", "sample")
		if err != nil {
			return err
		}
		m := s.Sample
		if m.settled() && (want[0] < 0 || m.Conns == want[0] && m.Streams == want[1]) {
			return nil
		}
		if time.Now().After(end) {
			r.fault("%s does not settle: it has %d connections and %d streams, and its clients %v; the communication manager %d, %d in TIMEWAIT; %d linger",
				name, m.Conns, m.Streams, want, m.CMConns, m.CMTimewait, m.Lingering)
			return nil
		}
		wait(ctx, 200*time.Millisecond)
	}
}

// anew notes that a process counts its exchanges from 0.
func (r *run) anew(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.done, func(key string, _ int64) bool { return strings.HasPrefix(key, name+" to ") })
}

// progress notes how many exchanges a process has done, of which it must have done some since the
// rest before, or since it was started.
func (r *run) progress(name, to string, n int64) {
	key := name + " to " + to
	r.mu.Lock()
	before := r.done[key]
	r.done[key] = n
	r.sum.Exchanges[key] += n - before
	r.mu.Unlock()
	if n == before {
		r.fault("%s: nothing was exchanged since the last rest", key)
	}
}

// noteError judges an error that a process has met. Of those between the two that stay only the
// link explains some: a path that has become narrower, and no way to the server for a connection
// that is being made. Nobody's standing still does.
func (r *run) noteError(name string, s said) {
	at := time.Unix(0, s.At)
	r.mu.Lock()
	doing, _, _ := strings.Cut(s.Error, ": ")
	r.sum.Errors[fmt.Sprintf("%s, %s with %s: %s", name, doing, s.Peer, s.Kind)]++
	stay := name == theClient && s.Peer == theServer
	byLink := at.Sub(r.mtuAt) < explains || at.Sub(r.downAt) < explains && strings.HasSuffix(doing, dialing)
	explained := s.Kind != "" && (!stay || byLink)
	line := fmt.Sprintf("%s %s, with %s: %s", at.Format("15:04:05.000"), name, s.Peer, s.Error)
	if r.roles[name].Server {
		r.recent = append(r.recent[max(0, len(r.recent)-mostRecent+1):], line)
	}
	recent := slices.Clone(r.recent)
	r.mu.Unlock()
	if !explained {
		r.fault("%s; the last errors of the servers: %q", line, recent)
	}
}

func (r *run) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := time.Now().Format(time.TimeOnly) + " " + fmt.Sprintf(format, args...)
	r.sum.Faults = append(r.sum.Faults, f)
	fmt.Fprintln(r.Log, "FAULT", f)
}

// finish ends the processes, and judges what was measured.
func (r *run) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	for _, name := range []string{mortalClient, theClient, mortalServer, theServer} {
		if p := r.procs[name]; p != nil {
			delete(r.procs, name)
			if err := p.end(ctx); err != nil {
				r.fault("%v", err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.sum.Rests)) {
		for _, t := range trends(r.sum.Rests[name]) {
			if t.grew {
				r.fault("%s: %v", name, t)
			}
		}
	}
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
