package rdmacm_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// own makes a queue pair that no ID moves.
func own(t testing.TB, p *rocetest.Peer, typ ib.Transport) {
	var err error
	p.QP, err = p.PD.CreateQP(verbs.QPInitAttr{
		Type: typ, SendCQ: p.CQ, RecvCQ: p.CQ, Caps: verbs.QPCaps{MaxSendWR: 8, MaxRecvWR: 8,
			MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	require.NoError(t, err)
}

// move takes the queue pair through states as the ID says.
func move(t testing.TB, p *rocetest.Peer, id *rdmacm.ID, param *rdmacm.ConnParam, to ...verbs.QPState) {
	for _, s := range to {
		a, mask, err := id.QPAttr(s, param)
		require.NoError(t, err, s)
		require.NoError(t, p.QP.Modify(a, mask), s)
	}
}

// A connection whose queue pairs belong to the application on both sides, as rdma_init_qp_attr
// has them, and what both say about enhanced connection establishment.
func TestQPAttr(t *testing.T) {
	for name, typ := range map[string]ib.Transport{"RC": verbs.RC, "UC": verbs.UC} {
		t.Run(name, func(t *testing.T) {
			ctx := rocetest.Context(t)
			s, c := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
			own(t, s, typ)
			own(t, c, typ)
			lid := s.Listen(t, rdmacm.PortSpaceTCP, 0)
			cid := c.ResolveID(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
			require.NoError(t, cid.SetTypeOfService(0x28))
			a, mask, err := cid.QPAttr(verbs.StateInit, nil)
			require.NoError(t, err)
			require.Equal(t, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccess, mask)
			require.Zero(t, a.Access, "nobody is there yet")
			_, _, err = cid.QPAttr(verbs.StateRTR, nil)
			require.ErrorIs(t, err, verbs.ErrInvalidState)

			p := rdmacm.DefaultConnParam()
			p.QPN, p.StartingPSN, p.UC, p.ResponderResources = c.QP.Num(), 0x123456, typ == verbs.UC, 5
			p.ECE = rdmacm.ECE{VendorID: 0xABCDEF, Options: 0x12345678}
			require.NoError(t, cid.Connect(&p))
			e := s.Next(t, ctx, rdmacm.EventConnectRequest)
			require.Equal(t, p.ECE, e.Conn.ECE)
			require.Equal(t, typ == verbs.UC, e.Conn.UC)
			q := rdmacm.DefaultConnParam()
			q.QPN, q.StartingPSN, q.ECE = s.QP.Num(), 0x654321, rdmacm.ECE{VendorID: 7, Options: 8}
			move(t, s, e.ID, &q, verbs.StateInit, verbs.StateRTR, verbs.StateRTS)
			require.NoError(t, s.QP.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{s.MR.SGE(0, 100)}}))
			require.NoError(t, e.ID.Accept(&q))

			r := c.Next(t, ctx, rdmacm.EventConnectResponse)
			require.Equal(t, q.ECE, r.Conn.ECE)
			move(t, c, cid, nil, verbs.StateInit, verbs.StateRTR, verbs.StateRTS)
			require.NoError(t, cid.Establish())
			s.Next(t, ctx, rdmacm.EventEstablished)

			attr, _, err := c.QP.Query()
			require.NoError(t, err)
			require.EqualValues(t, 0x28, attr.AV.TrafficClass)
			require.Equal(t, s.QP.Num(), attr.DestQPN)
			if typ == verbs.RC {
				require.EqualValues(t, 5, attr.MaxDestRdAtomic)
				require.EqualValues(t, p.RetryCount, attr.RetryCnt)
			}
			copy(c.Buf, "by hand")
			require.NoError(t, c.QP.PostSend(&verbs.SendWR{
				Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{c.MR.SGE(0, 7)},
			}))
			s.Wait(t, ctx)
			require.Equal(t, "by hand", string(s.Buf[:7]))
			require.NoError(t, cid.Disconnect(nil))
			s.Next(t, ctx, rdmacm.EventDisconnected)
			_, _, err = e.ID.QPAttr(verbs.StateRTS, nil)
			require.ErrorIs(t, err, verbs.ErrInvalidState, "it is over")
		})
	}
}

// What QPAttr says of a datagram ID, and what it does not do.
func TestQPAttrDatagramAndBad(t *testing.T) {
	ctx := rocetest.Context(t)
	s, c := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
	lid := s.Listen(t, rdmacm.PortSpaceUDP, 0)
	cid := c.ResolveID(t, ctx, rdmacm.PortSpaceUDP, lid.LocalAddr())
	a, mask, err := cid.QPAttr(verbs.StateInit, nil)
	require.NoError(t, err)
	require.Equal(t, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrQKey, mask)
	require.Equal(t, rdmacm.UDQKey, a.QKey)

	tid := c.ResolveID(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	_, _, err = tid.QPAttr(verbs.StateSQD, nil)
	require.ErrorIs(t, err, verbs.ErrInvalidAttr)
	_, _, err = tid.QPAttr(verbs.StateInit, &rdmacm.ConnParam{RetryCount: 8})
	require.ErrorIs(t, err, verbs.ErrInvalidAttr)
	id, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	_, _, err = id.QPAttr(verbs.StateInit, nil)
	require.ErrorIs(t, err, verbs.ErrInvalidState)
	require.NoError(t, id.Close())
	_, _, err = id.QPAttr(verbs.StateInit, nil)
	require.ErrorIs(t, err, verbs.ErrClosed)
	bad := rdmacm.DefaultConnParam()
	bad.QPN, bad.ECE.VendorID = 5, 1<<24
	require.ErrorIs(t, tid.Connect(&bad), verbs.ErrInvalidAttr)
}

// IDs that say so share an address and port, until one of them listens.
func TestReuseAddr(t *testing.T) {
	p := rocetest.NewPeer(t, verbs.Config{})
	id := func(reuse bool) *rdmacm.ID {
		id, err := rdmacm.CreateID(p.Ch, rdmacm.PortSpaceTCP)
		require.NoError(t, err)
		require.NoError(t, core.Open(id).SetReuseAddr(reuse))
		return id
	}
	a, b, selfish := id(true), id(true), id(false)
	require.NoError(t, a.BindAddr(netip.AddrPort{}))
	at := a.LocalAddr()
	require.ErrorIs(t, selfish.BindAddr(at), verbs.ErrAddrInUse)
	require.NoError(t, b.BindAddr(at))
	require.ErrorIs(t, core.Open(b).SetReuseAddr(false), verbs.ErrInvalidState)
	require.ErrorIs(t, a.Listen(rdmacm.ListenLimits{Backlog: 1}), verbs.ErrAddrInUse)
	require.NoError(t, b.Close())
	require.NoError(t, a.Listen(rdmacm.ListenLimits{Backlog: 1}))
	require.ErrorIs(t, id(true).BindAddr(at), verbs.ErrAddrInUse)
}

// One that does not say so counts, too, behind one that does.
func TestReuseAddrBesideOthers(t *testing.T) {
	l, err := sim.New(sim.Config{Seed: 1}).Link(rocetest.SimAddr(1), rocetest.SimAddr(2))
	require.NoError(t, err)
	p := rocetest.NewPeer(t, verbs.Config{Link: l})
	bind := func(reuse bool, at netip.Addr) error {
		id, err := rdmacm.CreateID(p.Ch, rdmacm.PortSpaceTCP)
		require.NoError(t, err)
		require.NoError(t, core.Open(id).SetReuseAddr(reuse))
		return id.BindAddr(netip.AddrPortFrom(at, 7))
	}
	require.NoError(t, bind(true, rocetest.SimAddr(1)))
	require.NoError(t, bind(false, rocetest.SimAddr(2)))
	require.NoError(t, bind(true, rocetest.SimAddr(1)))
	require.ErrorIs(t, bind(true, netip.IPv4Unspecified()), verbs.ErrAddrInUse)
}

// Notify tells of events and of requests, and Pending is true exactly as long as there are any.
func TestNotify(t *testing.T) {
	ctx := rocetest.Context(t)
	s, c := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 0)
	told := make(chan bool, 100)
	core.Open(s.Ch).Notify(func() { told <- core.Open(s.Ch).Pending() })
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	await := func(ctx context.Context) {
		select {
		case pending := <-told:
			require.True(t, pending)
		case <-ctx.Done():
			require.Fail(t, "not told")
		}
	}
	await(ctx)
	require.True(t, core.Open(s.Ch).Pending())
	e := s.Ch.Poll()
	require.Equal(t, rdmacm.EventConnectRequest, e.Type)
	require.False(t, core.Open(s.Ch).Pending())
	s.AddQP(t, e.ID)
	require.NoError(t, e.ID.Accept(nil))
	await(ctx)
	require.Equal(t, rdmacm.EventEstablished, s.Ch.Poll().Type)
	require.False(t, core.Open(s.Ch).Pending())
	core.Open(s.Ch).Notify(nil)
	require.NoError(t, cid.Disconnect(nil))
	s.Next(t, ctx, rdmacm.EventDisconnected)
	require.Empty(t, told)
}
