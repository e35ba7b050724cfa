package rdmacm_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/stretchr/testify/require"
)

// A connection is asked for before the server listens.
func TestListenWait(t *testing.T) {
	for _, ps := range []rdmacm.PortSpace{rdmacm.PortSpaceTCP, rdmacm.PortSpaceUDP} {
		t.Run(ps.String(), func(t *testing.T) {
			ctx := rocetest.Context(t)
			c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
			const port = 4711
			cid := c.Resolve(t, ctx, ps, netip.AddrPortFrom(s.D.Addrs()[0], port))
			p := rdmacm.DefaultConnParam()
			p.ListenWait = -1
			require.ErrorIs(t, cid.Connect(&p), roce.ErrInvalidAttr)
			p.ListenWait = time.Second
			require.NoError(t, cid.Connect(&p))
			rocetest.Fabric(c.D).RunFor(p.ListenWait / 2)
			require.Nil(t, c.Ch.Poll())
			s.Listen(t, ps, port)
			s.Next(t, ctx, rdmacm.EventConnectRequest)
		})
	}
}
