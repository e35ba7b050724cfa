package roce

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// madFilter is a link that loses the management datagrams it is told to.
type madFilter struct {
	link.Link
	drop func(a mad.Attribute) bool
}

func (f *madFilter) Unwrap() link.Link { return f.Link }

func (f *madFilter) Send(batch []transport.TxPacket) {
	keep := make([]transport.TxPacket, 0, len(batch))
	for i := range batch {
		if a, ok := cmMessage(&batch[i]); !ok || !f.drop(a) {
			keep = append(keep, batch[i])
		}
	}
	f.Link.Send(keep)
}

// cmMessage returns which message of the communication manager a packet is.
func cmMessage(tx *transport.TxPacket) (a mad.Attribute, ok bool) {
	var p ib.Packet
	b := append(tx.AppendTo(nil), 0, 0, 0, 0) // room for the ICRC, which nobody reads
	if p.Decode(b) != ib.DecodeOK || p.DestQP != ib.QPNGSI {
		return 0, false
	}
	return mad.Attribute(binary.BigEndian.Uint16(p.Payload[16:])), true
}

// filteredPair is two peers on a fabric; what the first one sends passes drop.
func filteredPair(t testing.TB, drop func(mad.Attribute) bool) (c, s *cmPeer) {
	f := sim.New(sim.Config{Seed: 4})
	lc, err := f.Link(simAddr(1))
	require.NoError(t, err)
	ls, err := f.Link(simAddr(2))
	require.NoError(t, err)
	wrap := func(l link.Link) (link.Link, error) { return &madFilter{l, drop}, nil }
	return newCMPeer(t, Config{Link: lc, Rand: f.Rand(), WrapLink: wrap}), newCMPeer(t, Config{Link: ls, Rand: f.Rand()})
}

// The RTU is lost for ever: the first packet of the client establishes the
// connection (COMM_EST), whatever it is, and the server can answer it even
// before.
func TestCommEstablishedByFirstPacket(t *testing.T) {
	ops := map[string]func(c, s *cmPeer) SendWR{
		"SEND": func(c, s *cmPeer) SendWR { return SendWR{Opcode: WRSend, SGList: []SGE{c.mr.SGE(0, 4)}} },
		"WRITE": func(c, s *cmPeer) SendWR {
			return SendWR{Opcode: WRWrite, SGList: []SGE{c.mr.SGE(0, 4)}, RemoteAddr: s.mr.Addr(), RKey: s.mr.RKey()}
		},
		"READ": func(c, s *cmPeer) SendWR {
			return SendWR{Opcode: WRRead, SGList: []SGE{c.mr.SGE(0, 4)}, RemoteAddr: s.mr.Addr(), RKey: s.mr.RKey()}
		},
	}
	for name, op := range ops {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			c, s := filteredPair(t, func(a mad.Attribute) bool { return a == mad.AttrRTU })
			lid := s.listen(t, PortSpaceTCP, 5)
			cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
			require.NoError(t, cid.Connect(nil))
			sid := s.next(t, ctx, CMConnectRequest).ID
			s.addQP(t, sid)
			require.NoError(t, s.qp.PostRecv(&RecvWR{SGList: []SGE{s.mr.SGE(0, 8)}}))
			require.NoError(t, sid.Accept(nil))
			require.Equal(t, StateRTS, s.qp.State())
			c.next(t, ctx, CMEstablished)
			wr := op(c, s)
			wr.Flags = SendSignaled
			require.NoError(t, c.qp.PostSend(&wr))
			c.wait(t, ctx)
			s.next(t, ctx, CMEstablished)
			require.Nil(t, s.ch.Poll(), "once")
			require.NoError(t, sid.Disconnect(nil))
			c.next(t, ctx, CMDisconnected)
		})
	}
}

// Without RTU and without traffic the server gives up, and the client learns
// it.
func TestRTULostForEver(t *testing.T) {
	ctx := testContext(t)
	c, s := filteredPair(t, func(a mad.Attribute) bool { return a == mad.AttrRTU })
	lid := s.listen(t, PortSpaceTCP, 5)
	cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	sid := s.next(t, ctx, CMConnectRequest).ID
	s.addQP(t, sid)
	require.NoError(t, sid.Accept(nil))
	c.next(t, ctx, CMEstablished)
	e := s.next(t, ctx, CMUnreachable)
	require.ErrorIs(t, e.Err, ErrUnreachable)
	require.Equal(t, StateErr, s.qp.State())
	c.next(t, ctx, CMDisconnected)
	require.Equal(t, StateErr, c.qp.State())
}

// Every message is lost three times before it gets through: everything works,
// slowly (in virtual time).
func TestCMEachLostThrice(t *testing.T) {
	ctx := testContext(t)
	lost := map[mad.Attribute]int{}
	c, s := filteredPair(t, func(a mad.Attribute) bool { lost[a]++; return lost[a] <= 3 })
	lid := s.listen(t, PortSpaceTCP, 5)
	cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	sid := s.next(t, ctx, CMConnectRequest).ID
	s.addQP(t, sid)
	require.NoError(t, sid.Accept(nil))
	c.next(t, ctx, CMEstablished)
	s.next(t, ctx, CMEstablished)
	require.NoError(t, cid.Disconnect(nil))
	s.next(t, ctx, CMDisconnected)
	c.next(t, ctx, CMDisconnected)
	require.Equal(t, 4, lost[mad.AttrREQ])
	require.Equal(t, 4, lost[mad.AttrRTU])
	require.Equal(t, 4, lost[mad.AttrDREQ])
}

// Connections over networks in which a fifth of all packets is lost, from
// seeds: all come up, carry a message, and go down, and nothing is left.
func TestCMSimFaults(t *testing.T) {
	seeds.Run(t, 30, func(t *testing.T, seed uint64) {
		ctx := testContext(t)
		bad := sim.Faults{Loss: 0.2, Duplicate: 0.1, Corrupt: 0.05, Reorder: 0.2, ReorderNs: 100e6, JitterNs: 1e6}
		mild := bad
		mild.Loss, mild.Corrupt = 0.02, 0.01
		f := sim.New(sim.Config{Seed: seed, Faults: bad})
		ds := simDevices(t, f, 2)
		faults := func(x sim.Faults) {
			f.SetFaults(ds[0].addrs[0], ds[1].addrs[0], x)
			f.SetFaults(ds[1].addrs[0], ds[0].addrs[0], x)
		}
		peers := [2]*cmPeer{}
		for i, d := range ds {
			peers[i] = peerOn(t, d)
		}
		c, s := peers[0], peers[1]
		lid := s.listen(t, PortSpaceTCP, 5)
		for range 5 {
			cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
			require.NoError(t, cid.SetRetries(30, 0))
			require.NoError(t, cid.Connect(nil))
			sid := s.next(t, ctx, CMConnectRequest).ID
			s.addQP(t, sid)
			require.NoError(t, s.qp.PostRecv(&RecvWR{SGList: []SGE{s.mr.SGE(0, 8)}}))
			require.NoError(t, sid.Accept(nil))
			c.next(t, ctx, CMEstablished)
			faults(mild) // eight tries of a message may all fail at a quarter lost each way
			require.NoError(t, c.qp.PostSend(&SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{c.mr.SGE(0, 5)}}))
			c.wait(t, ctx)
			s.wait(t, ctx)
			faults(bad)
			s.next(t, ctx, CMEstablished)
			require.NoError(t, cid.Disconnect(nil))
			c.next(t, ctx, CMDisconnected)
			if e, err := s.ch.Get(ctx); err != nil || e.Type != CMDisconnected {
				t.Fatal(e, err)
			}
			require.NoError(t, cid.Close())
			require.NoError(t, sid.Close())
		}
		require.NoError(t, lid.Close())
		f.RunFor(120e9)
		for _, d := range ds {
			n := d.cm.core.Counts()
			require.Zero(t, n.Conns+n.Timewait+n.Tables, "%+v", n)
		}
	})
}

// peerOn is newCMPeer for a device that is open.
func peerOn(t testing.TB, d *Device) *cmPeer {
	p := &cmPeer{end: &end{d: d, buf: make([]byte, 1<<16)}}
	var err error
	p.pd, err = d.AllocPD()
	require.NoError(t, err)
	p.cq, err = d.CreateCQ(1024, nil)
	require.NoError(t, err)
	p.mr, err = p.pd.RegisterMR(p.buf, AccessAll)
	require.NoError(t, err)
	p.ch, err = d.CreateEventChannel()
	require.NoError(t, err)
	return p
}

// Both sides disconnect at once.
func TestCMCrossedDisconnect(t *testing.T) {
	ctx := testContext(t)
	c, s := filteredPair(t, func(mad.Attribute) bool { return false })
	lid := s.listen(t, PortSpaceTCP, 5)
	cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	sid := s.next(t, ctx, CMConnectRequest).ID
	s.addQP(t, sid)
	require.NoError(t, sid.Accept(nil))
	c.next(t, ctx, CMEstablished)
	s.next(t, ctx, CMEstablished)
	require.NoError(t, cid.Disconnect(nil))
	require.NoError(t, sid.Disconnect(nil))
	c.next(t, ctx, CMDisconnected)
	s.next(t, ctx, CMDisconnected)
	c.next(t, ctx, CMTimewaitExit)
	s.next(t, ctx, CMTimewaitExit)
	require.NoError(t, cid.Disconnect(nil), "again does nothing")
}

// The states of an ID: calls that do not fit are refused, and change nothing.
func TestCMBadFlows(t *testing.T) {
	ctx := testContext(t)
	c, s := filteredPair(t, func(mad.Attribute) bool { return false })
	id, err := c.d.CreateID(c.ch, PortSpaceTCP)
	require.NoError(t, err)
	for _, f := range []func() error{
		func() error { return id.Connect(nil) }, func() error { return id.Accept(nil) },
		func() error { return id.Reject(nil) }, func() error { return id.ResolveRoute() },
		func() error { return id.Disconnect(nil) }, func() error { return id.Establish() },
	} {
		require.ErrorIs(t, f(), ErrInvalidState)
	}
	require.ErrorIs(t, id.BindAddr(netip.MustParseAddrPort("192.0.2.1:1")), ErrAddrNotLocal)
	require.NoError(t, id.BindAddr(netip.MustParseAddrPort("0.0.0.0:7")))
	other, err := c.d.CreateID(c.ch, PortSpaceTCP)
	require.NoError(t, err)
	require.ErrorIs(t, other.BindAddr(netip.AddrPortFrom(c.d.addrs[0], 7)), ErrAddrInUse)
	udp, err := c.d.CreateID(c.ch, PortSpaceUDP)
	require.NoError(t, err)
	require.NoError(t, udp.BindAddr(netip.AddrPortFrom(c.d.addrs[0], 7)), "another port space")
	require.Error(t, udp.JoinMulticast(s.d.addrs[0]))
	require.NoError(t, id.Close())
	require.NoError(t, id.Close())
	require.ErrorIs(t, id.Listen(1), ErrClosed)
	require.NoError(t, other.BindAddr(netip.AddrPortFrom(c.d.addrs[0], 7)), "free again")
	require.ErrorIs(t, other.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("[2001:db8::1]:1")), ErrInvalidAttr)
	_, err = s.d.CreateID(c.ch, PortSpaceTCP)
	require.ErrorIs(t, err, ErrInvalidAttr)
	_, err = c.d.CreateID(c.ch, 0x0999)
	require.ErrorIs(t, err, ErrInvalidAttr)

	// A request that is accepted without queue pair numbers, or twice.
	lid := s.listen(t, PortSpaceTCP, 5)
	cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
	p := DefaultConnParam()
	p.PrivateData = make([]byte, 57)
	require.ErrorIs(t, cid.Connect(&p), ErrInvalidAttr)
	require.NoError(t, cid.Connect(nil))
	sid := s.next(t, ctx, CMConnectRequest).ID
	s.addQP(t, sid)
	p.PrivateData = make([]byte, MaxAcceptPrivate+1)
	require.ErrorIs(t, sid.Accept(&p), ErrInvalidAttr)
	require.NoError(t, sid.Accept(nil))
	require.ErrorIs(t, sid.Accept(nil), ErrInvalidState)
	require.ErrorIs(t, sid.Reject(nil), ErrInvalidState)
	c.next(t, ctx, CMEstablished)
	require.ErrorIs(t, cid.Connect(nil), ErrInvalidState)
}

// IDs without queue pair: the application makes the connection itself, with
// CMConnectResponse and Establish.
func TestCMWithoutQP(t *testing.T) {
	ctx := testContext(t)
	c, s := filteredPair(t, func(mad.Attribute) bool { return false })
	lid := s.listen(t, PortSpaceTCP, 5)
	cid, err := c.d.CreateID(c.ch, PortSpaceTCP)
	require.NoError(t, err)
	require.NoError(t, cid.ResolveAddr(netip.AddrPort{}, lid.LocalAddr()))
	c.next(t, ctx, CMAddrResolved)
	require.ErrorIs(t, cid.Connect(nil), ErrInvalidAttr)
	p := DefaultConnParam()
	p.QPN, p.StartingPSN = 0x111, 0x222
	require.NoError(t, cid.Connect(&p))
	e := s.next(t, ctx, CMConnectRequest)
	require.EqualValues(t, 0x111, e.Conn.QPN)
	require.EqualValues(t, 0x222, e.Conn.StartingPSN)
	p.QPN, p.StartingPSN = 0x333, 0x444
	require.NoError(t, e.ID.Accept(&p))
	r := c.next(t, ctx, CMConnectResponse)
	require.EqualValues(t, 0x333, r.Conn.QPN)
	require.EqualValues(t, 0x444, r.Conn.StartingPSN)
	require.NoError(t, cid.Establish())
	s.next(t, ctx, CMEstablished)
	require.NoError(t, e.ID.Disconnect([]byte("bye")))
	d := c.next(t, ctx, CMDisconnected)
	require.Equal(t, "bye", string(d.PrivateData[:3]))
}

// A request that waits in a channel is refused when the channel is closed, and
// so is one that comes later: nobody else could.
func TestCMChannelClosed(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when+" the request", func(t *testing.T) {
			ctx := testContext(t)
			c, s := filteredPair(t, func(mad.Attribute) bool { return false })
			lid := s.listen(t, PortSpaceTCP, 5)
			cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
			arrive := func() {
				require.NoError(t, cid.Connect(nil))
				c.d.driven.(*sim.Link).Fabric().RunFor(1e6)
			}
			if when == "after" {
				arrive()
				require.Equal(t, 1, s.d.cm.core.Counts().Waiting)
			}
			require.NoError(t, s.ch.Close())
			if when == "before" {
				arrive()
			}
			c.next(t, ctx, CMRejected)
			require.Zero(t, s.d.cm.core.Counts().Waiting)
			require.NoError(t, lid.Close())
			require.NoError(t, cid.Close())
			requireNoConns(t, c.d, s.d)
		})
	}
}

// requireNoConns checks that no device of a simulation has a connection.
func requireNoConns(t testing.TB, ds ...*Device) {
	for _, d := range ds {
		require.Zero(t, d.cm.core.Counts().Conns)
		require.Empty(t, d.cm.ports)
	}
}

// The ACK timeout that a client asks for is the server's too, but not one of hours.
func TestCMAckTimeoutOfPeer(t *testing.T) {
	for asked, want := range map[ib.TimeoutCode]ib.TimeoutCode{0: defaultCMTimeout, 14: 14, 21: 21, 31: maxPeerTimeout} {
		ds := simDevices(t, sim.New(sim.Config{Seed: 1}), 2)
		p := DefaultConnParam()
		p.AckTimeout = asked
		_, s := connPair(t, ds[0], ds[1], ConnConfig{Param: &p})
		attr, _, err := s.QP().Query()
		require.NoError(t, err)
		require.Equal(t, want, attr.Timeout)
	}
}
