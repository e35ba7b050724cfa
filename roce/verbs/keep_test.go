package verbs

import (
	"net/netip"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// kept is what refers to its device, as connections do.
type kept struct{ d *Device }

func openKeeper(t *testing.T, f *sim.Fabric, addr string) *Device {
	l, err := f.Link(netip.MustParseAddr(addr))
	require.NoError(t, err)
	d, err := Open(Config{Link: l, Rand: f.Rand()})
	require.NoError(t, err)
	return d
}

// A device has one thing of a kind, another device another one, and so has a device that was never
// opened.
func TestPerDevice(t *testing.T) {
	var table, other access.PerDevice[kept]
	f := sim.New(sim.Config{})
	a, b, zero := openKeeper(t, f, "10.0.0.1"), openKeeper(t, f, "10.0.0.2"), new(Device)
	made := 0
	of := func(p *access.PerDevice[kept], d *Device) *kept {
		return access.KeptOn(d, p, func() *kept { made++; return &kept{d} })
	}
	for range 2 {
		for _, d := range []*Device{a, b, zero} {
			require.Same(t, d, of(&table, d).d)
			require.NotSame(t, of(&table, d), of(&other, d))
		}
	}
	require.Equal(t, 6, made)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

// What is kept on a device goes with it, although it refers to the device.
func TestPerDeviceGoes(t *testing.T) {
	var table access.PerDevice[kept]
	var w weak.Pointer[kept]
	func() {
		d := openKeeper(t, sim.New(sim.Config{}), "10.0.0.1")
		w = weak.Make(access.KeptOn(d, &table, func() *kept { return &kept{d} }))
		require.NoError(t, d.Close())
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return w.Value() == nil
	}, time.Minute, time.Millisecond)
}
