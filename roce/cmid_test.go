package roce

import (
	"context"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// peer is a device with a channel and what queue pairs need.
type cmPeer struct {
	*end
	ch *EventChannel
}

func newCMPeer(t testing.TB, cfg Config) *cmPeer {
	return peerOn(t, openDevice(t, cfg))
}

// next returns the next event, which must be of a type.
func (p *cmPeer) next(t testing.TB, ctx context.Context, want CMEventType) *CMEvent {
	e, err := p.ch.Get(ctx)
	require.NoError(t, err, "waiting for %v", want)
	require.Equal(t, want.String(), e.Type.String(), "%v", e.Err)
	return e
}

func (p *cmPeer) listen(t testing.TB, ps PortSpace, port uint16) *CMID {
	id, err := p.d.CreateID(p.ch, ps)
	require.NoError(t, err)
	require.NoError(t, id.BindAddr(netip.AddrPortFrom(p.d.addrs[0], port)))
	require.NoError(t, id.Listen(0))
	return id
}

// resolve returns an ID with a queue pair, ready to connect.
func (p *cmPeer) resolve(t testing.TB, ctx context.Context, ps PortSpace, to netip.AddrPort) *CMID {
	id, err := p.d.CreateID(p.ch, ps)
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(netip.AddrPort{}, to))
	p.next(t, ctx, CMAddrResolved)
	require.NoError(t, id.ResolveRoute())
	p.next(t, ctx, CMRouteResolved)
	p.addQP(t, id)
	return id
}

func (p *cmPeer) addQP(t testing.TB, id *CMID) {
	qp, err := id.CreateQP(p.pd, QPInitAttr{SendCQ: p.cq})
	require.NoError(t, err)
	p.qp = qp
}

func TestCMConnect(t *testing.T) {
	ctx := testContext(t)
	s, c := newCMPeer(t, Config{}), newCMPeer(t, Config{})
	lid := s.listen(t, PortSpaceTCP, 7471)
	cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
	p := DefaultConnParam()
	p.PrivateData = []byte("hello")
	p.InitiatorDepth, p.ResponderResources = 3, 200
	require.NoError(t, cid.Connect(&p))

	e := s.next(t, ctx, CMConnectRequest)
	require.Equal(t, lid, e.ListenID)
	require.Equal(t, "hello", string(e.PrivateData[:5]))
	require.Len(t, e.PrivateData, MaxConnectPrivate)
	require.EqualValues(t, 3, e.Conn.ResponderResources)
	require.EqualValues(t, maxRdAtomic, e.Conn.InitiatorDepth)
	require.Equal(t, cid.LocalAddr(), e.ID.RemoteAddr())
	sid := e.ID
	s.addQP(t, sid)
	require.NoError(t, s.qp.PostRecv(&RecvWR{ID: 1, SGList: []SGE{s.mr.SGE(0, 100)}}))
	a := DefaultConnParam()
	a.PrivateData = []byte("welcome")
	require.NoError(t, sid.Accept(&a))
	e = c.next(t, ctx, CMEstablished)
	require.Equal(t, "welcome", string(e.PrivateData[:7]))
	require.EqualValues(t, 3, e.Conn.InitiatorDepth)
	s.next(t, ctx, CMEstablished)

	exercise(t, &end{d: c.d, cq: c.cq, qp: c.qp, mr: c.mr, buf: c.buf}, &end{d: s.d, cq: s.cq, qp: s.qp, mr: s.mr, buf: s.buf}, nil)
	attr, _, err := c.qp.Query()
	require.NoError(t, err)
	require.EqualValues(t, 3, attr.MaxRdAtomic)
	attr, _, err = s.qp.Query()
	require.NoError(t, err)
	require.EqualValues(t, 3, attr.MaxDestRdAtomic)

	require.NoError(t, cid.Disconnect(nil))
	c.next(t, ctx, CMDisconnected)
	s.next(t, ctx, CMDisconnected)
	require.Equal(t, StateErr, s.qp.State())
	require.NoError(t, cid.Close())
	require.NoError(t, sid.Close())
	require.NoError(t, lid.Close())
}

// A peer that wants more in flight than a device can serve is told what that can.
func TestCMDepthBeyondOurs(t *testing.T) {
	ctx := testContext(t)
	s := newCMPeer(t, Config{})
	lid := s.listen(t, PortSpaceTCP, 0)
	forge(t, s.d, s.d.addrs[0], 1, lid.LocalAddr(), func(m *mad.REQ) { m.InitiatorDepth = 255 })
	e := s.next(t, ctx, CMConnectRequest)
	require.EqualValues(t, 255, e.Conn.ResponderResources)
	s.addQP(t, e.ID)
	p := DefaultConnParam()
	p.ResponderResources = e.Conn.ResponderResources
	require.NoError(t, e.ID.Accept(&p))
	attr, _, err := s.qp.Query()
	require.NoError(t, err)
	require.EqualValues(t, maxRdAtomic, attr.MaxDestRdAtomic)
	require.NoError(t, e.ID.Close())
	require.NoError(t, lid.Close())
}
