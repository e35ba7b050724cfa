package raftroce

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/goroce/goroce/bench/apps/kv"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

var rounds = flag.Int("rounds", 3, "faults in each cluster of TestLinearizable")

func host(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}) }

// transport makes a host of a fabric with a transport.
func transport(t *testing.T, fabric *sim.Fabric, i, ringBytes int) *Transport {
	link, err := fabric.Link(host(i))
	if err != nil {
		t.Fatal(err)
	}
	d, err := verbs.Open(verbs.Config{Link: link})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := New(t.Context(), Config{Device: d, Addr: netip.AddrPortFrom(host(i), 7471).String(),
		RingBytes: ringBytes, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tr.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// node is one server of a cluster.
type node struct {
	r  *raft.Raft
	tr *Transport
}

func cluster(t *testing.T, fabric *sim.Fabric, n int) (nodes []node) {
	var servers []raft.Server
	for i := range n {
		tr := transport(t, fabric, i, 256<<10)
		nodes = append(nodes, node{tr: tr})
		servers = append(servers, raft.Server{ID: raft.ServerID(fmt.Sprint(i)), Address: tr.LocalAddr()})
	}
	for i := range nodes {
		c := raft.DefaultConfig()
		c.LocalID = servers[i].ID
		c.Logger = hclog.NewNullLogger()
		c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 200, time.Second, 20
		store := raft.NewInmemStore()
		r, err := raft.NewRaft(c, kv.New(), store, store, raft.NewInmemSnapshotStore(), nodes[i].tr)
		if err != nil {
			t.Fatal(err)
		}
		nodes[i].r = r
		t.Cleanup(func() {
			if err := r.Shutdown().Error(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := nodes[0].r.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// sleep waits in the time of the simulation.
func sleep(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// Clients use a cluster whose network loses packets and, each round, cuts one of the servers off:
// the leader more often than others. What they saw must be what one map could have shown them, and
// nothing that was acknowledged is lost.
func TestLinearizable(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			sim.Test(t, sim.Config{
				Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.005},
			}, func(t *testing.T, fabric *sim.Fabric) {
				nodes := cluster(t, fabric, n)
				begin := time.Now()
				var mu sync.Mutex
				var history []porcupine.Operation
				done := 0
				ctx, stop := context.WithCancel(t.Context())
				var clients sync.WaitGroup
				for id := range 4 {
					clients.Go(func() {
						for number := 0; ctx.Err() == nil; number++ {
							op := kv.Op{Put: rand.N(2) == 0, Key: fmt.Sprint("key ", rand.N(20)),
								Value: fmt.Sprintf("%d of client %d", number, id)}
							o := porcupine.Operation{ClientId: id, Input: op, Call: int64(time.Since(begin))}
							f := nodes[rand.N(len(nodes))].r.Apply(op.Encode(), time.Second)
							err := f.Error()
							o.Return = int64(time.Since(begin))
							switch {
							case err == nil:
								o.Output = f.Response()
							case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout):
								sleep(ctx, 10*time.Millisecond)
								continue // it was not begun
							case op.Put: // it may have been done, or be done later
								o.Return = int64(1 << 62)
							default:
								continue
							}
							mu.Lock()
							history = append(history, o)
							if err == nil {
								done++
							}
							mu.Unlock()
							sleep(ctx, time.Duration(rand.N(20))*time.Millisecond)
						}
					})
				}
				for range *rounds {
					sleep(ctx, 3*time.Second)
					victim := rand.N(len(nodes))
					if rand.N(4) > 0 {
						for i := range nodes {
							if nodes[i].r.State() == raft.Leader {
								victim = i
							}
						}
					}
					for i := range nodes {
						if i != victim {
							fabric.Partition(host(i), host(victim), true)
						}
					}
					sleep(ctx, time.Duration(1+rand.N(5))*time.Second)
					for i := range nodes {
						if i != victim {
							fabric.Partition(host(i), host(victim), false)
						}
					}
				}
				sleep(ctx, 3*time.Second)
				stop()
				clients.Wait()
				if done < 50**rounds {
					t.Errorf("only %d operations were done", done)
				}
				if err := kv.Check(history, 0); err != nil {
					t.Error(err)
				}
				snapshots := nodes[0].r.Stats()["last_snapshot_index"]
				t.Logf("%d operations, %d of them done, %v of virtual time, snapshot at %s", len(history),
					done, time.Since(begin), snapshots)
			})
		})
	}
}

// answers has a function in place of raft.
func answers(t *testing.T, tr *Transport, f func(raft.RPC)) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case rpc := <-tr.Consumer():
				f(rpc)
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// Each request and its answer come as they were.
func TestRequests(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1, Faults: sim.Faults{Loss: 0.02}}, func(t *testing.T, fabric *sim.Fabric) {
		a, b := transport(t, fabric, 0, 0), transport(t, fabric, 1, 0)
		header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("id"), Addr: []byte("addr")}
		appended := &raft.AppendEntriesRequest{RPCHeader: header, Term: 1, Leader: []byte("l"),
			PrevLogEntry: 2, PrevLogTerm: 3, LeaderCommitIndex: 4, Entries: []*raft.Log{
				{Index: 5, Term: 6, Type: raft.LogNoop}, {Index: 7, Term: 8, Type: raft.LogConfiguration,
					Data: []byte("data"), Extensions: []byte("ext")},
			}}
		big := make([]byte, 3*windowBytes+17)
		for i := range big {
			big[i] = byte(i * i >> 8)
		}
		var got any
		answers(t, b, func(rpc raft.RPC) {
			got = rpc.Command
			switch q := rpc.Command.(type) {
			case *raft.AppendEntriesRequest:
				rpc.Respond(&raft.AppendEntriesResponse{
					RPCHeader: header, Term: 9, LastLog: 10, Success: true, NoRetryBackoff: true,
				}, nil)
			case *raft.RequestVoteRequest:
				rpc.Respond(
					&raft.RequestVoteResponse{RPCHeader: header, Term: 9, Peers: []byte("peers"), Granted: true}, nil)
			case *raft.RequestPreVoteRequest:
				rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: header, Term: 9, Granted: true}, nil)
			case *raft.TimeoutNowRequest:
				rpc.Respond(nil, errors.New("not now"))
			case *raft.InstallSnapshotRequest:
				data, err := io.ReadAll(rpc.Reader)
				rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: header, Term: uint64(len(data)),
					Success: bytes.Equal(data, big[:max(q.Size, 0)])}, err)
			}
		})
		check := func(err error, want, response, wantResponse any) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(response, wantResponse) {
				t.Errorf("%+v, %+v; want %+v, %+v", got, response, want, wantResponse)
			}
		}
		for range 3 { // also on connections that were used before
			var ar raft.AppendEntriesResponse
			err := a.AppendEntries("b", b.LocalAddr(), appended, &ar)
			check(err, appended, &ar, &raft.AppendEntriesResponse{
				RPCHeader: header, Term: 9, LastLog: 10, Success: true, NoRetryBackoff: true,
			})
			vote := &raft.RequestVoteRequest{RPCHeader: header, Term: 1, Candidate: []byte("c"),
				LastLogIndex: 2, LastLogTerm: 3, LeadershipTransfer: true}
			var vr raft.RequestVoteResponse
			err = a.RequestVote("b", b.LocalAddr(), vote, &vr)
			check(err, vote, &vr,
				&raft.RequestVoteResponse{RPCHeader: header, Term: 9, Peers: []byte("peers"), Granted: true})
			pre := &raft.RequestPreVoteRequest{RPCHeader: header, Term: 1, LastLogIndex: 2, LastLogTerm: 3}
			var pr raft.RequestPreVoteResponse
			err = a.RequestPreVote("b", b.LocalAddr(), pre, &pr)
			check(err, pre, &pr, &raft.RequestPreVoteResponse{RPCHeader: header, Term: 9, Granted: true})
			var remote *RemoteError
			if err := a.TimeoutNow("b", b.LocalAddr(), &raft.TimeoutNowRequest{RPCHeader: header},
				&raft.TimeoutNowResponse{}); !errors.As(err, &remote) || remote.Text != "not now" {
				t.Error(err)
			}
			for _, size := range []int64{0, 1, windowBytes, int64(len(big))} {
				snapshot := &raft.InstallSnapshotRequest{RPCHeader: header, SnapshotVersion: 1, Term: 2,
					Leader: []byte("l"), LastLogIndex: 3, LastLogTerm: 4, Peers: []byte("p"),
					Configuration: []byte("conf"), ConfigurationIndex: 5, Size: size}
				var sr raft.InstallSnapshotResponse
				err = a.InstallSnapshot("b", b.LocalAddr(), snapshot, &sr, bytes.NewReader(big[:size]))
				check(err, snapshot, &sr,
					&raft.InstallSnapshotResponse{RPCHeader: header, Term: uint64(size), Success: true})
			}
		}
		for _, size := range []int64{-1, -1 << 63} {
			var sr raft.InstallSnapshotResponse
			a.InstallSnapshot("b", b.LocalAddr(), &raft.InstallSnapshotRequest{Size: size}, &sr, bytes.NewReader(big))
		}
		short := &raft.InstallSnapshotRequest{Size: 100}
		if err := a.InstallSnapshot("b", b.LocalAddr(), short, &raft.InstallSnapshotResponse{},
			bytes.NewReader(big[:99])); err == nil {
			t.Error("a snapshot that ends too soon is whole")
		}
	})
}

// Requests of a pipeline go round a small ring many times and are answered in order; the ring never
// has more than it can.
func TestPipeline(t *testing.T) {
	sim.Test(t, sim.Config{
		Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.01},
	}, func(t *testing.T, fabric *sim.Fabric) {
		a, b := transport(t, fabric, 0, 0), transport(t, fabric, 1, 8<<10)
		answers(t, b, func(rpc raft.RPC) {
			q := rpc.Command.(*raft.AppendEntriesRequest)
			sum := uint64(0)
			for _, l := range q.Entries {
				for _, b := range l.Data {
					sum += uint64(b)
				}
			}
			rpc.Respond(&raft.AppendEntriesResponse{Term: q.Term, LastLog: sum}, nil)
		})
		p, err := a.AppendEntriesPipeline("b", b.LocalAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		const n = 500
		want := make(chan uint64, n)
		go func() {
			for i := range uint64(n) {
				data := bytes.Repeat([]byte{byte(i)}, rand.N(4000))
				want <- uint64(byte(i)) * uint64(len(data))
				if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: i, Entries: []*raft.Log{{Data: data}}},
					new(raft.AppendEntriesResponse)); err != nil {
					t.Error(err)
					return
				}
			}
			var tooLong raft.AppendEntriesRequest
			tooLong.Entries = []*raft.Log{{Data: make([]byte, 8<<10)}}
			if _, err := p.AppendEntries(&tooLong, nil); err == nil {
				t.Error("a request that is longer than the ring was sent")
			}
		}()
		for i := range uint64(n) {
			f := <-p.Consumer()
			if err := f.Error(); err != nil {
				t.Fatal(err)
			}
			if r := f.Response(); r.Term != i || r.LastLog != <-want || f.Request().Term != i {
				t.Fatalf("answer %d is %+v", i, r)
			}
		}
	})
}

// Two requests that are under way at once take no longer than one: the follower does not wait until
// the leader has its answer.
func TestOverlap(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		a, b := transport(t, fabric, 0, 0), transport(t, fabric, 1, 0)
		answers(t, b, func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{}, nil) })
		p, err := a.AppendEntriesPipeline("b", b.LocalAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		took := func(n int) time.Duration {
			begin := time.Now()
			go func() {
				for range n {
					if _, err := p.AppendEntries(&raft.AppendEntriesRequest{},
						new(raft.AppendEntriesResponse)); err != nil {
						t.Error(err)
					}
				}
			}()
			for range n {
				if err := (<-p.Consumer()).Error(); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begin)
		}
		if one, two := took(1), took(2); two > one*3/2 {
			t.Errorf("two requests take %v, one %v", two, one)
		}
	})
}

// A peer that writes rubbish into its ring loses its connection, and nothing else happens.
func TestRubbish(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		a, b := transport(t, fabric, 0, 0), transport(t, fabric, 1, 1<<10)
		answers(t, b, func(rpc raft.RPC) { t.Errorf("%+v", rpc.Command) })
		ctx := t.Context()
		for _, request := range []string{"\x00", "\xff", "\x01", "\x02" + string(make([]byte, 8)),
			"\x01" + string(bytes.Repeat([]byte{0xff}, 100)), "\x04" + string(make([]byte, 50))} {
			s, err := a.dial(ctx, b.LocalAddr())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.write(ctx, []byte(request)); err != nil {
				t.Fatal(err)
			}
			if err := s.answer(ctx, nil, nil); err == nil {
				t.Errorf("an answer to %q", request)
			}
			s.c.Close()
		}
		s, err := a.dial(ctx, b.LocalAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer s.c.Close()
		if err := s.c.Send(ctx, []byte("a message that is no WRITE")); err != nil &&
			!errors.Is(err, roce.ErrMaybeDone) {
			t.Error(err)
		}
		if _, err := s.c.RecvMsg(ctx); err == nil {
			t.Error("an answer to a message")
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, &raft.AppendEntriesRequest{Entries: []*raft.Log{{Data: []byte("data")}}}))
	f.Add(encode(nil, &snapshotRequest{InstallSnapshotRequest: &raft.InstallSnapshotRequest{}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []any{new(raft.AppendEntriesRequest), new(raft.RequestVoteRequest),
			new(raft.RequestPreVoteRequest), new(raft.TimeoutNowRequest),
			new(raft.AppendEntriesResponse), new(raft.RequestVoteResponse),
			&snapshotRequest{InstallSnapshotRequest: new(raft.InstallSnapshotRequest)}} {
			if decode(b, m) == nil {
				again := encode(nil, m)
				if decode(again, m) != nil {
					t.Fatalf("%x is %+v, which cannot be decoded again", b, m)
				}
			}
		}
	})
}
