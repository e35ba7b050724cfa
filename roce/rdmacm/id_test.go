package rdmacm_test

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

func TestCMConnect(t *testing.T) {
	ctx := rocetest.Context(t)
	s, c := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 7471)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	p := rdmacm.DefaultConnParam()
	p.PrivateData = []byte("hello")
	p.InitiatorDepth, p.ResponderResources = 3, 200
	require.NoError(t, cid.Connect(&p))

	e := s.Next(t, ctx, rdmacm.EventConnectRequest)
	require.Equal(t, lid, e.ListenID)
	require.Equal(t, "hello", string(e.PrivateData[:5]))
	require.Len(t, e.PrivateData, rdmacm.MaxConnectPrivate)
	require.EqualValues(t, 3, e.Conn.ResponderResources)
	require.EqualValues(t, rdmacm.MaxRdAtomic, e.Conn.InitiatorDepth)
	require.Equal(t, cid.LocalAddr(), e.ID.RemoteAddr())
	sid := e.ID
	s.AddQP(t, sid)
	require.NoError(t, s.QP.PostRecv(&verbs.RecvWR{ID: 1, SGList: []verbs.SGE{s.MR.SGE(0, 100)}}))
	a := rdmacm.DefaultConnParam()
	a.PrivateData = []byte("welcome")
	require.NoError(t, sid.Accept(&a))
	e = c.Next(t, ctx, rdmacm.EventEstablished)
	require.Equal(t, "welcome", string(e.PrivateData[:7]))
	require.EqualValues(t, 3, e.Conn.InitiatorDepth)
	s.Next(t, ctx, rdmacm.EventEstablished)

	rocetest.Exercise(t, &rocetest.End{D: c.D, CQ: c.CQ, QP: c.QP, MR: c.MR, Buf: c.Buf},
		&rocetest.End{D: s.D, CQ: s.CQ, QP: s.QP, MR: s.MR, Buf: s.Buf}, nil)
	attr, _, err := c.QP.Query()
	require.NoError(t, err)
	require.EqualValues(t, 3, attr.MaxRdAtomic)
	attr, _, err = s.QP.Query()
	require.NoError(t, err)
	require.EqualValues(t, 3, attr.MaxDestRdAtomic)

	require.NoError(t, cid.Disconnect(nil))
	c.Next(t, ctx, rdmacm.EventDisconnected)
	s.Next(t, ctx, rdmacm.EventDisconnected)
	require.Equal(t, verbs.StateErr, s.QP.State())
	require.NoError(t, cid.Close())
	require.NoError(t, sid.Close())
	require.NoError(t, lid.Close())
}

// A peer that wants more in flight than a device can serve is told what that can.
func TestCMDepthBeyondOurs(t *testing.T) {
	ctx := rocetest.Context(t)
	s := rocetest.NewPeer(t, verbs.Config{})
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 0)
	rocetest.Forge(t, s.D, s.D.Addrs()[0], 1, lid.LocalAddr(), func(m *mad.REQ) { m.InitiatorDepth = 255 })
	e := s.Next(t, ctx, rdmacm.EventConnectRequest)
	require.EqualValues(t, 255, e.Conn.ResponderResources)
	s.AddQP(t, e.ID)
	p := rdmacm.DefaultConnParam()
	p.ResponderResources = e.Conn.ResponderResources
	require.NoError(t, e.ID.Accept(&p))
	attr, _, err := s.QP.Query()
	require.NoError(t, err)
	require.EqualValues(t, rdmacm.MaxRdAtomic, attr.MaxDestRdAtomic)
	require.NoError(t, e.ID.Close())
	require.NoError(t, lid.Close())
}

// The peer learns at once that an ID was closed, and not when something else is to be sent.
func TestCMCloseTellsPeer(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	c.Connect(t, ctx, cid, s)
	require.NoError(t, cid.Close())
	rocetest.Fabric(c.D).RunFor(1e6)
	e := s.Ch.Poll()
	require.NotNil(t, e)
	require.Equal(t, rdmacm.EventDisconnected, e.Type)
}

// A request for one service type is not accepted for a queue pair of the other, and still waits.
func TestCMAcceptOtherType(t *testing.T) {
	for _, uc := range []bool{false, true} {
		ctx := rocetest.Context(t)
		c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
		lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
		cid := c.ResolveID(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
		require.NoError(t, cid.Connect(&rdmacm.ConnParam{QPN: 5, UC: uc}))
		e := s.Next(t, ctx, rdmacm.EventConnectRequest)
		require.Equal(t, uc, e.Conn.UC)
		other := verbs.UC
		if uc {
			other = verbs.RC
		}
		qp, err := e.ID.CreateQP(s.PD, verbs.QPInitAttr{Type: other, SendCQ: s.CQ})
		require.NoError(t, err)
		require.ErrorIs(t, e.ID.Accept(nil), verbs.ErrInvalidAttr)
		require.Equal(t, verbs.StateInit, qp.State())
		require.NoError(t, e.ID.Reject(nil))
		c.Next(t, ctx, rdmacm.EventRejected)
	}
}
