package reduce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/goroce/goroce/bench/apps/mesh"
	"github.com/goroce/goroce/roce/link/sim"
)

// learn runs servers and workers, and returns an error a rank.
func learn(t *testing.T, networks []mesh.Network, addrs []string, o Shared,
	work func(ctx context.Context, w *Worker, rank int) error) []error {
	t.Helper()
	errs := make([]error, len(addrs))
	var wait sync.WaitGroup
	for rank, network := range networks {
		wait.Go(func() {
			errs[rank] = func() error {
				if rank < o.Servers {
					s, err := JoinServer(t.Context(), network, addrs, rank, o)
					if err != nil {
						return err
					}
					return s.Serve(t.Context(), Add)
				}
				w, err := JoinWorker(t.Context(), network, addrs, rank, o)
				if err != nil {
					return err
				}
				return work(t.Context(), w, rank)
			}()
		})
	}
	wait.Wait()
	return errs
}

// steps has a worker push small whole numbers and compare the parameters with a serial sum: exactly
// where workers go in step, and else with what the staleness allows.
func steps(o Shared, steps int) func(context.Context, *Worker, int) error {
	return func(ctx context.Context, w *Worker, rank int) error {
		value := func(rank, step, i int) float32 { return float32((rank + step + i) % 16) }
		workers := w.g.Size() - o.Servers
		least := make([]float32, o.Length)
		for step := 1; step <= steps; step++ {
			for i := range w.Gradient {
				w.Gradient[i] = value(rank, step, i)
				least[i] += value(rank, step, i)
			}
			if err := w.Step(ctx); err != nil {
				return err
			}
			for i, got := range w.Params {
				low, high := least[i], least[i] // ours is there, and of others what may be and what has to be
				for r := o.Servers; r < o.Servers+workers; r++ {
					for s := 1; r != rank && s <= steps; s++ {
						if s <= step-o.Staleness {
							low += value(r, s, i)
						}
						if s <= step+o.Staleness {
							high += value(r, s, i)
						}
					}
				}
				if got < low || got > high {
					return fmt.Errorf("step %d of rank %d: parameter %d is %v, not %v to %v", step, rank,
						i, got, low, high)
				}
			}
		}
		return w.Leave(ctx)
	}
}

func TestParameterServer(t *testing.T) {
	for _, c := range []struct{ servers, workers, length, staleness int }{
		{1, 1, 10, 0}, {1, 3, 70000, 0}, {2, 3, 40001, 0}, {3, 2, 3, 0}, {2, 4, 70000, 2}, {1, 4, 1000, Unbounded},
	} {
		o := Shared{Servers: c.servers, Length: c.length, Staleness: c.staleness}
		t.Run(fmt.Sprintf("%d servers, %d workers, %d parameters, staleness %d", c.servers, c.workers,
			c.length, c.staleness), func(t *testing.T) {
			check := func(errs []error) {
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			}
			sim.Test(t, sim.Config{Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.01, Duplicate: 0.01}},
				func(t *testing.T, fabric *sim.Fabric) {
					networks, addrs := simulated(t, fabric, c.servers+c.workers)
					check(learn(t, networks, addrs, o, steps(o, 8)))
				})
			t.Run("TCP", func(t *testing.T) {
				networks, addrs := overTCP(t, c.servers+c.workers)
				check(learn(t, networks, addrs, o, steps(o, 8)))
			})
		})
	}
}

// Workers that go in step may leave after different steps: the others go on without them.
func TestWorkersLeaveInTurn(t *testing.T) {
	sim.Test(t, sim.Config{
		Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.01},
	}, func(t *testing.T, fabric *sim.Fabric) {
		o := Shared{Servers: 2, Length: 70000}
		networks, addrs := simulated(t, fabric, 5)
		errs := learn(t, networks, addrs, o, func(ctx context.Context, w *Worker, rank int) error {
			want := float32(0) // ranks 2 to 4 do as many steps as their rank says, with a gradient of one
			for step := 1; step <= rank; step++ {
				for i := range w.Gradient {
					w.Gradient[i] = 1
				}
				if err := w.Step(ctx); err != nil {
					return err
				}
				want += float32(3 - max(step-2, 0))
				for i, got := range w.Params {
					if got != want {
						return fmt.Errorf("step %d of rank %d: parameter %d is %v, not %v", step, rank, i, got, want)
					}
				}
			}
			return w.Leave(ctx)
		})
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
}

// A worker that goes without leaving is an error for every other member, and none hangs.
func TestWorkerGoes(t *testing.T) {
	sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
		o := Shared{Servers: 2, Length: 5000}
		networks, addrs := simulated(t, fabric, 5)
		errs := learn(t, networks, addrs, o, func(ctx context.Context, w *Worker, rank int) error {
			for step := 0; ; step++ {
				if step == 3 && rank == 4 {
					return w.Close()
				}
				if err := w.Step(ctx); err != nil {
					return err
				}
			}
		})
		for rank, err := range errs {
			if (err == nil) != (rank == 4) {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
}

// A server that goes is one, too.
func TestServerGoes(t *testing.T) {
	sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
		o := Shared{Servers: 2, Length: 5000, Staleness: Unbounded}
		networks, addrs := simulated(t, fabric, 4)
		var servers sync.WaitGroup
		errs := make([]error, 4)
		stop := make(chan struct{})
		for rank := range 4 {
			servers.Go(func() {
				if rank < 2 {
					s, err := JoinServer(t.Context(), networks[rank], addrs, rank, o)
					if err != nil {
						t.Error(err)
						return
					}
					if rank == 1 {
						go func() { <-stop; s.Close() }()
					}
					errs[rank] = s.Serve(t.Context(), Add)
					return
				}
				w, err := JoinWorker(t.Context(), networks[rank], addrs, rank, o)
				if err != nil {
					t.Error(err)
					return
				}
				for step := 0; errs[rank] == nil; step++ {
					if step == 3 && rank == 2 {
						close(stop)
					}
					errs[rank] = w.Step(t.Context())
				}
			})
		}
		servers.Wait()
		for rank, err := range errs {
			if err == nil {
				t.Errorf("rank %d has no error", rank)
			}
		}
	})
}
