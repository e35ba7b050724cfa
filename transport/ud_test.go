package transport

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

func udRig(t testing.TB) *rig { return newRig(t, rigOpts{typ: ib.UD, rts: true}) }

func deth(p *ib.Packet) { p.DETH = ib.DETH{QKey: rigQKey, SrcQP: 0x99} }

func TestUD(t *testing.T) {
	r := udRig(t)
	r.post(1, 140, 50)
	msg := pattern(100, 3)
	p := pkt(ib.UDSendOnlyImm, 5, msg)
	deth(&p)
	p.ImmDt = 6
	r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: rigSelf, TrafficClass: 0x62, HopLimit: 61})
	require.Equal(t, []WC{{
		ID: 1, Opcode: WCRecv, ByteLen: 140, QPN: rigQPN, SrcQP: 0x99, Imm: 6,
		Flags: WCWithGRH | WCWithImm, SL: SLRoCEv2IPv4,
	}}, r.wcs())
	require.Equal(t, msg, r.recv.Bytes()[40:140])
	var g ib.GRH
	require.True(t, g.Decode((*[40]byte)(r.recv.Bytes())))
	require.Equal(t, ib.GRH{
		Src: rigOther, Dst: rigSelf, TrafficClass: 0x62, HopLimit: 61,
		PayloadBytes: 8 + 12 + 8 + 4 + 100 + 4,
	}, g)
	require.Empty(t, r.poll(), "AckReq means nothing on UD")
	require.Empty(t, r.events(), "nor is there a connection to be established")
}

func TestUDIPv6(t *testing.T) {
	r := udRig(t)
	src, dst := netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8::1")
	r.e.cfg.GIDs = append(r.e.cfg.GIDs, dst)
	r.post(1, 64, 64)
	p := pkt(ib.UDSendOnly, 5, nil)
	deth(&p)
	r.rxFrom(&p, &RxPacket{Src: src, Dst: dst, TrafficClass: 2, HopLimit: 1})
	require.EqualValues(t, 40, r.wcs()[0].ByteLen)
	var g ib.GRH
	require.True(t, g.Decode((*[40]byte)(r.recv.Bytes())))
	require.Equal(t, ib.GRH{Src: src, Dst: dst, TrafficClass: 2, HopLimit: 1, PayloadBytes: 8 + 12 + 8 + 4}, g)
}

func TestUDDrops(t *testing.T) {
	r := udRig(t)
	msg := pattern(4100, 3)
	c := &r.e.counters
	r.send(ib.UDSendOnly, msg[:8], deth)
	require.EqualValues(t, 1, c.DropNoRecv)
	r.post(1, 140, 140)
	r.send(ib.UDSendOnly, msg[:101], deth)
	require.EqualValues(t, 2, c.DropNoRecv, "no room for the GRH area and the datagram")
	r.send(ib.UDSendOnly, msg[:8], deth, func(p *ib.Packet) { p.DETH.QKey++ })
	require.EqualValues(t, 1, c.DropQKey)
	r.send(ib.UDSendOnly, msg[:4097], deth)
	r.send(ib.UDSendOnly, msg[:8], deth, func(p *ib.Packet) { p.Pad = 1 })
	require.EqualValues(t, 2, c.DropMalformed)
	require.Equal(t, make([]byte, 140), r.recv.Bytes()[:140], "a dropped datagram leaves no trace")
	require.Empty(t, r.wcs())
	r.send(ib.UDSendOnly, msg[:100], deth)
	require.Equal(t, []WC{
		{ID: 1, Opcode: WCRecv, ByteLen: 140, QPN: rigQPN, SrcQP: 0x99, Flags: WCWithGRH, SL: SLRoCEv2IPv4},
	}, r.wcs())
	require.Equal(t, StateRTS, r.qp.State())
}

func TestMulticast(t *testing.T) {
	r := udRig(t)
	group := netip.MustParseAddr("239.1.2.3")
	gid := ib.GIDFromAddr(group)
	second, err := r.e.CreateQP(QPInitAttr{
		Type: ib.UD, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, QPN: 0x22,
		Caps: QPCaps{MaxSendWR: 1, MaxRecvWR: 4, MaxRecvSGE: 1},
	})
	require.NoError(t, err)
	first := r.qp
	r.qp = second
	r.connect(rigOpts{typ: ib.UD})
	r.post(2, 100, 100)
	r.qp = first
	r.post(1, 100, 100)

	require.ErrorIs(t, first.AttachMcast(ib.GIDFromAddr(rigOther)), ErrInvalidAttr)
	require.ErrorIs(t, first.DetachMcast(gid), ErrInvalidAttr)
	for _, qp := range []*QP{first, second, first} {
		require.NoError(t, qp.AttachMcast(gid))
	}
	datagram := func() {
		p := pkt(ib.UDSendOnly, 5, pattern(7, 1))
		deth(&p)
		p.DestQP = ib.QPNMulticast
		r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: group, HopLimit: 1})
	}
	ids := func() (out []uint64) {
		for _, wc := range r.wcs() {
			out = append(out, wc.ID)
		}
		return out
	}
	datagram()
	require.Equal(t, []uint64{1, 2}, ids())
	require.EqualValues(t, 1, r.e.Counters().RcvdPkts)

	// Each QP has its own Q_Key and receive queue.
	second.attr.QKey++
	r.post(1, 100, 100)
	datagram()
	require.Equal(t, []uint64{1}, ids())
	require.EqualValues(t, 1, r.e.Counters().DropQKey)
	datagram()
	require.EqualValues(t, 1, r.e.Counters().DropNoRecv)

	require.NoError(t, first.DetachMcast(gid))
	require.NoError(t, second.Destroy())
	require.Empty(t, r.e.mcast.groups)
	datagram()
	require.EqualValues(t, 1, r.e.Counters().DropNoQP)

	require.ErrorIs(t, newRig(t, rigOpts{}).qp.AttachMcast(gid), ErrInvalidAttr)
}

func TestMulticastLimit(t *testing.T) {
	r := udRig(t)
	gid := ib.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))
	for range MaxMcastQPs {
		qp, err := r.e.CreateQP(QPInitAttr{Type: ib.UD, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq})
		require.NoError(t, err)
		require.NoError(t, qp.AttachMcast(gid))
	}
	require.ErrorIs(t, r.qp.AttachMcast(gid), ErrLimit)
}

// Which IP header the GRH area has. The numbers are those of ConnectX adapters, by which programs
// tell them apart: UDP is 8, IPv4 2, IPv6 1.
func TestUDServiceLevel(t *testing.T) {
	for _, tc := range []struct {
		src, dst string
		want     uint8
	}{{"192.0.2.1", "10.0.0.1", 10}, {"2001:db8::1", "ff02::1", 9}} {
		r := udRig(t)
		r.post(1, 140, 50)
		p := pkt(ib.UDSendOnly, 5, pattern(100, 3))
		deth(&p)
		r.rxFrom(&p, &RxPacket{Src: netip.MustParseAddr(tc.src), Dst: netip.MustParseAddr(tc.dst)})
		wcs := r.wcs()
		require.Len(t, wcs, 1)
		require.Equal(t, tc.want, wcs[0].SL, tc.src)
	}
}
