package sim_test

import (
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/stretchr/testify/require"
)

// A stream over a long path has buffers that hold what is on its way, and what its grants wait for.
func TestStreamFillsLongPath(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1, MTU: ib.MTU4096}, func(t *testing.T, network *sim.Fabric) {
		const rate, trip = 200e6, 100 * time.Millisecond
		from, to := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddrPort("192.0.2.2:80")
		way := sim.Pipe{BitsPerSecond: rate, Latency: trip / 2, QueueBytes: 1500e3}
		network.Route(from, to.Addr(), network.NewTrunk(way))
		network.Route(to.Addr(), from, network.NewTrunk(way))
		l, err := (&rsocket.ListenConfig{Device: openDevice(t, network, to.Addr())}).ListenAddr(to)
		require.NoError(t, err)
		done := make(chan float64)
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			b := make([]byte, 256<<10)
			read := func(d time.Duration) (n int) {
				for until := time.Now().Add(d); time.Now().Before(until); {
					k, err := c.Read(b)
					if err != nil && err != io.EOF {
						t.Error(err)
						return n
					}
					n += k
				}
				return n
			}
			read(2 * time.Second)
			done <- float64(read(time.Second)) * 8 / 1e6
			_ = c.Close()
		}()
		c, err := (&rsocket.Dialer{Device: openDevice(t, network, from)}).DialAddr(t.Context(), to)
		require.NoError(t, err)
		go func() {
			b := make([]byte, 256<<10)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
		got := <-done
		require.Greater(t, got, 190.0, "Mb/s")
		_ = c.Close()
		_ = l.Close()
	})
}
