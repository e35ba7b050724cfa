package scale

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/bench/apps/raftroce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport/cc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Log is many replicated logs at once, as a large store has them: groups of servers, each
// hashicorp/raft as it is on package raftroce, at places drawn at random, while hosts send others
// what [Flows] sends. Servers keep the log in memory.
type Log struct {
	Hosts      int
	Members    int           // of a group; each host has one server at most
	Clients    int           // of a group, at its leader: each commits one entry after the other
	Bytes      int           // of an entry
	For        time.Duration // how long clients begin
	Cross      float64       // load of each host's cable by flows to two others; 0: none
	Rate       int64
	Cable      time.Duration
	QueueBytes int
	RED        sim.RED
	Congestion cc.Config
	Seed       uint64
}

// LogResult is what a run of Log tells.
type LogResult struct {
	Groups  int
	Commits []time.Duration // of each entry, from Apply at the leader until it has applied it
	// Slowdowns are against the least that the commit of an entry takes: from the leader to the
	// farthest of the nearest members that make a majority with it, and back, as propagation and
	// serialisation at each cable.
	Slowdowns []float64
	Ideal     time.Duration // that least, the mean over groups
	// Jain is the index of fairness of groups: of the commits of each, times its ideal. 1 is all
	// the same.
	Jain    float64
	Packets uint64 // that hosts sent, in the whole run
	Dropped uint64 // in queues of switches
	Marked  uint64
	Flows   int // of the cross traffic
	Wall    time.Duration
}

// group is one log.
type group struct {
	hosts   []int // the first one leads
	servers []*server
	ideal   time.Duration
	mu      sync.Mutex
	commits []time.Duration
}

// server is a server of a group.
type server struct {
	r  *raft.Raft
	tr *raftroce.Transport
	m  *machine
}

// machine is what a log is applied to: it keeps a sum that tells whether two have applied the same.
type machine struct {
	mu  sync.Mutex
	sum maphash.Hash
	n   int
}

var seed = maphash.MakeSeed()

// Apply adds an entry.
func (m *machine) Apply(l *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.Write(l.Data)
	m.n++
	return nil
}

// applied returns how many entries were applied, and their sum.
func (m *machine) applied() (n int, sum uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n, m.sum.Sum64()
}

// Snapshot is never taken: runs are short.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.ErrUnsupported }

// Restore is never called.
func (m *machine) Restore(io.ReadCloser) error { return errors.ErrUnsupported }

// Run runs it, and checks that all members of a group have applied the same.
func (l Log) Run() (*LogResult, error) {
	r := &LogResult{}
	begin := time.Now()
	var err error
	pipe := cable(l.Rate, l.Cable, l.QueueBytes, l.RED)
	cfg := network(l.Seed, pipe)
	cfg.MTU = flowMTU
	sim.Run(cfg, func(fabric *sim.Fabric) { err = l.run(fabric, pipe, r) })
	r.Wall = time.Since(begin)
	return r, err
}

func (l Log) run(fabric *sim.Fabric, pipe sim.Pipe, r *LogResult) (err error) {
	tree := NewTree(fabric, l.Hosts, pipe, l.Seed)
	cross := Flows{Hosts: l.Hosts, Load: l.Cross, For: l.For, Rate: l.Rate, Peers: 2,
		Congestion: l.Congestion, Seed: l.Seed}
	hosts, err := cross.connected(fabric, tree)
	defer func() {
		for _, h := range hosts {
			err = errors.Join(err, h.device.Close())
		}
	}()
	if err != nil {
		return err
	}
	groups := l.groups(tree)
	defer func() {
		for _, g := range groups {
			err = errors.Join(err, g.close())
		}
	}()
	for _, g := range groups {
		if err := g.begin(hosts); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if err := g.lead(); err != nil {
			return err
		}
	}
	time.Sleep(settle) // until all have told their followers, and connections for heartbeats are there
	var all sync.WaitGroup
	errs := make([]error, 1+len(groups)*l.Clients)
	flows := &FlowResult{}
	if l.Cross > 0 {
		all.Go(func() { errs[0] = cross.send(fabric, tree, hosts, flows) })
	}
	for i, g := range groups {
		for c := range l.Clients {
			all.Go(func() { errs[1+i*l.Clients+c] = g.client(fabric, l, i, c) })
		}
	}
	all.Wait()
	time.Sleep(settle) // until followers know what was committed last
	for _, g := range groups {
		errs = append(errs, g.check())
	}
	st := fabric.Stats()
	r.Packets, r.Dropped, r.Marked, r.Flows, r.Groups = st.Sent, st.Overflowed, st.Marked, len(flows.Times), len(groups)
	var sum, squares float64
	for _, g := range groups {
		r.Commits = append(r.Commits, g.commits...)
		for _, took := range g.commits {
			r.Slowdowns = append(r.Slowdowns, float64(took)/float64(g.ideal))
		}
		r.Ideal += g.ideal / time.Duration(len(groups))
		x := float64(len(g.commits)) * float64(g.ideal)
		sum, squares = sum+x, squares+x*x
	}
	if squares > 0 {
		r.Jain = sum * sum / (float64(len(groups)) * squares)
	}
	return errors.Join(errs...)
}

// groups draws where the members of each group are, and their ways to each other.
func (l Log) groups(tree *Tree) (groups []*group) {
	for places := range slices.Chunk(rand.New(rand.NewPCG(l.Seed, 2)).Perm(l.Hosts), l.Members) {
		if len(places) < l.Members {
			break
		}
		g := &group{hosts: places}
		var ways []int
		for i, a := range places {
			for _, b := range places[:i] {
				tree.Connect(a, b)
			}
			if i > 0 {
				ways = append(ways, tree.Cables(places[0], a))
			}
		}
		slices.Sort(ways)
		far := time.Duration(ways[l.Members/2-1])
		g.ideal = far * (2*l.Cable + time.Duration(float64(l.Bytes+headers+ackBytes)*8e9/float64(l.Rate)))
		groups = append(groups, g)
	}
	return groups
}

const (
	// heartbeat is the least time without a sign of life after which a server stands for election.
	heartbeat = 200 * time.Millisecond
	settle    = heartbeat
)

func logAddr(host int) string { return netip.AddrPortFrom(Addr(host), 7471).String() }

// begin makes the servers of a group.
func (g *group) begin(hosts []*flowHost) error {
	for _, h := range g.hosts {
		tr, err := raftroce.New(context.Background(),
			raftroce.Config{Device: hosts[h].device, Addr: logAddr(h), RingBytes: 64 << 10, Timeout: time.Second})
		if err != nil {
			return err
		}
		s := &server{tr: tr, m: &machine{}}
		s.m.sum.SetSeed(seed)
		g.servers = append(g.servers, s)
		c := raft.DefaultConfig()
		c.LocalID, c.Logger = raft.ServerID(logAddr(h)), hclog.NewNullLogger()
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = heartbeat, heartbeat, heartbeat
		store := raft.NewInmemStore()
		if s.r, err = raft.NewRaft(c, s.m, store, store, raft.NewInmemSnapshotStore(), tr); err != nil {
			return err
		}
	}
	return nil
}

// lead waits until the first server leads: the others do not know who is in the group before it
// tells them.
func (g *group) lead() error {
	var c raft.Configuration
	for _, h := range g.hosts {
		c.Servers = append(c.Servers,
			raft.Server{ID: raft.ServerID(logAddr(h)), Address: raft.ServerAddress(logAddr(h))})
	}
	first := g.servers[0].r
	if err := first.BootstrapCluster(c).Error(); err != nil {
		return err
	}
	if leads := <-first.LeaderCh(); !leads {
		return fmt.Errorf("%s does not lead", g.servers[0].tr.LocalAddr())
	}
	return first.Barrier(0).Error()
}

// client commits one entry after the other.
func (g *group) client(fabric *sim.Fabric, l Log, number, client int) error {
	entry := make([]byte, l.Bytes)
	rng := rand.New(rand.NewPCG(uint64(number), uint64(client)))
	for begin := time.Now(); time.Since(begin) < l.For; {
		for i := range entry {
			entry[i] = byte(rng.Uint32())
		}
		fabric.Turn()
		at := time.Now()
		if err := g.servers[0].r.Apply(slices.Clone(entry), 0).Error(); err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
		took := time.Since(at)
		g.mu.Lock()
		g.commits = append(g.commits, took)
		g.mu.Unlock()
	}
	return nil
}

// check compares what the members have applied.
func (g *group) check() error {
	_, want := g.servers[0].m.applied()
	for _, s := range g.servers {
		if n, sum := s.m.applied(); n != len(g.commits) || sum != want {
			return fmt.Errorf(
				"%s has applied %d entries, another log than that of its leader, or not the %d that were committed",
				s.tr.LocalAddr(), n, len(g.commits))
		}
	}
	return nil
}

func (g *group) close() (err error) {
	for _, s := range g.servers {
		if s.r != nil {
			err = errors.Join(err, s.r.Shutdown().Error())
		}
	}
	for _, s := range g.servers {
		err = errors.Join(err, s.tr.Close())
	}
	return err
}
