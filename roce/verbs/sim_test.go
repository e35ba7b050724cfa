package verbs

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

func simAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// simPair opens two connected devices on a fabric.
func simPair(t testing.TB, f *sim.Fabric, bufBytes int, attr ...*ConnAttr) (a, b *end) {
	var ends [2]*end
	for i := range ends {
		l, err := f.Link(simAddr(i + 1))
		require.NoError(t, err)
		ends[i] = newEnd(t, openDevice(t, Config{Link: l, Rand: f.Rand()}), bufBytes, QPInitAttr{})
	}
	connect(t, ends[0], ends[1], attr...)
	return ends[0], ends[1]
}

func TestSimOperations(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := simPair(t, f, 1<<20)
	exercise(t, a, b, exerciseSizes)
}

// Everything that can go wrong on a wire does, and every byte is right.
func TestSimFaults(t *testing.T) {
	var all sim.Stats // of a few hundred packets a seed may lose none
	n := seeds.Run(t, 8, func(t *testing.T, seed uint64) {
		f := sim.New(sim.Config{Seed: seed, Faults: sim.Faults{
			Loss: 0.01, Duplicate: 0.02, Corrupt: 0.01, Reorder: 0.02, Jitter: 100,
		}})
		a, b := simPair(t, f, 1<<18)
		exercise(t, a, b, []int{0, 1, 4096, 4097, 100_000, 1 << 18})
		s := f.Stats()
		all.Lost += s.Lost
		all.Corrupted += s.Corrupted
		require.Equal(t, s.Corrupted > 0, a.d.Counters().DropICRC+b.d.Counters().DropICRC > 0)
	})
	if n >= 8 {
		require.NotZero(t, all.Lost)
		require.NotZero(t, all.Corrupted)
	}
}

// The same seed gives the same run, to the last counter and nanosecond.
func TestSimDeterministic(t *testing.T) {
	run := func() string {
		f := sim.New(sim.Config{Seed: 7, Faults: sim.Faults{Loss: 0.02, Duplicate: 0.02, Corrupt: 0.01, Reorder: 0.05}})
		a, b := simPair(t, f, 1<<18)
		exercise(t, a, b, []int{1, 4096, 100_000, 1 << 18})
		out := fmt.Sprintf("%d %+v %+v %+v %v", f.Now(), f.Stats(), a.d.Counters(), b.d.Counters(), a.mr.RKey())
		require.NoError(t, a.d.Close())
		require.NoError(t, b.d.Close())
		return out
	}
	first := run()
	require.Equal(t, first, run())
}
