package roce

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// connPairWith connects two devices of a simulation, each side with parameters of its own.
func connPairWith(t testing.TB, client, server *rdmacm.ConnParam) (c, s *Conn, r *ConnRequest) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	l := listenOn(t, ds[1], ListenConfig{
		ConnConfig: ConnConfig{Param: server}, Handshake: func(got *ConnRequest) error { r = got; return nil },
	})
	both(func() {
		d := Dialer{ConnConfig: ConnConfig{Device: ds[0], Param: client}}
		var err error
		if c, err = d.DialAddr(ctx, l.Addr()); err != nil {
			t.Error(err)
		}
	}, func() {
		var err error
		if s, err = l.Accept(ctx); err != nil {
			t.Error(err)
		}
	})
	require.False(t, t.Failed())
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	})
	return c, s, r
}

// What a connection is made with when nobody says otherwise.
func TestConnDefaults(t *testing.T) {
	c, s, r := connPairWith(t, nil, nil)
	for name, conn := range map[string]*Conn{"client": c, "server": s} {
		a, _, err := conn.QP().Query()
		require.NoError(t, err)
		require.EqualValues(t, 12, a.MinRNRTimer, name)
		require.EqualValues(t, 7, a.RNRRetry, name)
		require.EqualValues(t, 7, a.RetryCnt, name)
		require.EqualValues(t, 16, a.Timeout, name)
		require.EqualValues(t, 16, a.MaxRdAtomic, name)
		require.EqualValues(t, 16, a.MaxDestRdAtomic, name)
	}
	require.EqualValues(t, 7, r.Peer.RNRRetryCount)
	require.EqualValues(t, 7, r.Peer.RetryCount)
	require.True(t, r.Peer.FlowControl)
}

// Each side has as much in flight as it wants and the other serves, tries as often as
// the other asks for when that has no receive posted, and asks for a wait of its own.
func TestConnParamsNegotiated(t *testing.T) {
	c, s, r := connPairWith(t,
		&rdmacm.ConnParam{ResponderResources: 3, InitiatorDepth: 5, RetryCount: 4, RNRRetryCount: 2, MinRNRTimer: 9},
		&rdmacm.ConnParam{ResponderResources: 4, InitiatorDepth: 2, RetryCount: 6, RNRRetryCount: 1, MinRNRTimer: 20})
	require.EqualValues(t, 5, r.Peer.ResponderResources)
	require.EqualValues(t, 3, r.Peer.InitiatorDepth)
	a, _, err := c.QP().Query()
	require.NoError(t, err)
	require.Equal(t, []int{4, 2, 4, 1, 9}, []int{
		int(a.MaxRdAtomic), int(a.MaxDestRdAtomic), int(a.RetryCnt), int(a.RNRRetry), int(a.MinRNRTimer),
	}, "client")
	a, _, err = s.QP().Query()
	require.NoError(t, err)
	require.Equal(t, []int{2, 4, 4, 2, 20}, []int{
		int(a.MaxRdAtomic), int(a.MaxDestRdAtomic), int(a.RetryCnt), int(a.RNRRetry), int(a.MinRNRTimer),
	}, "server")
}

// A peer that counts its tries waits as long for each as kernels let it: it gives up later than a
// busy machine runs the thread that posts the receive.
func TestConnFewRNRRetries(t *testing.T) {
	few := rdmacm.DefaultConnParam()
	few.RNRRetryCount = 5
	c, s, _ := connPairWith(t, &few, nil)
	for want, conn := range map[ib.RNRCode]*Conn{0: c, 12: s} {
		a, _, err := conn.QP().Query()
		require.NoError(t, err)
		require.Equal(t, want, a.MinRNRTimer)
	}
}

// A side that serves no READs is not asked for any: the call fails, and does not
// wait for an answer.
func TestConnServesNoReads(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s, _ := connPairWith(t, nil, &rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7})
	mr, err := s.Register(make([]byte, 64), verbs.AccessAll)
	require.NoError(t, err)
	require.NoError(t, c.Write(ctx, make([]byte, 8), mr.Remote()))
	err = c.Read(ctx, make([]byte, 8), mr.Remote())
	var se *StatusError
	require.ErrorAs(t, err, &se)
	require.Equal(t, verbs.WCLocalQPOpErr, se.WC.Status)
	_, err = c.FetchAdd(ctx, mr.Remote(), 1)
	require.ErrorAs(t, err, &se, "the connection is over, for the same reason")
	require.Equal(t, verbs.WCLocalQPOpErr, se.WC.Status)
}
