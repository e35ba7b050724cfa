package reduce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/apps/mesh"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// group runs f as each of n members, and waits for all of them.
func group(t *testing.T, networks []mesh.Network, addrs []string, length int,
	f func(ctx context.Context, m *Member, rank int) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	for rank, network := range networks {
		wait.Go(func() {
			piece := PieceOf(length / len(addrs))
			if length < 10_000 { // many blocks
				piece = 77
			}
			m, err := join(ctx, network, addrs, rank, length, piece)
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
				cancel()
				return
			}
			defer m.Close()
			err = f(ctx, m, rank)
			if err == nil && m.failed == nil {
				err = m.Leave(ctx)
			}
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
				cancel()
			}
		})
	}
	wait.Wait()
}

// simulated makes n hosts of a fabric.
func simulated(t *testing.T, fabric *sim.Fabric, n int) (networks []mesh.Network, addrs []string) {
	for i := range n {
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		link, err := fabric.Link(addr)
		if err != nil {
			t.Fatal(err)
		}
		d, err := verbs.Open(verbs.Config{Link: link})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		networks = append(networks, mesh.RoCE{Device: d})
		addrs = append(addrs, netip.AddrPortFrom(addr, 7471).String())
	}
	return networks, addrs
}

// overTCP has members on free ports of the loopback interface.
func overTCP(t *testing.T, n int) (networks []mesh.Network, addrs []string) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		networks, addrs = append(networks, mesh.TCP{}), append(addrs, l.Addr().String())
	}
	return networks, addrs
}

// sums has each member sum vectors that a serial sum in float64 is compared with. Small whole
// numbers add up without rounding, in whatever order.
func sums(calls, length int) func(context.Context, *Member, int) error {
	return func(ctx context.Context, m *Member, rank int) error {
		for call := range calls {
			topology := Topology(call % len(topologies))
			value := func(rank, i int) float32 { return float32((rank+1)*(i%1000+call)%4096 - 2048) }
			for i := range m.Vector {
				m.Vector[i] = value(rank, i)
			}
			if err := m.Sum(ctx, topology); err != nil {
				return err
			}
			for i, got := range m.Vector {
				var want float64
				for r := range m.g.Size() {
					want += float64(value(r, i))
				}
				if float64(got) != want {
					return fmt.Errorf("call %d, %v: element %d of %d is %v, the serial sum %v", call,
						topology, i, len(m.Vector), got, want)
				}
			}
		}
		return nil
	}
}

func TestSum(t *testing.T) {
	for _, c := range []struct{ members, length int }{{1, 10}, {2, 1}, {3, 2}, {4, 1000}, {5, 70000}, {16, 333},
		{2, 9000}, {3, 5000}} {
		t.Run(fmt.Sprintf("%d members, %d elements", c.members, c.length), func(t *testing.T) {
			sim.Test(t, sim.Config{Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.01, Duplicate: 0.01}},
				func(t *testing.T, fabric *sim.Fabric) {
					networks, addrs := simulated(t, fabric, c.members)
					group(t, networks, addrs, c.length, sums(9, c.length))
				})
			t.Run("TCP", func(t *testing.T) {
				networks, addrs := overTCP(t, c.members)
				group(t, networks, addrs, c.length, sums(9, c.length))
			})
		})
	}
}

// Members that run different calls have an error, and none hangs.
func TestMembersDisagree(t *testing.T) {
	for _, odd := range []Topology{Ring, Star, FullMesh} {
		t.Run(odd.String(), func(t *testing.T) {
			sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
				networks, addrs := simulated(t, fabric, 3)
				group(t, networks, addrs, 5000, func(ctx context.Context, m *Member, rank int) error {
					topology := odd
					if rank > 0 {
						topology = (odd + 1) % 3
					}
					if err := m.Sum(ctx, topology); err == nil {
						return errors.New("a sum of members that disagree")
					}
					return nil
				})
			})
		})
	}
}

// A member that goes between two calls is an error for all others, in each topology, and none
// hangs.
func TestMemberGoes(t *testing.T) {
	for _, topology := range []Topology{Ring, Star, FullMesh} {
		for gone := range 4 {
			t.Run(fmt.Sprintf("%v without %d", topology, gone), func(t *testing.T) {
				sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
					networks, addrs := simulated(t, fabric, 4)
					group(t, networks, addrs, 5000, func(ctx context.Context, m *Member, rank int) error {
						if err := m.Sum(ctx, topology); err != nil {
							return err
						}
						if rank == gone {
							m.failed = m.Close()
							if m.failed == nil {
								m.failed = net.ErrClosed
							}
							return nil
						}
						if err := m.Sum(ctx, topology); err == nil {
							return errors.New("a sum without one of the members")
						}
						if err := m.Sum(ctx, topology); err == nil {
							return errors.New("a sum of a group that has failed")
						}
						return nil
					})
				})
			})
		}
	}
}

// A member that a cut cable takes away is an error for the others, and for itself, as soon as it
// has been silent for too long.
func TestMemberVanishes(t *testing.T) {
	sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
		networks, addrs := simulated(t, fabric, 3)
		var cut time.Time
		group(t, networks, addrs, 5000, func(ctx context.Context, m *Member, rank int) error {
			for call := 0; ; call++ {
				if call == 3 && rank == 2 {
					cut = time.Now()
					for i := range byte(2) {
						fabric.Partition(netip.AddrFrom4([4]byte{192, 0, 2, 3}),
							netip.AddrFrom4([4]byte{192, 0, 2, i + 1}), true)
					}
				}
				if m.Sum(ctx, Ring) == nil {
					continue
				}
				if d := time.Since(cut); cut.IsZero() || d > 7*time.Second {
					return fmt.Errorf("an error %v after the cut", d)
				}
				return nil
			}
		})
	})
}
