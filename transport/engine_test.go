package transport

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

func TestNewRefuses(t *testing.T) {
	good := Config{
		GIDs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, MTU: ib.MTU1024,
		Mem: mem.NewTable(rand.NewChaCha8([32]byte{}), mem.Limits{}), Rand: rand.NewChaCha8([32]byte{}),
	}
	_, err := New(good)
	require.NoError(t, err)
	for attr, edit := range map[string]func(*Config){
		"GIDs":                     func(c *Config) { c.GIDs = nil },
		"MTU":                      func(c *Config) { c.MTU = 6 },
		"Mem":                      func(c *Config) { c.Mem = nil },
		"Rand":                     func(c *Config) { c.Rand = nil },
		"Tuning.MaxUnackedPackets": func(c *Config) { c.Tuning.MaxUnackedPackets = ib.MaxPSNSpan },
		"Tuning.AckReqInterval":    func(c *Config) { c.Tuning.AckReqInterval = -1 },
		"Tuning.SeqNAKRearm":       func(c *Config) { c.Tuning.SeqNAKRearm = -1 },
	} {
		c := good
		edit(&c)
		_, err := New(c)
		var ae *ArgError
		require.True(t, errors.As(err, &ae), attr)
		require.Equal(t, attr, ae.Arg)
	}
	c := good
	c.GIDs = []netip.Addr{{}}
	_, err = New(c)
	require.ErrorIs(t, err, ErrInvalidAttr)
}

// The checks of wire format 2.4: each drop is counted under its reason, has no
// effect and is not answered.
func TestDrops(t *testing.T) {
	good := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PKey: ib.PKeyDefault, AckReq: true}}
	for name, c := range map[string]struct {
		typ  ib.Transport
		edit func(*ib.Packet, *RxPacket, *QP)
		want func(*Counters) *uint64
	}{
		"short": {ib.RC, func(p *ib.Packet, rx *RxPacket, _ *QP) { rx.Data = []byte{0, 1, 2} },
			func(c *Counters) *uint64 { return &c.DropMalformed }},
		"version": {ib.RC, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.TVer = 1 },
			func(c *Counters) *uint64 { return &c.DropMalformed }},
		"opcode": {ib.RC,
			func(p *ib.Packet, rx *RxPacket, _ *QP) { rx.Data = append([]byte{0x15}, make([]byte, 30)...) },
			func(c *Counters) *uint64 { return &c.DropOpcode }},
		"qpn": {ib.RC, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.DestQP++ },
			func(c *Counters) *uint64 { return &c.DropNoQP }},
		"qpn 0": {ib.RC, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.DestQP = 0 },
			func(c *Counters) *uint64 { return &c.DropNoQP }},
		"transport": {ib.RC, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.Opcode = ib.UCSendOnly },
			func(c *Counters) *uint64 { return &c.DropQPType }},
		"CNP to UD": {ib.UD, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.Opcode = ib.CNP },
			func(c *Counters) *uint64 { return &c.DropQPType }},
		"state": {ib.RC, func(p *ib.Packet, _ *RxPacket, qp *QP) { qp.state = StateInit },
			func(c *Counters) *uint64 { return &c.DropState }},
		"response in RTR": {ib.RC, func(p *ib.Packet, _ *RxPacket, qp *QP) {
			p.Opcode = ib.RCAcknowledge
			qp.state = StateRTR
		}, func(c *Counters) *uint64 { return &c.DropState }},
		"error": {ib.RC, func(p *ib.Packet, _ *RxPacket, qp *QP) { qp.state = StateErr },
			func(c *Counters) *uint64 { return &c.DropState }},
		"source": {ib.RC, func(p *ib.Packet, rx *RxPacket, _ *QP) { rx.Src = netip.MustParseAddr("10.0.0.3") },
			func(c *Counters) *uint64 { return &c.DropAddress }},
		"destination": {ib.RC, func(p *ib.Packet, rx *RxPacket, _ *QP) { rx.Dst = netip.MustParseAddr("10.0.0.3") },
			func(c *Counters) *uint64 { return &c.DropAddress }},
		"UD destination": {ib.UD, func(p *ib.Packet, rx *RxPacket, _ *QP) {
			p.Opcode = ib.UDSendOnly
			rx.Dst = netip.MustParseAddr("10.0.0.3")
		}, func(c *Counters) *uint64 { return &c.DropAddress }},
		"P_Key": {ib.RC, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.PKey = 0x8001 },
			func(c *Counters) *uint64 { return &c.DropPKey }},
		"Q_Key": {ib.UD, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.Opcode, p.DETH.QKey = ib.UDSendOnly, 1 },
			func(c *Counters) *uint64 { return &c.DropQKey }},
		"empty group": {ib.UD,
			func(p *ib.Packet, _ *RxPacket, _ *QP) { p.Opcode, p.DestQP = ib.UDSendOnly, ib.QPNMulticast },
			func(c *Counters) *uint64 { return &c.DropNoQP }},
		"RC to groups": {ib.RC, func(p *ib.Packet, _ *RxPacket, _ *QP) { p.DestQP = ib.QPNMulticast },
			func(c *Counters) *uint64 { return &c.DropNoQP }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, loopOptions{typ: c.typ, psn: 5})
			p := good
			p.PSN, p.DestQP = 5, l.a.qp.Number()
			rx := RxPacket{Src: l.b.addr, Dst: l.a.addr}
			c.edit(&p, &rx, l.a.qp)
			if rx.Data == nil {
				ic := ib.NewICRC(ib.Flow{Src: l.b.addr, Dst: l.a.addr})
				rx.Data = p.Append(nil, &ic, 0)
			}
			l.a.e.HandlePacket(l.now, &rx)
			got := l.a.e.Counters()
			require.EqualValues(t, 1, *c.want(&got))
			*c.want(&got) = 0
			require.Equal(t, Counters{}, got)
			require.Zero(t, l.a.e.PollTransmit(l.now, l.batch))
		})
	}
	for name, pkey := range map[string]ib.PKey{"full": 0xFFFF, "limited": 0x7FFF} {
		l := newLoop(t, loopOptions{psn: 5})
		p := good
		p.PSN, p.DestQP, p.PKey = 5, l.a.qp.Number(), pkey
		ic := ib.NewICRC(ib.Flow{Src: l.b.addr, Dst: l.a.addr})
		l.a.e.HandlePacket(l.now, &RxPacket{Src: l.b.addr, Dst: l.a.addr, Data: p.Append(nil, &ic, 0)})
		require.EqualValues(t, 1, l.a.e.Counters().RcvdPkts, name)
	}
}

// QPs take turns, each with a run of packets, and responses cannot keep a QP's requests away.
func TestTurns(t *testing.T) {
	l := newLoop(t, loopOptions{mtu: ib.MTU256, tuning: Tuning{MaxUnackedPackets: 1000}})
	one := l.a.qp
	two, err := l.a.e.CreateQP(QPInitAttr{Type: ib.RC, PD: l.a.pd, SendCQ: l.a.scq, RecvCQ: l.a.rcq, Caps: one.caps})
	require.NoError(t, err)
	l.a.qp = two
	l.connect(l.a, l.b, loopOptions{typ: ib.RC, mtu: ib.MTU256})
	for _, qp := range []*QP{one, two} {
		require.NoError(t, qp.PostSend(l.now, &SendWR{
			Opcode: WRWrite, SGList: []SGE{l.a.at(0, 300*256)}, RKey: l.b.region.RKey(), RemoteAddr: l.b.region.IOVA(),
		}))
	}
	runs := []ib.QPN{}
	count := 0
	for n := l.a.e.PollTransmit(l.now, l.batch); n > 0; n = l.a.e.PollTransmit(l.now, l.batch) {
		count += n
		for i := range l.batch[:n] {
			if q := l.batch[i].SrcQP; len(runs) == 0 || runs[len(runs)-1] != q {
				runs = append(runs, q)
			}
		}
	}
	require.Equal(t, 600, count)
	require.InDelta(t, 600/txQuantum, len(runs), 3)
	for i := 2; i < len(runs); i++ {
		require.Equal(t, runs[i-2], runs[i])
	}
}

// A QP that owes the data of a long READ still gets its own requests out.
func TestResponsesDoNotStarveRequests(t *testing.T) {
	l := newLoop(t, loopOptions{mtu: ib.MTU256, tuning: Tuning{MaxUnackedPackets: 4000}})
	require.NoError(t, l.b.qp.PostSend(l.now, &SendWR{
		Opcode: WRRead, Flags: SendSignaled, SGList: []SGE{l.b.at(0, 1000*256)},
		RemoteAddr: l.a.region.IOVA(), RKey: l.a.region.RKey(),
	}))
	l.carry(l.b, l.a)
	require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
		Opcode: WRWrite, SGList: []SGE{l.a.at(0, 8)}, RKey: l.b.region.RKey(), RemoteAddr: l.b.region.IOVA(),
	}))
	for i := range 3 {
		n := l.a.e.PollTransmit(l.now, l.batch[:32])
		for j := range l.batch[:n] {
			if op, _ := l.batch[j].OpcodeAndPSN(); op == ib.RCWriteOnly {
				return
			}
		}
		require.Equal(t, 32, n, i)
	}
	t.Fatal("the WRITE was not sent")
}
