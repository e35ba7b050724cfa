package rdmacm_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The RTU is lost for ever: the first packet of the client establishes the connection (COMM_EST),
// whatever it is, and the server can answer it even before.
func TestCommEstablishedByFirstPacket(t *testing.T) {
	ops := map[string]func(c, s *rocetest.Peer) verbs.SendWR{
		"SEND": func(c, s *rocetest.Peer) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{c.MR.SGE(0, 4)}}
		},
		"WRITE": func(c, s *rocetest.Peer) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.WRWrite, SGList: []verbs.SGE{c.MR.SGE(0, 4)},
				RemoteAddr: s.MR.Addr(), RKey: s.MR.RKey()}
		},
		"READ": func(c, s *rocetest.Peer) verbs.SendWR {
			return verbs.SendWR{Opcode: verbs.WRRead, SGList: []verbs.SGE{c.MR.SGE(0, 4)},
				RemoteAddr: s.MR.Addr(), RKey: s.MR.RKey()}
		},
	}
	for _, vector := range []int{0, 1} {
		for name, op := range ops {
			t.Run(fmt.Sprintf("%s, vector %d", name, vector), func(t *testing.T) { commEstablished(t, vector, op) })
		}
	}
}

func commEstablished(t *testing.T, vector int, op func(c, s *rocetest.Peer) verbs.SendWR) {
	ctx := rocetest.Context(t)
	c, s := rocetest.FilteredPair(t, func(a mad.Attribute) bool { return a == mad.AttrRTU })
	var err error
	s.CQ, err = s.D.CreateCQ(64, &verbs.CQOptions{Vector: vector})
	require.NoError(t, err)
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	sid := s.Next(t, ctx, rdmacm.EventConnectRequest).ID
	s.AddQP(t, sid)
	require.NoError(t, s.QP.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{s.MR.SGE(0, 8)}}))
	require.NoError(t, sid.Accept(nil))
	require.Equal(t, verbs.StateRTS, s.QP.State())
	c.Next(t, ctx, rdmacm.EventEstablished)
	wr := op(c, s)
	wr.Flags = verbs.SendSignaled
	require.NoError(t, c.QP.PostSend(&wr))
	c.Wait(t, ctx)
	s.Next(t, ctx, rdmacm.EventEstablished)
	require.Nil(t, s.Ch.Poll(), "once")
	require.NoError(t, sid.Disconnect(nil))
	c.Next(t, ctx, rdmacm.EventDisconnected)
}

// Without RTU and without traffic the server gives up, and the client learns it.
func TestRTULostForEver(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := rocetest.FilteredPair(t, func(a mad.Attribute) bool { return a == mad.AttrRTU })
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	sid := s.Next(t, ctx, rdmacm.EventConnectRequest).ID
	s.AddQP(t, sid)
	require.NoError(t, sid.Accept(nil))
	c.Next(t, ctx, rdmacm.EventEstablished)
	e := s.Next(t, ctx, rdmacm.EventUnreachable)
	require.ErrorIs(t, e.Err, roce.ErrUnreachable)
	require.Equal(t, verbs.StateErr, s.QP.State())
	c.Next(t, ctx, rdmacm.EventDisconnected)
	require.Equal(t, verbs.StateErr, c.QP.State())
}

// Every message is lost three times before it gets through: everything works,
// slowly (in virtual time).
func TestCMEachLostThrice(t *testing.T) {
	ctx := rocetest.Context(t)
	lost := map[mad.Attribute]int{}
	c, s := rocetest.FilteredPair(t, func(a mad.Attribute) bool { lost[a]++; return lost[a] <= 3 })
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	c.Connect(t, ctx, cid, s)
	require.NoError(t, cid.Disconnect(nil))
	s.Next(t, ctx, rdmacm.EventDisconnected)
	c.Next(t, ctx, rdmacm.EventDisconnected)
	require.Equal(t, 4, lost[mad.AttrREQ])
	require.Equal(t, 4, lost[mad.AttrRTU])
	require.Equal(t, 4, lost[mad.AttrDREQ])
}

// Connections over networks in which a tenth of all packets is lost, from seeds: all come up, carry
// a message, and go down, and nothing is left. (With a fifth it happens once in some thousands of
// seeds that a server gives up, its REJ is lost, and the REQ comes again when it has forgotten all:
// then it would have to accept once more, which this application does not.)
func TestCMSimFaults(t *testing.T) {
	seeds.Run(t, 30, func(t *testing.T, seed uint64) {
		ctx := rocetest.Context(t)
		bad := sim.Faults{Loss: 0.1, Duplicate: 0.1, Corrupt: 0.02, Reorder: 0.2, ReorderDelay: 100e6, Jitter: 1e6}
		mild := bad
		mild.Loss, mild.Corrupt = 0.02, 0.01
		f := sim.New(sim.Config{Seed: seed, Faults: bad})
		ds := rocetest.SimDevices(t, f, 2)
		faults := func(x sim.Faults) {
			f.SetFaults(ds[0].Addrs()[0], ds[1].Addrs()[0], x)
			f.SetFaults(ds[1].Addrs()[0], ds[0].Addrs()[0], x)
		}
		peers := [2]*rocetest.Peer{}
		for i, d := range ds {
			peers[i] = rocetest.PeerOn(t, d)
		}
		c, s := peers[0], peers[1]
		lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
		for range 5 {
			var cid, sid *rdmacm.ID
			for up := false; !up; {
				cid = c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
				require.NoError(t, cid.SetRetries(30, 0))
				require.NoError(t, cid.Connect(nil))
				sid = s.Next(t, ctx, rdmacm.EventConnectRequest).ID
				s.AddQP(t, sid)
				require.NoError(t, sid.Accept(nil))
				e, err := c.Ch.Get(ctx)
				require.NoError(t, err)
				if up = e.Type == rdmacm.EventEstablished; !up {
					// A REP is sent four times, and for each REQ that comes again, to a peer that
					// was never heard of. All of them were lost.
					require.Equal(t, rdmacm.EventRejected, e.Type)
					var re *rdmacm.RejectedError
					require.ErrorAs(t, e.Err, &re)
					require.Equal(t, mad.RejectTimeout, re.Reason)
					s.Next(t, ctx, rdmacm.EventUnreachable)
					require.NoError(t, cid.Close())
					require.NoError(t, sid.Close())
				}
			}
			require.NoError(t, s.QP.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{s.MR.SGE(0, 8)}}))
			faults(mild) // eight tries of a message may all fail
			require.NoError(t, c.QP.PostSend(&verbs.SendWR{
				Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{c.MR.SGE(0, 5)},
			}))
			c.Wait(t, ctx)
			s.Wait(t, ctx)
			faults(bad)
			s.Next(t, ctx, rdmacm.EventEstablished)
			require.NoError(t, cid.Disconnect(nil))
			c.Next(t, ctx, rdmacm.EventDisconnected)
			if e, err := s.Ch.Get(ctx); err != nil || e.Type != rdmacm.EventDisconnected {
				t.Fatal(e, err)
			}
			require.NoError(t, cid.Close())
			require.NoError(t, sid.Close())
		}
		require.NoError(t, lid.Close())
		f.RunFor(120e9)
		for _, d := range ds {
			n := rdmacm.CountersOf(d).Now
			require.Zero(t, n.Conns+n.Timewait+n.Tables, "%+v", n)
		}
	})
}

// Both sides disconnect at once.
func TestCMCrossedDisconnect(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	sid := c.Connect(t, ctx, cid, s)
	require.NoError(t, cid.Disconnect(nil))
	require.NoError(t, sid.Disconnect(nil))
	c.Next(t, ctx, rdmacm.EventDisconnected)
	s.Next(t, ctx, rdmacm.EventDisconnected)
	c.Next(t, ctx, rdmacm.EventTimewaitExit)
	s.Next(t, ctx, rdmacm.EventTimewaitExit)
	require.NoError(t, cid.Disconnect(nil), "again does nothing")
}

// Who has not called Disconnect hears nothing of the end of TIMEWAIT: it is as if the DREQ were not
// answered yet, as with a kernel.
func TestCMTimewaitExitAfterDisconnect(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	var ids [2]*rdmacm.ID
	for i := range ids {
		cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
		ids[i] = c.Connect(t, ctx, cid, s)
		require.NoError(t, cid.Disconnect(nil))
		s.Next(t, ctx, rdmacm.EventDisconnected)
		require.NoError(t, cid.Close())
	}
	require.NoError(t, ids[1].Disconnect(nil))
	require.Same(t, ids[1], s.Next(t, ctx, rdmacm.EventTimewaitExit).ID, "the time of the first was over before")
	require.NoError(t, ids[0].Disconnect(nil))
	require.Same(t, ids[0], s.Next(t, ctx, rdmacm.EventTimewaitExit).ID)
	require.NoError(t, ids[0].Disconnect(nil))
	require.NoError(t, ids[0].Close())
}

// The states of an ID: calls that do not fit are refused, and change nothing.
func TestCMBadFlows(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
	id, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	for _, f := range []func() error{
		func() error { return id.Connect(nil) }, func() error { return id.Accept(nil) },
		func() error { return id.Reject(nil) }, func() error { return id.ResolveRoute() },
		func() error { return id.Disconnect(nil) }, func() error { return id.Establish() },
	} {
		require.ErrorIs(t, f(), roce.ErrInvalidState)
	}
	require.ErrorIs(t, id.BindAddr(netip.MustParseAddrPort("192.0.2.1:1")), roce.ErrAddrNotLocal)
	require.NoError(t, id.BindAddr(netip.MustParseAddrPort("0.0.0.0:7")))
	other, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	require.ErrorIs(t, other.BindAddr(netip.AddrPortFrom(c.D.Addrs()[0], 7)), roce.ErrAddrInUse)
	udp, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceUDP)
	require.NoError(t, err)
	require.NoError(t, udp.BindAddr(netip.AddrPortFrom(c.D.Addrs()[0], 7)), "another port space")
	require.Error(t, udp.JoinMulticast(s.D.Addrs()[0]))
	require.NoError(t, id.Close())
	require.NoError(t, id.Close())
	require.ErrorIs(t, id.Listen(rdmacm.ListenLimits{Backlog: 1}), roce.ErrClosed)
	require.NoError(t, other.BindAddr(netip.AddrPortFrom(c.D.Addrs()[0], 7)), "free again")
	require.ErrorIs(t, other.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("[2001:db8::1]:1")),
		roce.ErrInvalidAttr)
	_, err = rdmacm.CreateID(nil, rdmacm.PortSpaceTCP)
	require.ErrorIs(t, err, roce.ErrInvalidAttr)
	_, err = rdmacm.CreateID(c.Ch, 0x0999)
	require.ErrorIs(t, err, roce.ErrInvalidAttr)

	// A request that is accepted without queue pair numbers, or twice.
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	p := rdmacm.DefaultConnParam()
	p.PrivateData = make([]byte, 57)
	require.ErrorIs(t, cid.Connect(&p), roce.ErrInvalidAttr)
	require.NoError(t, cid.Connect(nil))
	sid := s.Next(t, ctx, rdmacm.EventConnectRequest).ID
	s.AddQP(t, sid)
	p.PrivateData = make([]byte, rdmacm.MaxAcceptPrivate+1)
	require.ErrorIs(t, sid.Accept(&p), roce.ErrInvalidAttr)
	require.NoError(t, sid.Accept(nil))
	require.ErrorIs(t, sid.Accept(nil), roce.ErrInvalidState)
	require.ErrorIs(t, sid.Reject(nil), roce.ErrInvalidState)
	c.Next(t, ctx, rdmacm.EventEstablished)
	require.ErrorIs(t, cid.Connect(nil), roce.ErrInvalidState)
}

// IDs without queue pair: the application makes the connection itself, with
// CMConnectResponse and Establish.
func TestCMWithoutQP(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
	cid, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	require.NoError(t, cid.ResolveAddr(netip.AddrPort{}, lid.LocalAddr()))
	c.Next(t, ctx, rdmacm.EventAddrResolved)
	require.ErrorIs(t, cid.Connect(nil), roce.ErrInvalidAttr)
	p := rdmacm.DefaultConnParam()
	p.QPN, p.StartingPSN = 0x111, 0x222
	require.NoError(t, cid.Connect(&p))
	e := s.Next(t, ctx, rdmacm.EventConnectRequest)
	require.EqualValues(t, 0x111, e.Conn.QPN)
	require.EqualValues(t, 0x222, e.Conn.StartingPSN)
	p.QPN, p.StartingPSN = 0x333, 0x444
	require.NoError(t, e.ID.Accept(&p))
	r := c.Next(t, ctx, rdmacm.EventConnectResponse)
	require.EqualValues(t, 0x333, r.Conn.QPN)
	require.EqualValues(t, 0x444, r.Conn.StartingPSN)
	require.NoError(t, cid.Establish())
	s.Next(t, ctx, rdmacm.EventEstablished)
	require.NoError(t, e.ID.Disconnect([]byte("bye")))
	d := c.Next(t, ctx, rdmacm.EventDisconnected)
	require.Equal(t, "bye", string(d.PrivateData[:3]))
}

// A request that waits in a channel is refused when the channel is closed, and
// so is one that comes later: nobody else could.
func TestCMChannelClosed(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when+" the request", func(t *testing.T) {
			ctx := rocetest.Context(t)
			c, s := rocetest.FilteredPair(t, func(mad.Attribute) bool { return false })
			lid := s.Listen(t, rdmacm.PortSpaceTCP, 5)
			cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
			arrive := func() {
				require.NoError(t, cid.Connect(nil))
				rocetest.Fabric(c.D).RunFor(1e6)
			}
			if when == "after" {
				arrive()
				require.Equal(t, 1, rdmacm.CountersOf(s.D).Now.Waiting)
			}
			require.NoError(t, s.Ch.Close())
			if when == "before" {
				arrive()
			}
			c.Next(t, ctx, rdmacm.EventRejected)
			require.Zero(t, rdmacm.CountersOf(s.D).Now.Waiting)
			require.NoError(t, lid.Close())
			require.NoError(t, cid.Close())
			rocetest.RequireNoConns(t, c.D, s.D)
		})
	}
}
