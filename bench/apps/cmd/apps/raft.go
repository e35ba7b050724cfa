package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/bench/apps/kv"
	"github.com/goroce/goroce/bench/apps/raftroce"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// raftNets are the transports that are compared.
var raftNets = []string{"roce", "rsocket", "tcp"}

func raftMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("raft", flag.ContinueOnError)
	nodes := f.Int("nodes", 3, "servers, a process each")
	bytes := f.Int("bytes", 128, "size of an entry")
	seconds := f.Float64("seconds", 2, "how long to measure")
	rounds := f.Int("rounds", 3, "how often, the transports in turn; the median counts")
	kill := f.Int("kill", 0,
		"in place of measuring: so many times kill -9 or stop a server, mostly the leader, while clients go on; the history is checked")
	nets := f.String("nets", strings.Join(raftNets, ","),
		"transports: roce (WRITE with immediate), rsocket (raft's NetworkTransport on streams), tcp")
	node := f.Int("node", -1, "be this server (of -addrs), which is told by its standard input what to do")
	addrs := f.String("addrs", "", "the servers' addresses, with commas")
	dir := f.String("dir", "", "where this server keeps its log; none is in memory")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *node >= 0 {
		return raftNode(ctx, *nets, strings.Split(*addrs, ","), *node, *dir)
	}
	if *kill > 0 {
		for name := range strings.SplitSeq(*nets, ",") {
			if err := raftKill(ctx, name, *nodes, *kill); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Printf(
		"Raft of %d servers on one machine, logs in memory, entries of %d bytes, median of %d rounds of %g s.\n\n",
		*nodes, *bytes, *rounds, *seconds)
	fmt.Println("| transport | clients | commits/s | p50 us | p99 us | p99.9 us | CPU us a commit, all servers |\n|---|---|---|---|---|---|---|")
	for _, clients := range []int{1, 16, 64} {
		results := map[string][]raftResult{}
		for range *rounds {
			for name := range strings.SplitSeq(*nets, ",") {
				r, err := raftMeasure(ctx, name, *nodes, clients, *bytes, *seconds)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				results[name] = append(results[name], r)
			}
		}
		for name := range strings.SplitSeq(*nets, ",") {
			of := func(f func(raftResult) float64) float64 {
				var all []float64
				for _, r := range results[name] {
					all = append(all, f(r))
				}
				return median(all)
			}
			fmt.Printf("| %s | %d | %.0f | %.0f | %.0f | %.0f | %.0f |\n", name, clients,
				of(func(r raftResult) float64 { return r.Rate }), of(func(r raftResult) float64 { return r.P50 }),
				of(func(r raftResult) float64 { return r.P99 }), of(func(r raftResult) float64 { return r.P999 }),
				of(func(r raftResult) float64 { return r.CPU }))
		}
	}
	return nil
}

// raftRequest and raftAnswer are lines of JSON on a server's standard input and output.
type raftRequest struct {
	ID      int
	Op      *kv.Op  `json:",omitempty"` // apply it
	Measure float64 `json:",omitempty"` // for so many seconds
	Clients int     `json:",omitempty"`
	Bytes   int     `json:",omitempty"`
}

type raftAnswer struct {
	ID     int
	Leader bool        `json:",omitempty"` // this server has become the leader
	Value  string      // what an operation returned
	Done   bool        // it was done
	Never  bool        // it was not begun
	Result *raftResult `json:",omitempty"`
}

// raftResult is what was measured: commits a second, and microseconds.
type raftResult struct {
	Rate, P50, P99, P999, CPU float64
	Commits                   int
}

// raftTransport makes the transport of a server.
func raftTransport(ctx context.Context, name, addr string) (raft.Transport, error) {
	switch name {
	case "roce":
		return raftroce.New(ctx, raftroce.Config{Addr: addr})
	case "rsocket":
		l, err := rsocket.Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return raft.NewNetworkTransport(raftroce.StreamLayer{Listener: l}, 3, 10*time.Second, io.Discard), nil
	case "tcp":
		to, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			return nil, err
		}
		return raft.NewTCPTransport(addr, to, 3, 10*time.Second, io.Discard)
	}
	return nil, fmt.Errorf("no transport %q; there are %v", name, raftNets)
}

// raftNode is one server.
func raftNode(ctx context.Context, netName string, addrs []string, node int, dir string) error {
	tr, err := raftTransport(ctx, netName, addrs[node])
	if err != nil {
		return err
	}
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(fmt.Sprint(node))
	c.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: io.Discard})
	if os.Getenv("RAFT_LOG") != "" {
		c.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr})
	}
	var logs raft.LogStore
	var stable raft.StableStore
	var snapshots raft.SnapshotStore
	if dir == "" {
		m := raft.NewInmemStore()
		logs, stable, snapshots = m, m, raft.NewInmemSnapshotStore()
	} else {
		// A process that is killed leaves what it wrote to the kernel: no disk need wait for it.
		b, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, "log"), NoSync: true})
		if err != nil {
			return err
		}
		if snapshots, err = raft.NewFileSnapshotStore(dir, 2, io.Discard); err != nil {
			return err
		}
		logs, stable = b, b
		c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 1000, 2*time.Second, 100
	}
	leader := make(chan bool, 16)
	c.NotifyCh = leader
	r, err := raft.NewRaft(c, kv.New(), logs, stable, snapshots, tr)
	if err != nil {
		return err
	}
	if node == 0 {
		var conf raft.Configuration
		for i, a := range addrs {
			conf.Servers = append(conf.Servers,
				raft.Server{ID: raft.ServerID(fmt.Sprint(i)), Address: raft.ServerAddress(a)})
		}
		if err := r.BootstrapCluster(conf).Error(); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			return err
		}
	}
	var out sync.Mutex
	enc := json.NewEncoder(os.Stdout)
	say := func(a raftAnswer) {
		out.Lock()
		defer out.Unlock()
		enc.Encode(a)
	}
	go func() {
		for is := range leader {
			say(raftAnswer{ID: -1, Leader: is})
		}
	}()
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var q raftRequest
		if err := in.Decode(&q); err != nil {
			return errors.Join(r.Shutdown().Error(), tr.(raft.WithClose).Close()) // our parent has ended
		}
		if q.Op == nil {
			say(raftAnswer{ID: q.ID, Result: raftLoad(r, q)})
			continue
		}
		f := r.Apply(q.Op.Encode(), time.Second)
		go func() {
			err := f.Error()
			a := raftAnswer{ID: q.ID, Done: err == nil,
				Never: errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout)}
			if err == nil {
				a.Value, _ = f.Response().(string)
			}
			say(a)
		}()
	}
}

// raftLoad has clients commit for some time, each waiting for its last commit.
func raftLoad(r *raft.Raft, q raftRequest) *raftResult {
	op := kv.Op{Put: true, Key: "key", Value: strings.Repeat("v", q.Bytes)}.Encode()
	var mu sync.Mutex
	var took []time.Duration
	var clients sync.WaitGroup
	begin := time.Now()
	for range q.Clients {
		clients.Go(func() {
			var mine []time.Duration
			for time.Since(begin).Seconds() < q.Measure {
				at := time.Now()
				if r.Apply(op, 0).Error() != nil {
					break
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	clients.Wait()
	all := time.Since(begin).Seconds()
	if len(took) == 0 {
		return &raftResult{}
	}
	slices.Sort(took)
	at := func(p float64) float64 {
		return float64(took[min(len(took)-1, int(p*float64(len(took))))].Nanoseconds()) / 1e3
	}
	return &raftResult{Rate: float64(len(took)) / all, P50: at(0.5), P99: at(0.99), P999: at(0.999), Commits: len(took)}
}

// raftServer is a server's process, seen from who began it.
type raftServer struct {
	*child
	in io.WriteCloser

	mu      sync.Mutex
	waiting map[int]chan raftAnswer
	next    int
	leads   bool
	gone    bool
	changed chan struct{} // has a value when leads may have changed
}

func raftStart(ctx context.Context, name string, addrs []string, node int, dir string) (*raftServer, error) {
	args := []string{"raft", "-nets", name, "-node", fmt.Sprint(node), "-addrs", strings.Join(addrs, ",")}
	if dir != "" {
		args = append(args, "-dir", dir)
	}
	s := &raftServer{waiting: map[int]chan raftAnswer{}, changed: make(chan struct{}, 1)}
	var err error
	var out io.ReadCloser
	if s.child, s.in, out, err = startPiped(ctx, args...); err != nil {
		return nil, err
	}
	go func() {
		dec := json.NewDecoder(out)
		for {
			var a raftAnswer
			if err := dec.Decode(&a); err != nil {
				break
			}
			s.mu.Lock()
			if a.ID < 0 {
				s.leads = a.Leader
				select {
				case s.changed <- struct{}{}:
				default:
				}
			} else if c := s.waiting[a.ID]; c != nil {
				delete(s.waiting, a.ID)
				c <- a
			}
			s.mu.Unlock()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gone, s.leads = true, false
		for _, c := range s.waiting {
			close(c)
		}
		s.waiting = nil
	}()
	return s, nil
}

// ask sends a request. The channel is closed without an answer if the process ends.
func (s *raftServer) ask(q raftRequest) (<-chan raftAnswer, error) {
	c := make(chan raftAnswer, 1)
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return nil, errors.New("the server has ended")
	}
	s.next++
	q.ID = s.next
	s.waiting[q.ID] = c
	s.mu.Unlock()
	b, err := json.Marshal(q)
	if err == nil {
		_, err = s.in.Write(append(b, '\n'))
	}
	return c, err
}

func (s *raftServer) leader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads
}

// raftMeasure runs a cluster once.
func raftMeasure(ctx context.Context, name string, nodes, clients, bytes int, seconds float64) (raftResult, error) {
	addrs, err := freePorts(nodes)
	if err != nil {
		return raftResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var servers []*raftServer
	for i := range nodes {
		s, err := raftStart(ctx, name, addrs, i, "")
		if err != nil {
			return raftResult{}, err
		}
		servers = append(servers, s)
	}
	lead := -1
	for deadline := time.Now().Add(30 * time.Second); lead < 0; {
		if time.Now().After(deadline) {
			return raftResult{}, errors.New("no leader after 30 s")
		}
		wait(ctx, 20*time.Millisecond)
		for i, s := range servers {
			if s.leader() {
				lead = i
			}
		}
	}
	for _, warm := range []bool{true, false} {
		q := raftRequest{Measure: seconds, Clients: clients, Bytes: bytes}
		if warm {
			q.Measure = 0.3
		}
		before := cpuOf(servers)
		c, err := servers[lead].ask(q)
		if err != nil {
			return raftResult{}, err
		}
		a, ok := <-c
		if !ok || a.Result == nil || a.Result.Commits == 0 {
			return raftResult{}, errors.New("the leader did not commit")
		}
		if warm {
			continue
		}
		r := *a.Result
		r.CPU = float64((cpuOf(servers) - before).Microseconds()) / float64(r.Commits)
		for _, s := range servers {
			s.in.Close()
		}
		for _, s := range servers {
			if _, err := s.wait(); err != nil {
				return r, err
			}
		}
		return r, nil
	}
	return raftResult{}, errors.New("not measured")
}

func cpuOf(servers []*raftServer) (all time.Duration) {
	for _, s := range servers {
		all += cpuOfProcess(s.cmd.Process.Pid)
	}
	return all
}
