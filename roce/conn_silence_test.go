package roce

import (
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// A host that nothing comes from or gets to for half a minute has its connections afterwards, and
// what was sent meanwhile arrives within about a second.
func TestConnOutlastsSilence(t *testing.T) {
	ctx := rocetest.Context(t)
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	a, b := ds[0].Addrs()[0], ds[1].Addrs()[0]
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	for range 3 {
		f.Partition(a, b, true)
		end := f.Now() + int64(35*time.Second)
		f.At(end, func() { f.Partition(a, b, false) })
		require.NoError(t, c.Send(ctx, []byte("are you there?")))
		require.Less(t, f.Now()-end, int64(1100*time.Millisecond))
		buf := make([]byte, 100)
		n, err := s.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, "are you there?", string(buf[:n]))
	}
}

func TestSilenceTimeoutBounds(t *testing.T) {
	cfg := ConnConfig{SilenceTimeout: 25 * time.Hour}
	var arg *ArgError
	require.ErrorAs(t, cfg.check("dial"), &arg)
	require.Equal(t, "SilenceTimeout", arg.Arg)
	cfg.SilenceTimeout = -1
	require.NoError(t, cfg.check("dial"))
}
