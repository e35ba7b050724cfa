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

// What is said on a simulated network is the same for the same seed, to the last bit, and other
// with another one.
func TestRepeats(t *testing.T) {
	secret := []byte("0123456789abcdef")
	run := func(seed uint64) (said string) {
		sim.Test(t, sim.Config{Seed: seed, Faults: sim.Faults{Loss: 0.02}}, func(t *testing.T, net *sim.Fabric) {
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
			ctx, stop := context.WithCancel(t.Context())
			all.Go(func() {
				_ = l.Serve(ctx, Handler(func(string) []byte { return secret }, func(ctx context.Context, c *roce.Conn, _ string) error { return c.Wait(ctx) }))
			})
			var clients sync.WaitGroup
			for range 3 {
				clients.Go(func() {
					c, err := (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: cd}}).Dial(t.Context(), "192.0.2.1:7000")
					if err == nil {
						err = Client(t.Context(), c, Key{"x", secret})
					}
					if err != nil {
						t.Error(err)
					}
					c.Close()
				})
			}
			clients.Wait()
			stop()
			all.Wait()
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
