package roce

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// recvUD posts room for a datagram at the start of the memory.
func (p *cmPeer) recvUD(t testing.TB) {
	require.NoError(t, p.qp.PostRecv(&RecvWR{SGList: []SGE{p.mr.SGE(0, 1000)}}))
}

// sendUD sends a datagram the way an event says.
func (p *cmPeer) sendUD(t testing.TB, u UDParam, s string) {
	copy(p.buf[2000:], s)
	ah, err := p.pd.CreateAH(u.AV)
	require.NoError(t, err)
	require.NoError(t, p.qp.PostSend(&SendWR{
		ID: 77, Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{p.mr.SGE(2000, len(s))},
		AH: ah.Handle(), RemoteQPN: u.QPN, RemoteQKey: u.QKey,
	}))
	require.NoError(t, ah.Destroy())
}

// A datagram association as udaddy makes it: look up, then send.
func TestCMDatagram(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (c, s *cmPeer){
		"udp": func(t *testing.T) (c, s *cmPeer) { return newCMPeer(t, Config{}), newCMPeer(t, Config{}) },
		"lossy sim": func(t *testing.T) (c, s *cmPeer) {
			ds := simDevices(t, sim.New(sim.Config{Seed: 3, Faults: sim.Faults{Loss: 0.3, Duplicate: 0.3}}), 2)
			return peerOn(t, ds[0]), peerOn(t, ds[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			c, s := open(t)
			lid := s.listen(t, PortSpaceUDP, 7174)
			cid := c.resolve(t, ctx, PortSpaceUDP, lid.LocalAddr())
			p := DefaultConnParam()
			p.PrivateData = make([]byte, MaxConnectPrivateUD)
			p.PrivateData[MaxConnectPrivateUD-1] = 9
			require.NoError(t, cid.Connect(&p))
			e := s.next(t, ctx, CMConnectRequest)
			require.Equal(t, p.PrivateData, e.PrivateData)
			s.addQP(t, e.ID)
			s.recvUD(t)
			require.NoError(t, e.ID.Accept(&ConnParam{PrivateData: []byte("qp")}))
			u := c.next(t, ctx, CMEstablished)
			require.Equal(t, s.qp.Num(), u.UD.QPN)
			require.Equal(t, UDQKey, u.UD.QKey)
			require.Equal(t, "qp", string(u.PrivateData[:2]))
			require.Len(t, u.PrivateData, MaxAcceptPrivateUD)
			// UD is not repeated: the lossy network may take several.
			for got := false; !got; {
				c.sendUD(t, u.UD, "datagram")
				c.wait(t, ctx)
				if name == "udp" {
					s.wait(t, ctx)
					got = true
				} else {
					s.d.driven.(*sim.Link).Fabric().RunFor(1e6)
					n, err := s.cq.Poll(make([]WC, 1))
					require.NoError(t, err)
					got = n > 0
				}
			}
			require.Equal(t, "datagram", string(s.buf[40:48]))
			require.NoError(t, cid.Disconnect(nil))
			require.NoError(t, cid.Close())
			require.NoError(t, e.ID.Close())
			require.NoError(t, lid.Close())
		})
	}
}

func TestCMDatagramRefused(t *testing.T) {
	ctx := testContext(t)
	c, s := newCMPeer(t, Config{}), newCMPeer(t, Config{})
	lid := s.listen(t, PortSpaceUDP, 7174)
	cid := c.resolve(t, ctx, PortSpaceUDP, netip.AddrPortFrom(lid.LocalAddr().Addr(), 1))
	require.NoError(t, cid.Connect(nil))
	e := c.next(t, ctx, CMRejected)
	require.ErrorIs(t, e.Err, ErrConnRefused)

	cid = c.resolve(t, ctx, PortSpaceUDP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	r := s.next(t, ctx, CMConnectRequest)
	require.NoError(t, r.ID.Reject([]byte("not you")))
	e = c.next(t, ctx, CMRejected)
	var re *RejectedError
	require.ErrorAs(t, e.Err, &re)
	require.Equal(t, mad.SIDRRejected, re.SIDRStatus)
	require.Equal(t, "not you", string(e.PrivateData[:7]))

	cid = c.resolve(t, ctx, PortSpaceUDP, lid.LocalAddr())
	require.ErrorIs(t, cid.Connect(&ConnParam{PrivateData: make([]byte, MaxConnectPrivateUD+1)}), ErrInvalidAttr)
}

// A multicast group as mckey joins it: two receive what the third sends, and
// none after leaving.
func TestCMMulticast(t *testing.T) {
	ctx := testContext(t)
	ds := simDevices(t, sim.New(sim.Config{Seed: 3}), 3)
	group := netip.MustParseAddr("239.1.2.3")
	var peers [3]*cmPeer
	var ids [3]*CMID
	var ud UDParam
	for i, d := range ds {
		p := peerOn(t, d)
		id := p.resolve(t, ctx, PortSpaceUDP, netip.AddrPortFrom(group, 0))
		join := id.JoinMulticast
		if i == 2 {
			join = id.JoinMulticastSendOnly
		}
		require.NoError(t, join(group))
		e := p.next(t, ctx, CMMulticastJoin)
		require.Equal(t, ib.QPNMulticast, e.UD.QPN)
		require.Equal(t, UDQKey, e.UD.QKey)
		require.Equal(t, "0000:0000:0000:0000:0000:ffff:ef01:0203", e.UD.AV.DGID.String())
		p.recvUD(t)
		peers[i], ids[i], ud = p, id, e.UD
	}
	peers[2].sendUD(t, ud, "to all")
	peers[2].wait(t, ctx)
	for _, p := range peers[:2] {
		p.wait(t, ctx)
		require.Equal(t, "to all", string(p.buf[40:46]))
		p.recvUD(t)
	}
	require.NoError(t, ids[0].LeaveMulticast(group))
	require.ErrorIs(t, ids[0].LeaveMulticast(group), ErrInvalidAttr)
	require.NoError(t, ids[1].Close(), "leaves too")
	peers[2].sendUD(t, ud, "to nobody")
	peers[2].wait(t, ctx)
	ds[0].driven.(*sim.Link).Fabric().RunFor(1e9)
	for _, p := range peers[:2] {
		n, err := p.cq.Poll(make([]WC, 1))
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

// An IPv6 connection over loopback; ::1 is the one address there.
func TestCMIPv6(t *testing.T) {
	a, _ := loopback6Pair(t, 1, Config{})
	d := a.d
	ctx := testContext(t)
	s, c := peerOn(t, d), peerOn(t, d)
	lid := s.listen(t, PortSpaceTCP, 9)
	cid := c.resolve(t, ctx, PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, cid.Connect(nil))
	e := s.next(t, ctx, CMConnectRequest)
	require.Equal(t, cid.LocalAddr(), e.ID.RemoteAddr())
	s.addQP(t, e.ID)
	require.NoError(t, e.ID.Accept(nil))
	c.next(t, ctx, CMEstablished)
	s.next(t, ctx, CMEstablished)
	exercise(t, c.end, s.end, []int{0, 1, 4097})
	require.NoError(t, cid.Disconnect(nil))
	s.next(t, ctx, CMDisconnected)
}
