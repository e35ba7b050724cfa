package roce

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A client may send as soon as it has the REP. So the receives of an accepted connection are posted
// before that: here nothing confirms the connection but the message itself, and the client may not
// try again where none is posted.
func TestFirstMessageFindsReceives(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, net *sim.Fabric) {
		ctx := t.Context()
		var ds [2]*verbs.Device
		for i := range ds {
			l, err := net.Link(rocetest.SimAddr(i + 1))
			require.NoError(t, err)
			ds[i] = rocetest.OpenDevice(t, verbs.Config{Link: l,
				WrapLink: rocetest.FilterMADs(func(a mad.Attribute) bool { return a == mad.AttrRTU })})
		}
		param := rdmacm.DefaultConnParam()
		param.RNRRetryCount = 0
		l := listenOn(t, ds[1], ListenConfig{ConnConfig: ConnConfig{Param: &param}})
		got := make(chan *Conn, 1)
		go func() {
			s, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		c, err := (&Dialer{ConnConfig: ConnConfig{Device: ds[0]}}).DialAddr(ctx, l.Addr())
		require.NoError(t, err)
		long := make([]byte, DefaultRecvBytes)
		long[len(long)-1] = 7
		require.NoError(t, c.Send(ctx, long))
		s := <-got
		require.NotNil(t, s)
		m, err := s.RecvMsg(ctx)
		require.NoError(t, err)
		require.Equal(t, long, m.Bytes())
		require.NoError(t, m.Release())
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	})
}
