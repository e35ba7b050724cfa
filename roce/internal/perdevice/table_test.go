package perdevice

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// kept is an entry that refers to its device, as connections do.
type kept struct{ d *verbs.Device }

func open(t *testing.T, f *sim.Fabric, addr string) *verbs.Device {
	l, err := f.Link(netip.MustParseAddr(addr))
	require.NoError(t, err)
	d, err := verbs.Open(verbs.Config{Link: l, Rand: f.Rand()})
	require.NoError(t, err)
	return d
}

func (t *Table[T]) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m)
}

// A device has one entry, and another device another one. Entries of closed devices go with the next new one,
// although they refer to their device.
func TestOf(t *testing.T) {
	var table Table[kept]
	f := sim.New(sim.Config{})
	a, b := open(t, f, "10.0.0.1"), open(t, f, "10.0.0.2")
	of := func(d *verbs.Device) *kept { return table.Of(d, func() *kept { return &kept{d} }) }
	require.Same(t, of(a), of(a))
	require.NotSame(t, of(a), of(b))
	require.NoError(t, a.Close())
	require.Equal(t, 2, table.len())
	c := open(t, f, "10.0.0.3")
	of(c)
	require.Equal(t, 2, table.len())
	require.Same(t, b, of(b).d)
	require.NoError(t, b.Close())
	require.NoError(t, c.Close())
}

// Devices that were never opened have entries for as long as those that were closed.
func TestOfZeroDevice(t *testing.T) {
	var table Table[int]
	f := sim.New(sim.Config{})
	zero, d := &verbs.Device{}, open(t, f, "10.0.0.1")
	table.Of(zero, func() *int { return new(int) })
	table.Of(d, func() *int { return new(int) })
	require.Equal(t, 1, table.len())
	require.NoError(t, d.Close())
	runtime.KeepAlive(zero)
}

// The entry of a device that nobody refers to goes by itself.
func TestForgotten(t *testing.T) {
	var table Table[int]
	func() {
		d := open(t, sim.New(sim.Config{}), "10.0.0.1")
		table.Of(d, func() *int { return new(int) })
		require.NoError(t, d.Close())
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return table.len() == 0
	}, time.Minute, time.Millisecond)
}
