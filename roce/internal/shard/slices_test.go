package shard

import (
	"runtime"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// sliced is a machine with two CPUs that notes whether slices are short.
type sliced struct {
	twoCPUs
	short, long int
}

func (m *sliced) ShortSlices(short bool) {
	if short {
		m.short++
	} else {
		m.long++
	}
}

// Receivers that let others run, which soon give the CPU back, want short slices, and long ones
// again when that was long ago.
func TestShortSlices(t *testing.T) {
	yield := int64(300)
	s, two, l := demanded(&yield)
	m := &sliced{twoCPUs: *two}
	s.machine = m
	look := func() {
		s.find(l)
		s.lookInVain(l)
	}
	for range shareOf {
		look()
	}
	require.Zero(t, m.short, "nobody wants the CPU")
	yield = 2 * hoggedNs
	for range shareOf {
		look()
		l.now += staleNs
	}
	require.Zero(t, m.short, "unrelated work has it for long")
	yield = 20_000
	for range shareOf {
		look()
	}
	require.Equal(t, 1, m.short)
	yield = 300
	for range 4 * shareOf {
		look()
	}
	require.Zero(t, m.long)
	l.now += maxBackOff * staleNs
	look()
	require.Equal(t, 1, m.long)
	require.Equal(t, 1, m.short)

	// Threads of a program in another language sleep for events, and batches of them do better.
	s.threads.Store(true)
	yield = 20_000
	for range 4 * shareOf {
		look()
	}
	require.Equal(t, 1, m.short)
}

// A device that ends wants nothing any more, whatever threads still call.
func TestSlicesEnd(t *testing.T) {
	_, s := newStill(t)
	m := &sliced{twoCPUs: twoCPUs{oneCPU{ran: func() {}}}}
	s.machine = m
	s.GiveWay(1)
	require.Zero(t, m.short, "the peer has the other CPU")
	for range 3 {
		s.GiveWay(2)
	}
	require.Equal(t, 1, m.short)
	require.NoError(t, s.Close())
	require.Equal(t, 1, m.long)
	s.GiveWay(2)
	require.Equal(t, m.short, m.long)
}

// The kernel has the slices of all threads short until no shard wants that.
func TestSliceThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slice := func() uint64 {
		a, err := unix.SchedGetAttr(0, 0)
		require.NoError(t, err)
		return a.Runtime
	}
	if !unix.Linux {
		t.Skip("time slices are set on Linux")
	}
	usual := slice()
	if usual == 0 {
		t.Skip("the kernel sets no time slices: Linux before 6.12")
	}
	var c computer
	c.ShortSlices(true)
	c.ShortSlices(true)
	require.EqualValues(t, 100_000, slice())
	c.ShortSlices(false)
	require.EqualValues(t, 100_000, slice(), "another shard wants them")
	c.ShortSlices(false)
	require.Equal(t, usual, slice())
	require.Less(t, uint64(100_000), usual)
}
