package transport_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// steady is a profile whose rate does not move by itself within a test.
func steady() *cc.Profile {
	p := cc.Paper()
	p.IncreasePeriod, p.AlphaPeriod, p.ByteCounter = 3600*second, 3600*second, 1<<60
	return &p
}

// wireBytes is what a packet costs on a cable: UDP payload, and 66 bytes of Ethernet, IPv4 and UDP.
func wireBytes(f *flight) int { return len(f.data) + 66 }

// isData reports whether the rate applies to a packet.
func isData(f *flight) bool {
	info := f.pkt.Opcode.Info()
	return f.pkt.Opcode != ib.CNP && (!info.Response || len(f.pkt.Payload) > 0)
}

// The rate is obeyed over every window of 1 ms, by a sender of WRITEs and by
// the responder of READs, packet by packet and in batches.
func TestPacingObeysRate(t *testing.T) {
	rates := []cc.Rate{100 * cc.Mbps, cc.Gbps, 10 * cc.Gbps}
	if seeds.Race || testing.Short() {
		rates = rates[:2]
	}
	for _, rate := range rates {
		for _, burst := range []int64{-1, 0, 10 * us} {
			for _, op := range []transport.WROpcode{transport.WRWrite, transport.WRRead} {
				t.Run(fmt.Sprintf("%v/%d/%d", op, rate/cc.Mbps, burst), func(t *testing.T) {
					testPacing(t, rate, burst, op)
				})
			}
		}
	}
}

func testPacing(t *testing.T, rate cc.Rate, burst int64, op transport.WROpcode) {
	cfg := cc.Config{
		Algorithm: cc.DCQCNPaper, LineRate: 40 * cc.Gbps, StartRate: rate, Burst: time.Duration(burst),
		Profile: steady(),
	}
	var tuning [2]transport.Tuning
	sender := 0
	if op == transport.WRRead {
		sender = 1
	}
	tuning[sender].Congestion = cfg
	tuning[0].MaxUnackedPackets = 1024
	p := newPair(t, pairConfig{tuning: tuning})
	p.logging = false
	a, _ := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 14 }})
	const window, total = 1 * ms, 20 * ms
	var sent [total/window + 1]int
	p.onSend = func(f *flight) {
		if f.from.i == sender && isData(f) && p.now < total {
			sent[p.now/window] += wireBytes(f)
		}
	}
	for range 30 {
		wr := a.write(0, 0, 1<<20)
		wr.Opcode = op
		a.post(wr)
	}
	p.advance(total)
	// A window may begin with what a burst saved and end with one borrowed.
	held := burst
	if burst == 0 {
		held = cc.BurstNs
	}
	perNs := float64(rate) / 8e9
	slack := 2*perNs*float64(max(held, 0)) + 1200
	all := 0
	for i, n := range sent[:total/window] {
		require.InDelta(t, perNs*window, float64(n), slack, "window %d", i)
		all += n
	}
	require.InDelta(t, perNs*total, float64(all), slack+perNs*total/1000, "over all")
	require.NotZero(t, p.ends[sender].eng.Counters().PacingHolds)
	require.Zero(t, a.eng.Counters().Timeouts)
	require.Zero(t, a.eng.Counters().RetransmittedPkts)
}

// A capped QP sends at line rate before the first CNP.
func TestPacingCapped(t *testing.T) {
	p := newPair(t, pairConfig{tuning: [2]transport.Tuning{{Congestion: cc.Config{
		Algorithm: cc.DCQCNPaper, LineRate: cc.Gbps, Capped: true, Burst: -1,
	}}}})
	a, _ := p.connect(linkConfig{})
	var last int64
	p.onSend = func(f *flight) {
		if f.from.i == 0 {
			require.LessOrEqual(t, last, p.now)
			last = p.now + int64(wireBytes(f))*8 - 1
		}
	}
	a.post(a.write(0, 0, 1<<18))
	p.run()
	a.wantWC("1 success")
	s, _ := a.qp.Congestion(p.now)
	require.False(t, s.Limiting)
}

// Small messages are paced by what they cost on the cable.
func TestPacingSmallMessages(t *testing.T) {
	const rate = 50 * cc.Mbps
	p := newPair(t, pairConfig{tuning: [2]transport.Tuning{{Congestion: cc.Config{
		Algorithm: cc.DCQCNMellanox, LineRate: cc.Gbps, StartRate: rate, Profile: steady(),
	}}}})
	a, _ := p.connect(linkConfig{})
	bytes := 0
	p.onSend = func(f *flight) {
		if f.from.i == 0 {
			bytes += wireBytes(f)
		}
	}
	for p.now < 50*ms {
		for range 8 {
			if _, err := a.tryPost(a.write(0, 0, 64)); err != nil {
				break
			}
		}
		p.advance(50 * us)
		a.poll()
	}
	require.InEpsilon(t, float64(rate)/8e9*50*ms, float64(bytes), 0.01)
}

// CE marks for 300 us, then none: the notification point sends a CNP for each gap, the reaction
// point cuts for each and recovers, every counter says what was on the wire, and the rate is at any
// time that of a controller that was told the same (L4, L5).
func TestCongestionLoop(t *testing.T) {
	cfg := cc.Config{Algorithm: cc.DCQCNPaper, LineRate: 10 * cc.Gbps, Burst: -1}
	p := newPair(t, pairConfig{tuning: [2]transport.Tuning{{Congestion: cfg, MaxUnackedPackets: 64}}})
	a, b := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 14 }})
	const markFrom, markTo = 500 * us, 800 * us
	marked, cnps := 0, 0
	var firstMark, lastMark int64
	reference := cfg.New()
	p.onSend = func(f *flight) {
		switch {
		case f.pkt.Opcode == ib.CNP:
			cnps++
			require.EqualValues(t, 48<<2|transport.ECT0, f.rx.TrafficClass)
			require.Equal(t, ib.NewCNP(a.qp.Number()).BTH, f.pkt.BTH)
		case f.from.i == 0:
			require.EqualValues(t, transport.ECT0, f.rx.TrafficClass, "data is ECN-capable")
			reference.OnSend(p.now, wireBytes(f))
			if p.now >= markFrom && p.now < markTo {
				f.rx.TrafficClass = transport.ECNCE
				if marked == 0 {
					firstMark = f.at
				}
				marked, lastMark = marked+1, f.at
			}
		}
	}
	keep := func() {
		for _, wc := range a.poll() {
			require.Equal(t, transport.WCSuccess, wc.Status)
		}
		for {
			if _, err := a.tryPost(a.write(0, 0, 1<<18)); err != nil {
				return
			}
		}
	}
	least := cfg.LineRate
	for p.now < 4*ms {
		keep()
		p.pump()
		at, i, ok := p.next()
		require.True(t, ok)
		isCNP := i >= 0 && p.flying[i].pkt.Opcode == ib.CNP
		require.True(t, p.step(at))
		if isCNP {
			reference.OnCNP(p.now)
		}
		s, _ := a.qp.Congestion(p.now)
		require.Equal(t, reference.State(p.now), s)
		if s.Limiting {
			least = min(least, s.Current)
		}
	}
	gap := int64(transport.DefaultCNPGapNs)
	require.InDelta(t, (lastMark-firstMark)/gap+1, cnps, 1, "one CNP a gap")
	ca, cb := a.eng.Counters(), b.eng.Counters()
	require.EqualValues(t, marked, cb.CEMarkedPkts)
	require.EqualValues(t, cnps, cb.CNPsSent)
	require.EqualValues(t, cnps, ca.CNPsHandled)
	require.EqualValues(t, cnps, ca.RateCuts, "the paper cuts at each CNP")
	require.Zero(t, ca.Timeouts+ca.RetransmittedPkts)
	require.Less(t, least, cfg.LineRate/8)
	require.Greater(t, reference.Rate(p.now), 6*least, "recovery")
}

// The CNPs of one gap by scope: two connections from one peer.
func TestCNPScopes(t *testing.T) {
	for scope, want := range map[cc.Scope]int{
		cc.ScopeQP: 2, cc.ScopeDestinationIP: 1, cc.ScopeIPPair: 1, cc.ScopePort: 1,
	} {
		for _, gap := range []int64{4 * us, 50 * us} {
			p := newPair(t, pairConfig{tuning: [2]transport.Tuning{1: {CNPGap: time.Duration(gap), CNPScope: scope}}})
			var ls [2]*link
			ls[0], _ = p.connect(linkConfig{})
			ls[1], _ = p.connect(linkConfig{})
			cnps, gaps := 0, 0
			var last int64
			p.onSend = func(f *flight) {
				if f.pkt.Opcode == ib.CNP {
					if cnps > 0 && f.sent-last >= gap {
						gaps++
					}
					cnps, last = cnps+1, f.sent
				} else if f.from.i == 0 {
					f.rx.TrafficClass = transport.ECNCE
				}
			}
			const rounds = 400
			for range rounds {
				for _, l := range ls {
					l.post(l.write(0, 0, 8))
				}
				p.advance(us)
				ls[0].poll()
			}
			p.advance(10 * us)
			require.Equal(t, want*int((rounds-1)*us/gap+1), cnps, "scope %d, gap %d", scope, gap)
			require.Equal(t, cnps/want-1, gaps)
			require.EqualValues(t, cnps, ls[0].eng.Counters().CNPsHandled)
		}
	}
}

// A CNP that was marked itself is not answered: two congested peers would
// notify each other for ever.
func TestMarkedCNPIsNotAnswered(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	p.onSend = func(f *flight) { f.rx.TrafficClass |= transport.ECNCE }
	a.post(a.write(0, 0, 8))
	p.run()
	require.EqualValues(t, 1, b.eng.Counters().CNPsSent)
	require.EqualValues(t, 1, a.eng.Counters().CNPsSent, "for the ACK")
	require.EqualValues(t, 2, a.eng.Counters().CEMarkedPkts, "ACK and CNP")
}

// L6: a lost packet cuts the rate only if that is asked for, and then once a
// NAK, for a requester that is told and for one that notices itself.
func TestNAKCutsRate(t *testing.T) {
	for _, cut := range []bool{false, true} {
		for _, op := range []transport.WROpcode{transport.WRWrite, transport.WRRead} {
			p := newPair(t, pairConfig{tuning: [2]transport.Tuning{{
				Congestion: cc.Config{Algorithm: cc.DCQCNMellanox, CutOnNAK: cut},
			}}})
			a, _ := p.connect(linkConfig{})
			lost := false
			p.onSend = func(f *flight) {
				if !lost && len(f.pkt.Payload) > 0 && f.rel == 3 {
					lost, f.lost = true, true
				}
			}
			wr := a.write(0, 0, 1<<14)
			wr.Opcode = op
			a.post(wr)
			p.run()
			a.wantWC("1 success")
			c := a.eng.Counters()
			require.EqualValues(t, 1, c.RcvdSeqErr+c.ImpliedNAKs)
			want := uint64(0)
			if cut {
				want = 1
			}
			require.Equal(t, want, c.RateCuts, "%v", op)
		}
	}
}

// At the least rate a packet takes longer than the ACK timeout: that is no
// reason to send it again. A peer that is gone is found all the same.
func TestSlowSenderDoesNotTimeOut(t *testing.T) {
	cfg := cc.Config{Algorithm: cc.DCQCNPaper, StartRate: cc.Mbps, Profile: steady()}
	p := newPair(t, pairConfig{tuning: [2]transport.Tuning{{Congestion: cfg}}})
	a, b := p.connect(linkConfig{}) // ACK timeout 1 ms
	a.fill(0, 1<<16, 5)
	a.post(a.write(0, 0, 1<<16))
	p.run()
	a.wantWC("1 success")
	require.Equal(t, a.buf[:1<<16], b.buf[:1<<16])
	c := a.eng.Counters()
	require.Zero(t, c.Timeouts+c.RetransmittedPkts)
	require.Greater(t, p.now, int64(500*ms), "64 KiB at 1 Mb/s")

	p.lose(func(f *flight) bool { return f.from.i == 1 })
	a.post(a.write(0, 0, 1<<14))
	p.run()
	a.wantWC("2 transport retry counter exceeded")
	require.EqualValues(t, 8, a.eng.Counters().Timeouts)
}

// forgeCNP gives a QP a CNP of its peer.
func forgeCNP(p *pair, l *link) {
	n := ib.NewCNP(l.qp.Number())
	data := make([]byte, 32)
	n.PutHeaders(data)
	l.eng.HandlePacket(p.now, &transport.RxPacket{Src: p.ends[1-l.i].addr, Dst: l.addr, Data: data})
}

// A flood of CNPs does nothing to a QP that sends nothing, and makes no more cuts than a busy one
// sends packets: what is left of it is 15 times the least rate at least, with packets of 1 KiB, and
// the full rate comes back.
func TestCNPFlood(t *testing.T) {
	for _, alg := range []cc.Algorithm{cc.DCQCNPaper, cc.DCQCNMellanox} {
		for _, every := range []int64{200 * us, 50 * us, 10 * us} {
			p := newPair(t,
				pairConfig{tuning: [2]transport.Tuning{{Congestion: cc.Config{Algorithm: alg}}}, mtu: ib.MTU4096})
			p.logging = false
			a, _ := p.connect(linkConfig{})
			for range 1000 {
				forgeCNP(p, a)
				p.now += us
			}
			require.EqualValues(t, 1000, a.eng.Counters().DropCNP)
			require.Zero(t, a.eng.Counters().RateCuts)

			var begin, bytes uint64
			start := p.now
			forge, half, end := start, start+100*ms, start+200*ms
			for p.now < end {
				a.poll()
				for {
					if _, err := a.tryPost(a.write(0, 0, 1<<18)); err != nil {
						break
					}
				}
				p.pump()
				at, _, ok := p.next()
				if require.True(t, ok); forge < at {
					p.now = max(p.now, forge)
					forgeCNP(p, a)
					forge += every
				} else {
					require.True(t, p.step(at))
				}
				if bytes = a.eng.Counters().SentBytes; p.now < half {
					begin = bytes
				}
			}
			rate := cc.Rate((bytes - begin) * 8 * uint64(second) / uint64(end-half))
			t.Logf("%v, one every %d us: %d Mb/s", alg, every/us, rate/cc.Mbps)
			require.Greater(t, rate, 0*cc.Mbps)
			c := a.eng.Counters()
			require.LessOrEqual(t, c.RateCuts, c.CNPsHandled-c.DropCNP)
			require.LessOrEqual(t, c.CNPsHandled-c.DropCNP, c.SentPkts)
			s, ok := a.qp.Congestion(p.now + 30*second)
			require.True(t, ok && !s.Limiting, "%v: the flood is over", alg)
		}
	}
}

// A CNP as a ConnectX-4 Lx sent it, captured, slows a QP in RTR: a responder
// sends the data of READs.
func TestCNPOfConnectX(t *testing.T) {
	p := newPair(t,
		pairConfig{puppet: true, tuning: [2]transport.Tuning{{Congestion: cc.Config{Algorithm: cc.DCQCNPaper}}}})
	e := p.ends[0]
	qp, err := e.eng.CreateQP(transport.QPInitAttr{Type: ib.RC, PD: e.pd, SendCQ: e.cq, RecvCQ: e.cq, QPN: 0x118})
	require.NoError(t, err)
	e.qps = append(e.qps, qp)
	l := &link{end: e, qp: qp, attr: transport.QPAttr{
		PortNum: 1, AV: transport.AddressVector{DGID: ib.GIDFromAddr(p.ends[1].addr)}, PathMTU: ib.MTU1024,
		DestQPN: 0x77, MinRNRTimer: 12, MaxDestRdAtomic: 1, Access: mem.RemoteRead,
	}}
	l.bringUp(transport.StateRTR)
	data, err := hex.DecodeString("8100ffff40000118000000000000000000000000000000000000000082fd002a")
	require.NoError(t, err)
	// It is answered, and the answer may have been marked.
	read := ib.Packet{BTH: ib.BTH{Opcode: ib.RCReadRequest, PKey: ib.PKeyDefault, DestQP: qp.Number(), AckReq: true},
		RETH: ib.RETH{VA: e.base, RKey: e.region.RKey(), Len: 8}}
	b := make([]byte, ib.MaxHeaderBytes)
	e.eng.HandlePacket(p.now,
		&transport.RxPacket{Src: p.ends[1].addr, Dst: e.addr, Data: append(b[:read.PutHeaders(b)], 0, 0, 0, 0)})
	require.Equal(t, 1, e.eng.PollTransmit(p.now, make([]transport.TxPacket, 1)))
	e.eng.HandlePacket(p.now, &transport.RxPacket{Src: p.ends[1].addr, Dst: e.addr, TrafficClass: 0xC2, Data: data})
	s, _ := qp.Congestion(p.now)
	require.Equal(t, cc.DefaultLineRate/2, s.Current)
	c := e.eng.Counters()
	require.EqualValues(t, 1, c.CNPsHandled)
	require.EqualValues(t, 1, c.RateCuts)

	// From another address it is not believed.
	e.eng.HandlePacket(p.now, &transport.RxPacket{Src: netip.MustParseAddr("192.0.2.99"), Dst: e.addr, Data: data})
	c = e.eng.Counters()
	require.EqualValues(t, 1, c.CNPsHandled)
	require.EqualValues(t, 1, c.DropAddress)
}

// The default is none: no ECT, no state, no timer.
func TestNoCongestionControl(t *testing.T) {
	tuning := transport.Tuning{Congestion: cc.Config{Algorithm: cc.None}}
	p := newPair(t, pairConfig{tuning: [2]transport.Tuning{tuning, tuning}})
	a, _ := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.AV.TrafficClass = 0x61 }})
	p.onSend = func(f *flight) { require.EqualValues(t, 0x61, f.rx.TrafficClass, "as the application says") }
	a.post(a.write(0, 0, 4096))
	p.run()
	_, ok := a.qp.Congestion(p.now)
	require.False(t, ok)
	require.Zero(t, a.eng.Counters().PacingHolds)
}

// A QP can have another congestion control than its engine, and starts a new
// connection with a clean slate.
func TestCongestionOfOneQP(t *testing.T) {
	p := newPair(t, pairConfig{puppet: true})
	e := p.ends[0]
	mk := func(typ ib.Transport, c *cc.Config) (*transport.QP, error) {
		qp, err := e.eng.CreateQP(transport.QPInitAttr{Type: typ, PD: e.pd, SendCQ: e.cq, RecvCQ: e.cq, Congestion: c,
			Caps: transport.QPCaps{MaxSendWR: 1, MaxSendSGE: 1}})
		if err == nil {
			e.qps = append(e.qps, qp)
		}
		return qp, err
	}
	_, err := mk(ib.RC, &cc.Config{Algorithm: 99})
	require.ErrorContains(t, err, "Algorithm(99)")
	for typ, want := range map[ib.Transport]bool{ib.RC: true, ib.UC: true, ib.UD: false} {
		qp, err := mk(typ, &cc.Config{Algorithm: cc.DCQCNMellanox})
		require.NoError(t, err)
		_, ok := qp.Congestion(0)
		require.Equal(t, want, ok, "%v", typ)
	}
	l := &link{end: e, attr: transport.QPAttr{
		PortNum: 1, AV: transport.AddressVector{DGID: ib.GIDFromAddr(p.ends[1].addr), TrafficClass: 0x61},
		PathMTU: ib.MTU1024, DestQPN: 0x77,
	}}
	l.qp, err = mk(ib.UC, &cc.Config{Algorithm: cc.DCQCNPaper})
	require.NoError(t, err)
	for range 2 {
		l.bringUp(transport.StateRTS)
		s, _ := l.qp.Congestion(p.now)
		require.False(t, s.Limiting)
		l.post(l.write(0, 0, 8))
		p.pump()
		forgeCNP(p, l)
		s, _ = l.qp.Congestion(p.now)
		require.Equal(t, cc.DefaultLineRate/2, s.Current)
		require.NoError(t, l.qp.Modify(p.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState))
	}
	_, err = transport.New(transport.Config{
		GIDs: e.gids(), MTU: ib.MTU1024, Mem: e.mem, Rand: zeros{},
		Tuning: transport.Tuning{Congestion: cc.Config{LineRate: -1}},
	})
	require.ErrorContains(t, err, "Tuning.Congestion")
}

func (e *end) gids() []netip.Addr { return []netip.Addr{e.addr} }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
