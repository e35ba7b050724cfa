package rocetest

import (
	"context"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Peer is a device with a channel and what queue pairs need.
type Peer struct {
	*End
	Ch *rdmacm.EventChannel
}

func NewPeer(t testing.TB, cfg verbs.Config) *Peer {
	return PeerOn(t, OpenDevice(t, cfg))
}

// Next returns the next event, which must be of a type.
func (p *Peer) Next(t testing.TB, ctx context.Context, want rdmacm.EventType) *rdmacm.Event {
	e, err := p.Ch.Get(ctx)
	require.NoError(t, err, "waiting for %v", want)
	require.Equal(t, want.String(), e.Type.String(), "%v", e.Err)
	return e
}

func (p *Peer) Listen(t testing.TB, ps rdmacm.PortSpace, port uint16) *rdmacm.ID {
	id, err := rdmacm.CreateID(p.Ch, ps)
	require.NoError(t, err)
	require.NoError(t, id.BindAddr(netip.AddrPortFrom(p.D.Addrs()[0], port)))
	require.NoError(t, id.Listen(rdmacm.ListenLimits{}))
	return id
}

// Resolve returns an ID with a queue pair, ready to connect.
func (p *Peer) Resolve(t testing.TB, ctx context.Context, ps rdmacm.PortSpace, to netip.AddrPort) *rdmacm.ID {
	id := p.ResolveID(t, ctx, ps, to)
	p.AddQP(t, id)
	return id
}

// ResolveID returns an ID without queue pair that is ready to connect.
func (p *Peer) ResolveID(t testing.TB, ctx context.Context, ps rdmacm.PortSpace, to netip.AddrPort) *rdmacm.ID {
	id, err := rdmacm.CreateID(p.Ch, ps)
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(netip.AddrPort{}, to))
	p.Next(t, ctx, rdmacm.EventAddrResolved)
	require.NoError(t, id.ResolveRoute())
	p.Next(t, ctx, rdmacm.EventRouteResolved)
	return id
}

// Connect connects an ID that is ready to a listening peer, and returns the ID there.
func (p *Peer) Connect(t testing.TB, ctx context.Context, id *rdmacm.ID, to *Peer) *rdmacm.ID {
	require.NoError(t, id.Connect(nil))
	there := to.Next(t, ctx, rdmacm.EventConnectRequest).ID
	to.AddQP(t, there)
	require.NoError(t, there.Accept(nil))
	p.Next(t, ctx, rdmacm.EventEstablished)
	to.Next(t, ctx, rdmacm.EventEstablished)
	return there
}

func (p *Peer) AddQP(t testing.TB, id *rdmacm.ID) {
	qp, err := id.CreateQP(p.PD, verbs.QPInitAttr{SendCQ: p.CQ})
	require.NoError(t, err)
	p.QP = qp
}

// PeerOn is NewPeer for a device that is open.
func PeerOn(t testing.TB, d *verbs.Device) *Peer {
	p := &Peer{End: &End{D: d, Buf: make([]byte, 1<<16)}}
	var err error
	p.PD, err = d.AllocPD()
	require.NoError(t, err)
	p.CQ, err = d.CreateCQ(1024, nil)
	require.NoError(t, err)
	p.MR, err = p.PD.RegisterMR(p.Buf, verbs.AccessAll, nil)
	require.NoError(t, err)
	p.Ch, err = rdmacm.CreateEventChannel(d)
	require.NoError(t, err)
	return p
}

// RequireNoConns checks that no device of a simulation has a connection.
func RequireNoConns(t testing.TB, ds ...*verbs.Device) {
	for _, d := range ds {
		require.Zero(t, rdmacm.CountersOf(d).Now.Conns)
	}
}
