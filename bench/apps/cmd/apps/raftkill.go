package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/goroce/goroce/bench/apps/kv"
)

// raftKill has clients use a cluster whose servers are killed and stopped, and checks what they
// saw. Every hundred rounds the history is checked and a new one begun: of keys of its own, since
// an operation whose end is not known may still be done later.
func raftKill(ctx context.Context, name string, nodes, rounds int) error {
	addrs, err := freePorts(nodes)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "raft")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	servers := make([]*raftServer, nodes)
	start := func(i int) error {
		d := filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
		s, err := raftStart(ctx, name, addrs, i, d)
		mu.Lock()
		defer mu.Unlock()
		servers[i] = s
		return err
	}
	for i := range servers {
		if err := start(i); err != nil {
			return err
		}
	}
	get := func(i int) *raftServer {
		mu.Lock()
		defer mu.Unlock()
		return servers[i]
	}
	begin := time.Now()
	var total, done, kills, stops int
	var longest time.Duration
	for part := 0; rounds > 0; part++ {
		n := min(rounds, 100)
		rounds -= n
		var history []porcupine.Operation
		var clients sync.WaitGroup
		clientsRun, stop := context.WithCancel(ctx)
		last := time.Now() // when an operation was done
		for id := range 3 {
			clients.Go(func() {
				for number := 0; clientsRun.Err() == nil; number++ {
					op := kv.Op{Put: rand.N(2) == 0, Key: fmt.Sprintf("part %d, key %d", part, rand.N(10)),
						Value: fmt.Sprintf("%d of %d", number, id)}
					o := porcupine.Operation{ClientId: id, Input: op, Call: int64(time.Since(begin))}
					s := get(rand.N(nodes))
					for i := range nodes {
						if l := get(i); l.leader() {
							s = l
						}
					}
					c, err := s.ask(raftRequest{Op: &op})
					var a raftAnswer
					if err == nil {
						t := time.NewTimer(3 * time.Second)
						select {
						case a = <-c:
						case <-t.C:
						}
						t.Stop()
					}
					o.Return = int64(time.Since(begin))
					if a.Never {
						wait(ctx, 5*time.Millisecond)
						continue
					}
					if a.Done {
						o.Output = a.Value
					} else if op.Put {
						o.Return = 1 << 62
					}
					mu.Lock()
					if a.Done {
						if out := time.Since(last); out > longest {
							longest = out
						}
						done++
						last = time.Now()
					}
					if a.Done || op.Put {
						history = append(history, o)
					}
					mu.Unlock()
				}
			})
		}
		for range n {
			wait(ctx, time.Duration(200+rand.N(600))*time.Millisecond)
			victim := rand.N(nodes)
			if rand.N(4) > 0 {
				for i := range nodes {
					if get(i).leader() {
						victim = i
					}
				}
			}
			p := get(victim)
			if rand.N(3) == 0 { // it comes back, and thinks that it leads
				stops++
				p.cmd.Process.Signal(syscall.SIGSTOP)
				wait(ctx, time.Duration(rand.N(2000))*time.Millisecond)
				p.cmd.Process.Signal(syscall.SIGCONT)
				continue
			}
			kills++
			p.cmd.Process.Kill()
			<-p.done
			wait(ctx, time.Duration(rand.N(1000))*time.Millisecond)
			if err := start(victim); err != nil {
				stop()
				return err
			}
		}
		wait(ctx, 2*time.Second)
		stop()
		clients.Wait()
		total += len(history)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := kv.Check(history, time.Minute); err != nil {
			return fmt.Errorf("%s: in rounds up to %d: %w", name, kills+stops, err)
		}
	}
	if done == 0 {
		return errors.New("nothing was ever committed")
	}
	fmt.Printf("%s: %d servers, %d times kill -9 and %d times SIGSTOP: %d operations, %d of them acknowledged, in %v; the history is linearizable, nothing acknowledged is lost; the longest time without a commit was %v\n",
		name, nodes, kills, stops, total, done, time.Since(begin).Round(time.Second), longest.Round(time.Millisecond))
	return nil
}
