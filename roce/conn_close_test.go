package roce

import (
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Close releases all memory that was registered in the connection's own domain, by
// whatever call, with its windows.
func TestConnCloseReleasesMemory(t *testing.T) {
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	warm, peer := connPair(t, ds[0], ds[1], ConnConfig{}) // the CM's own objects exist now
	require.NoError(t, warm.Close())
	require.NoError(t, peer.Close())
	before := ds[0].MemCounts()
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	buf, mapped, err := c.PD().AllocBuffer(4096, verbs.LocalWrite)
	require.NoError(t, err)
	registered, err := c.Register(make([]byte, 4096), verbs.LocalWrite|verbs.MWBind)
	require.NoError(t, err)
	plain, err := c.PD().RegisterMR(make([]byte, 4096), verbs.LocalWrite|verbs.MWBind, nil)
	require.NoError(t, err)
	for _, mr := range []*verbs.MR{registered, plain} {
		mw, err := c.PD().AllocMW(verbs.WindowType1)
		require.NoError(t, err)
		_, err = mw.Bind(c.PD(), mr, 0, 8, RemoteRead)
		require.NoError(t, err)
	}
	require.ErrorIs(t, buf.Close(), ErrBusy)
	require.NoError(t, c.Close())
	require.Equal(t, before, ds[0].MemCounts())
	require.NoError(t, buf.Close(), "nothing uses it any more")
	require.ErrorIs(t, use(mapped), verbs.ErrDestroyed)
	require.ErrorIs(t, use(plain), verbs.ErrDestroyed)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
}

// What only the application can end makes Close fail, for a reason that is told,
// and closing again finishes the job.
func TestConnCloseAgain(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	warm, peer := connPair(t, ds[0], ds[1], ConnConfig{})
	require.NoError(t, warm.Close())
	require.NoError(t, peer.Close())
	before := ds[0].MemCounts()

	t.Run("queue pair", func(t *testing.T) {
		c, s := connPair(t, ds[0], ds[1], ConnConfig{})
		cq, err := ds[0].CreateCQ(1, nil)
		require.NoError(t, err)
		qp, err := c.PD().CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq})
		require.NoError(t, err)
		for range 2 {
			require.ErrorIs(t, c.Close(), ErrBusy)
			require.ErrorIs(t, c.Send(ctx, nil), ErrClosed)
		}
		require.NoError(t, qp.Close())
		require.NoError(t, c.Close())
		require.Equal(t, before, ds[0].MemCounts())
		require.NoError(t, c.Close())
		require.NoError(t, cq.Close())
		require.NoError(t, s.Close())
	})
	t.Run("window on the application's domain", func(t *testing.T) {
		pd, err := ds[0].AllocPD()
		require.NoError(t, err)
		c, s := connPairOn(t, ds[0], ds[1], ConnConfig{PD: pd})
		mr, err := c.Register(make([]byte, 64), verbs.LocalWrite|verbs.MWBind)
		require.NoError(t, err)
		kept, err := pd.RegisterMR(make([]byte, 64), verbs.LocalWrite, nil)
		require.NoError(t, err)
		mw, err := pd.AllocMW(verbs.WindowType1)
		require.NoError(t, err)
		_, err = mw.Bind(pd, mr, 0, 8, RemoteRead)
		require.NoError(t, err)
		require.ErrorIs(t, c.Close(), ErrBusy)
		require.NoError(t, mw.Close())
		require.NoError(t, c.Close())
		require.ErrorIs(t, use(mr), verbs.ErrDestroyed)
		require.NoError(t, use(kept), "that is not the connection's")
		require.NoError(t, kept.Close())
		require.NoError(t, pd.Close())
		require.Equal(t, before, ds[0].MemCounts())
		require.NoError(t, s.Close())
	})
	t.Run("device closed first", func(t *testing.T) {
		f := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 2}), 2)
		c, s := connPair(t, f[0], f[1], ConnConfig{})
		require.NoError(t, f[0].Close())
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	})
}

// connPairOn is connPair with a configuration of the client only.
func connPairOn(t testing.TB, a, b *verbs.Device, cc ConnConfig) (client, server *Conn) {
	ctx := rocetest.Context(t)
	l := listenOn(t, b, ListenConfig{})
	got := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	cc.Device = a
	client, err := (&Dialer{ConnConfig: cc}).DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	return client, <-got
}

// use returns the error of an access to a region.
func use(mr *verbs.MR) error {
	_, err := mr.ReadAt(nil, 0)
	return err
}
