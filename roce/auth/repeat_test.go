package auth

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// served opens two hosts of a simulated network: connections to the one authenticate, and wait
// until it stops.
func served(t *testing.T, net *sim.Fabric) (dial func() (*roce.Conn, error), stop func()) {
	open := func(a string) *verbs.Device {
		l, err := net.Link(netip.MustParseAddr(a))
		require.NoError(t, err)
		d, err := verbs.Open(verbs.Config{Link: l})
		require.NoError(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	sd, cd := open("192.0.2.1"), open("192.0.2.2")
	l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: sd}}).Listen(t.Context(), "192.0.2.1:7000")
	require.NoError(t, err)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		_ = l.Serve(ctx,
			Handler(lookup, func(ctx context.Context, c *roce.Conn, _ string) error { return c.Wait(ctx) }))
	})
	dial = func() (*roce.Conn, error) {
		return (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: cd}}).Dial(t.Context(), "192.0.2.1:7000")
	}
	return dial, func() { cancel(); all.Wait() }
}

// What is said on a simulated network is the same for the same seed, to the last bit, and other
// with another one.
func TestRepeats(t *testing.T) {
	run := func(seed uint64) (said string) {
		sim.Test(t, sim.Config{Seed: seed, Faults: sim.Faults{Loss: 0.02}}, func(t *testing.T, net *sim.Fabric) {
			dial, stop := served(t, net)
			var clients sync.WaitGroup
			for range 3 {
				clients.Go(func() {
					c, err := dial()
					if err == nil {
						err = Client(t.Context(), c, Key{"known", secret})
					}
					if err != nil {
						t.Error(err)
					}
					c.Close()
				})
			}
			clients.Wait()
			stop()
			said = net.Transcript()
		})
		return said
	}
	first := run(1)
	for range 3 {
		require.Equal(t, first, run(1))
	}
	require.NotEqual(t, first, run(2))
}

// Random bytes are drawn in turn: of two goroutines that draw at the same time the one that was
// started first has the first ones, though the other was there before it.
func TestDrawsInTurn(t *testing.T) {
	sim.Test(t, sim.Config{}, func(t *testing.T, net *sim.Fabric) {
		dial, stop := served(t, net)
		defer stop()
		c, err := dial()
		require.NoError(t, err)
		defer c.Close()
		there := make(chan struct{})
		var mu sync.Mutex
		var order []int
		draw := func(i int) {
			if err := random(c, make([]byte, 8)); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		}
		var both sync.WaitGroup
		both.Go(func() { <-there; draw(1) })
		both.Go(func() { close(there); draw(2) })
		both.Wait()
		require.Equal(t, []int{1, 2}, order)
	})
}
