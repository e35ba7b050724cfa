package rdmacm_test

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// recvUD posts room for a datagram at the start of the memory.
func recvUD(t testing.TB, p *rocetest.Peer) {
	require.NoError(t, p.QP.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{p.MR.SGE(0, 1000)}}))
}

// sendUD sends a datagram the way an event says.
func sendUD(t testing.TB, p *rocetest.Peer, u rdmacm.UDParam, s string) {
	copy(p.Buf[2000:], s)
	ah, err := p.PD.CreateAH(u.AV)
	require.NoError(t, err)
	require.NoError(t, p.QP.PostSend(&verbs.SendWR{
		ID: 77, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.MR.SGE(2000, len(s))},
		AH: ah, RemoteQPN: u.QPN, RemoteQKey: u.QKey,
	}))
	require.NoError(t, ah.Close())
}

// A datagram association as udaddy makes it: look up, then send.
func TestCMDatagram(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (c, s *rocetest.Peer){
		"udp": func(t *testing.T) (c, s *rocetest.Peer) {
			return rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
		},
		"lossy sim": func(t *testing.T) (c, s *rocetest.Peer) {
			ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 3, Faults: sim.Faults{Loss: 0.3, Duplicate: 0.3}}), 2)
			return rocetest.PeerOn(t, ds[0]), rocetest.PeerOn(t, ds[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := rocetest.Context(t)
			c, s := open(t)
			lid := s.Listen(t, rdmacm.PortSpaceUDP, 7174)
			cid := c.Resolve(t, ctx, rdmacm.PortSpaceUDP, lid.LocalAddr())
			p := rdmacm.DefaultConnParam()
			p.PrivateData = make([]byte, rdmacm.MaxConnectPrivateUD)
			p.PrivateData[rdmacm.MaxConnectPrivateUD-1] = 9
			require.NoError(t, cid.Connect(&p))
			e := s.Next(t, ctx, rdmacm.EventConnectRequest)
			require.Equal(t, p.PrivateData, e.PrivateData)
			s.AddQP(t, e.ID)
			recvUD(t, s)
			require.NoError(t, e.ID.Accept(&rdmacm.ConnParam{PrivateData: []byte("qp")}))
			u := c.Next(t, ctx, rdmacm.EventEstablished)
			require.Equal(t, s.QP.Num(), u.UD.QPN)
			require.Equal(t, rdmacm.UDQKey, u.UD.QKey)
			require.Equal(t, "qp", string(u.PrivateData[:2]))
			require.Len(t, u.PrivateData, rdmacm.MaxAcceptPrivateUD)
			// UD is not repeated: the lossy network may take several.
			for got := false; !got; {
				sendUD(t, c, u.UD, "datagram")
				c.Wait(t, ctx)
				if name == "udp" {
					s.Wait(t, ctx)
					got = true
				} else {
					rocetest.Fabric(s.D).RunFor(1e6)
					n, err := s.CQ.Poll(make([]verbs.WC, 1))
					require.NoError(t, err)
					got = n > 0
				}
			}
			require.Equal(t, "datagram", string(s.Buf[40:48]))
			require.NoError(t, cid.Disconnect(nil))
			require.NoError(t, cid.Close())
			require.NoError(t, e.ID.Close())
			require.NoError(t, lid.Close())
		})
	}
}

func TestCMDatagramRefused(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
	lid := s.Listen(t, rdmacm.PortSpaceUDP, 7174)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceUDP, netip.AddrPortFrom(lid.LocalAddr().Addr(), 1))
	require.NoError(t, cid.Connect(nil))
	e := c.Next(t, ctx, rdmacm.EventRejected)
	require.ErrorIs(t, e.Err, roce.ErrConnRefused)

	cid = c.Resolve(t, ctx, rdmacm.PortSpaceUDP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	r := s.Next(t, ctx, rdmacm.EventConnectRequest)
	require.NoError(t, r.ID.Reject([]byte("not you")))
	e = c.Next(t, ctx, rdmacm.EventRejected)
	var re *roce.RejectedError
	require.ErrorAs(t, e.Err, &re)
	require.Equal(t, mad.SIDRRejected, re.SIDRStatus)
	require.Equal(t, "not you", string(e.PrivateData[:7]))

	cid = c.Resolve(t, ctx, rdmacm.PortSpaceUDP, lid.LocalAddr())
	require.ErrorIs(t, cid.Connect(&rdmacm.ConnParam{PrivateData: make([]byte, rdmacm.MaxConnectPrivateUD+1)}),
		roce.ErrInvalidAttr)
}

// A multicast group as mckey joins it: two receive what the third sends, and none after leaving.
func TestCMMulticast(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 3}), 3)
	group := netip.MustParseAddr("239.1.2.3")
	var peers [3]*rocetest.Peer
	var ids [3]*rdmacm.ID
	var ud rdmacm.UDParam
	for i, d := range ds {
		p := rocetest.PeerOn(t, d)
		id := p.Resolve(t, ctx, rdmacm.PortSpaceUDP, netip.AddrPortFrom(group, 0))
		join := id.JoinMulticast
		if i == 2 {
			join = id.JoinMulticastSendOnly
		}
		require.NoError(t, join(group))
		e := p.Next(t, ctx, rdmacm.EventMulticastJoin)
		require.Equal(t, ib.QPNMulticast, e.UD.QPN)
		require.Equal(t, rdmacm.UDQKey, e.UD.QKey)
		require.Equal(t, "0000:0000:0000:0000:0000:ffff:ef01:0203", e.UD.AV.DGID.String())
		recvUD(t, p)
		peers[i], ids[i], ud = p, id, e.UD
	}
	sendUD(t, peers[2], ud, "to all")
	peers[2].Wait(t, ctx)
	for _, p := range peers[:2] {
		p.Wait(t, ctx)
		require.Equal(t, "to all", string(p.Buf[40:46]))
		recvUD(t, p)
	}
	require.NoError(t, ids[0].LeaveMulticast(group))
	require.ErrorIs(t, ids[0].LeaveMulticast(group), roce.ErrInvalidAttr)
	require.NoError(t, ids[1].Close(), "leaves too")
	sendUD(t, peers[2], ud, "to nobody")
	peers[2].Wait(t, ctx)
	rocetest.Fabric(ds[0]).RunFor(1e9)
	for _, p := range peers[:2] {
		n, err := p.CQ.Poll(make([]verbs.WC, 1))
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

// noGroups is a link without multicast.
type noGroups struct{ link.Link }

func (l noGroups) Unwrap() link.Link        { return l.Link }
func (noGroups) Join(_, _ netip.Addr) error { return link.ErrUnsupported }

// A group that the link cannot join is not joined: the queue pair does not receive from it, and
// nothing is left to leave.
func TestCMMulticastUnsupported(t *testing.T) {
	l, err := sim.New(sim.Config{Seed: 3}).Link(rocetest.SimAddr(1))
	require.NoError(t, err)
	p := rocetest.NewPeer(t,
		verbs.Config{Link: l, WrapLink: func(l link.Link) (link.Link, error) { return noGroups{l}, nil }})
	group := netip.MustParseAddr("239.1.2.3")
	id := p.Resolve(t, rocetest.Context(t), rdmacm.PortSpaceUDP, netip.AddrPortFrom(group, 0))
	require.ErrorIs(t, id.JoinMulticast(group), verbs.ErrMulticast)
	require.Nil(t, p.Ch.Poll())
	require.ErrorIs(t, id.LeaveMulticast(group), roce.ErrInvalidAttr)
	require.ErrorIs(t, p.QP.DetachMulticast(ib.GIDFromAddr(group), 0), roce.ErrInvalidAttr)
}

// An IPv6 connection over loopback; ::1 is the one address there.
func TestCMIPv6(t *testing.T) {
	d := rocetest.OpenIPv6(t, verbs.Config{})
	ctx := rocetest.Context(t)
	s, c := rocetest.PeerOn(t, d), rocetest.PeerOn(t, d)
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 9)
	cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	e := s.Next(t, ctx, rdmacm.EventConnectRequest)
	require.Equal(t, cid.LocalAddr(), e.ID.RemoteAddr())
	s.AddQP(t, e.ID)
	require.NoError(t, e.ID.Accept(nil))
	c.Next(t, ctx, rdmacm.EventEstablished)
	s.Next(t, ctx, rdmacm.EventEstablished)
	rocetest.Exercise(t, c.End, s.End, []int{0, 1, 4097})
	require.NoError(t, cid.Disconnect(nil))
	s.Next(t, ctx, rdmacm.EventDisconnected)
}
