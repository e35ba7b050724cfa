package roce

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A side whose protection domains or memory regions are used up, at whatever step of
// making a connection, makes none: Dial says so, a listener refuses for want of
// resources and goes on, and nothing is left.
func TestConnExhausted(t *testing.T) {
	// Queue pair 1 has one of each.
	limits := []mem.Limits{{PDs: 1}, {Regions: 1}, {}}
	for side, name := range []string{"client", "server"} {
		for _, limit := range limits {
			t.Run(fmt.Sprintf("%s %d PDs %d regions", name, limit.PDs, limit.Regions), func(t *testing.T) {
				ctx := rocetest.Context(t)
				f := sim.New(sim.Config{Seed: 1})
				var ds [2]*verbs.Device
				for i := range ds {
					l, err := f.Link(rocetest.SimAddr(i + 1))
					require.NoError(t, err)
					cfg := verbs.Config{Link: l, Rand: f.Rand()}
					if i == side {
						cfg.MemLimits = limit
					}
					ds[i] = rocetest.OpenDevice(t, cfg)
				}
				l := listenOn(t, ds[1], ListenConfig{})
				served := make(chan struct{})
				go func() {
					defer close(served)
					for {
						c, err := l.Accept(ctx)
						if err != nil {
							return
						}
						_ = c.Wait(ctx)
						_ = c.Close()
					}
				}()
				d := Dialer{ConnConfig: ConnConfig{Device: ds[0]}}
				for range 2 {
					c, err := d.DialAddr(ctx, l.Addr())
					var rej *RejectedError
					switch {
					case limit == mem.Limits{}:
						require.NoError(t, err)
						require.NoError(t, c.Close())
					case name == "client":
						require.ErrorIs(t, err, ErrLimit)
					default:
						require.ErrorAs(t, err, &rej)
						require.Equal(t, mad.RejectNoResources, rej.Reason)
					}
				}
				require.NoError(t, l.Close())
				<-served
				f.RunFor(100e9)
				requireNothing(t, ds[0])
				requireNothing(t, ds[1])
			})
		}
	}
}
