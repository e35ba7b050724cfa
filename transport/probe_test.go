package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport/cc"
)

// probed is a script whose requester knows a round trip of 10 us, and which gives up at
// the first ACK timeout or NAK: whatever a probe mends costs no retry.
func probed(t *testing.T, tuning Tuning) *script {
	s := newScript(t, loopOptions{tuning: tuning, attr: func(a *QPAttr) { a.RetryCnt = 0 }})
	s.measured(10e3)
	return s
}

// A burst of losses ends with the packets that it takes: from the third ACK timeout in a row on,
// each is followed by probes: by two, and by one once they wait for half of the ACK timeout. Where
// packets were lost lately the first two are as well.
func TestProbesAfterTimeouts(t *testing.T) {
	for lost, probes := range []int{2 + 2 + 1 + 1 + 1, 2 + 2 + 1 + 1 + 1 + 1 + 1} {
		s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt = 7 }})
		s.measured(10e3)
		s.a.qp.sq.cause.calm.lost = lost
		s.post(WRSend, 8)
		times := len(s.sent())
		for s.timer() >= 0 && s.a.qp.State() == StateRTS {
			s.advance(s.timer())
			times += len(s.sent())
		}
		s.done("1 transport retry counter exceeded")
		require.Equal(t, 1+maxProbes+7+probes, times)
	}
}

// The last packet is sent again, and asks for an answer, whatever it is.
func TestLossProbe(t *testing.T) {
	data := make([]byte, 256)
	for _, tc := range []struct {
		name   string
		post   func(s *script)
		sent   []string
		answer func(s *script) // what arrives of it
		probe  string
		end    func(s *script)
	}{
		{"WRITE", func(s *script) { s.post(WRWrite, 8) }, []string{"WRITE ONLY 1 A +0/8"}, nil,
			"WRITE ONLY 1 A +0/8", func(s *script) { s.ack(1) }},
		{"SEND", func(s *script) { s.post(WRSend, 8) }, []string{"SEND ONLY 1 A"}, nil,
			"SEND ONLY 1 A", func(s *script) { s.ack(1) }},
		{"end of a WRITE", func(s *script) { s.post(WRWrite, 600) },
			[]string{"WRITE FIRST 1 +0/600", "WRITE MIDDLE 2", "WRITE LAST 3 A"}, nil,
			"WRITE LAST 3 A", func(s *script) { s.ack(3) }},
		{"end of a SEND, after an ACK", func(s *script) { s.post(WRSend, 600) },
			[]string{"SEND FIRST 1", "SEND MIDDLE 2", "SEND LAST 3 A"}, func(s *script) { s.ack(1) },
			"SEND LAST 3 A", func(s *script) { s.ack(3) }},
		{"READ request", func(s *script) { s.post(WRRead, 256) }, []string{"READ REQUEST 1 A +0/256"}, nil,
			"READ REQUEST 1 A +0/256", func(s *script) { s.data(ib.RCReadRespOnly, 1, data) }},
		{"last READ response", func(s *script) { s.post(WRRead, 768) }, []string{"READ REQUEST 1 A +0/768"},
			func(s *script) { s.data(ib.RCReadRespFirst, 1, data); s.data(ib.RCReadRespMiddle, 2, data) },
			"READ REQUEST 3 A +512/256", func(s *script) { s.data(ib.RCReadRespOnly, 3, data) }},
		{"READ behind a WRITE", func(s *script) { s.post(WRWrite, 8); s.post(WRRead, 512) },
			[]string{"WRITE ONLY 1 A +0/8", "READ REQUEST 2 A +0/512"}, nil,
			"READ REQUEST 2 A +0/512",
			func(s *script) { s.data(ib.RCReadRespFirst, 2, data); s.data(ib.RCReadRespLast, 3, data) }},
		{"READ behind a READ", func(s *script) { s.post(WRRead, 512); s.post(WRRead, 512) },
			[]string{"READ REQUEST 1 A +0/512", "READ REQUEST 3 A +0/512"},
			func(s *script) { s.data(ib.RCReadRespFirst, 1, data); s.data(ib.RCReadRespLast, 2, data) },
			"READ REQUEST 3 A +0/512",
			func(s *script) { s.data(ib.RCReadRespFirst, 3, data); s.data(ib.RCReadRespLast, 4, data) }},
		{"atomic", func(s *script) { s.post(WRFetchAdd, 8) }, []string{"FETCH ADD 1 A"}, nil,
			"FETCH ADD 1 A", func(s *script) { s.atomic(1, 7) }},
		{"FLUSH", func(s *script) {
			s.post(WRFlush, 0, func(wr *SendWR) { wr.SGList, wr.FlushType = nil, ib.FlushGlobalVisibility })
		},
			[]string{"FLUSH 1 A +0/0"}, nil, "FLUSH 1 A +0/0", func(s *script) { s.data(ib.RCReadRespOnly, 1, nil) }},
		{"behind a local operation", func(s *script) {
			s.post(WRSend, 8)
			s.post(WRBindMW, 0, func(wr *SendWR) { wr.SGList, wr.Bind = nil, s.bind() })
		}, []string{"SEND ONLY 1 A"}, nil, "SEND ONLY 1 A", func(s *script) { s.ack(1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := probed(t, Tuning{})
			tc.post(s)
			s.sends(tc.sent...)
			if tc.answer != nil {
				s.advance(50e3)
				tc.answer(s)
			}
			require.EqualValues(t, DefaultLossProbeNs, s.timer())
			s.advance(DefaultLossProbeNs - 1)
			s.silent()
			s.advance(1)
			s.sends(tc.probe)
			tc.end(s)
			require.EqualValues(t, -1, s.timer())
			for _, wc := range completions(s.a.scq) {
				require.Equal(t, WCSuccess, wc.Status)
			}
			require.Zero(t, s.a.qp.sq.q.len())
			c := s.a.e.Counters()
			require.EqualValues(t, 1, c.LossProbes)
			require.EqualValues(t, 1, c.RetransmittedPkts)
			require.Zero(t, c.Timeouts+c.CompleterRetryErr)
			s.post(WRSend, 8)
			require.Len(t, s.sent(), 1, "it goes on where it was")
		})
	}
}

// A READ is asked for in parts, as the window has room. The probe asks for the last of
// them, not for what may still come of the one before.
func TestLossProbeOfPartOfREAD(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{MaxUnackedPackets: 4, GoBackN: true}})
	s.measured(10e3)
	data := make([]byte, 256)
	s.post(WRRead, 6*256)
	s.sends("READ REQUEST 1 A +0/1024")
	s.data(ib.RCReadRespFirst, 1, data)
	s.data(ib.RCReadRespMiddle, 2, data)
	s.sends("READ REQUEST 5 A +1024/512")
	s.advance(DefaultLossProbeNs)
	s.sends("READ REQUEST 5 A +1024/512")
	s.data(ib.RCReadRespFirst, 5, data) // so 3 and 4 were lost
	s.sends("READ REQUEST 3 A +512/512", "READ REQUEST 5 A +1024/512")
	s.advance(2 * DefaultLossProbeNs)
	s.sends("READ REQUEST 3 A +512/512") // the second probe: the oldest
	for i, op := range []ib.Opcode{ib.RCReadRespFirst, ib.RCReadRespLast, ib.RCReadRespFirst, ib.RCReadRespLast} {
		s.data(op, 3+i, data)
	}
	s.done("1 success")
}

// bind is the binding of a new memory window.
func (s *script) bind() BindMW {
	s.t.Helper()
	w, err := s.a.mem.AllocMW(s.a.pd, mem.Type2B)
	require.NoError(s.t, err)
	return BindMW{
		MW: w, Region: s.a.region, NewRKey: mem.NextRKey(w.RKey()), Addr: s.a.region.IOVA(), Length: 64,
		Access: mem.RemoteRead,
	}
}

// If more than the last packet was lost the peer says so, and the NAK does the rest.
func TestLossProbeDrawsNAK(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.measured(10e3)
	s.post(WRSend, 600)
	s.sends("SEND FIRST 1", "SEND MIDDLE 2", "SEND LAST 3 A")
	s.advance(DefaultLossProbeNs)
	s.sends("SEND LAST 3 A")
	s.nak(2, ib.NAKSequence)
	s.sends("SEND MIDDLE 2", "SEND LAST 3 A")
	s.advance(2 * DefaultLossProbeNs) // lost again
	s.sends("SEND LAST 3 A")
	s.ack(3)
	s.done("1 success")
}

// Two probes, the second of the oldest packet, each after twice the time; then there is
// the ACK timeout, at its time and with its retries as if there were no probes.
func TestLossProbesEnd(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt = 1 }})
	s.measured(10e3)
	all := []string{"SEND FIRST 1", "SEND MIDDLE 2", "SEND LAST 3 A"}
	s.post(WRSend, 600)
	s.sends(all...)
	s.advance(DefaultLossProbeNs)
	s.sends("SEND LAST 3 A")
	require.EqualValues(t, 2*DefaultLossProbeNs, s.timer())
	s.advance(2 * DefaultLossProbeNs)
	s.sends("SEND FIRST 1 A")
	require.EqualValues(t, ackTimeoutNs-3*DefaultLossProbeNs, s.timer())
	s.advance(ackTimeoutNs - 3*DefaultLossProbeNs)
	s.sends(all...)
	require.EqualValues(t, ackTimeoutNs, s.timer(), "no more probes before something new is acknowledged")
	s.advance(ackTimeoutNs)
	s.done("1 transport retry counter exceeded")
	c := s.a.e.Counters()
	require.EqualValues(t, 2, c.LossProbes)
	require.EqualValues(t, 2, c.Timeouts)
	require.Zero(t, s.a.e.probing)
}

// Progress makes the next loss a new one. The wait is doubled until a packet that was not repeated
// shows the round trip (Karn): a path that has become slow would be probed for ever.
func TestLossProbeBackoff(t *testing.T) {
	s := probed(t, Tuning{})
	for i, wait := range []int64{1e6, 2e6, 4e6, 8e6, 16e6, 32e6, ackTimeoutNs / 2, ackTimeoutNs / 2} {
		s.post(WRSend, 1)
		s.sent()
		require.Equal(t, wait, s.timer(), "%d", i)
		s.advance(wait)
		require.Len(t, s.sent(), 1)
		s.ack(1 + i)
		s.done(fmt.Sprintf("%d success", 1+i))
	}
	s.measured(10e3)
	s.post(WRSend, 1)
	s.sent()
	require.EqualValues(t, 1e6, s.timer())
}

// The wait follows the round trip and its variance, so that a peer that takes its time
// with ACKs, or gathers them, is not probed for that.
func TestLossProbeWait(t *testing.T) {
	for _, tc := range []struct {
		name    string
		rtts    []int64
		tuning  int64
		timeout ib.TimeoutCode
		want    int64 // ns; 0 for none
	}{
		{"none measured", nil, 0, 14, ackTimeoutNs / 4},
		{"none measured, short timeout", nil, 0, 9, DefaultLossProbeNs},
		{"none measured, no time for it", nil, 0, 8, 0},
		{"none measured, switched off", nil, -1, 14, 0},
		{"none measured, no timeout", nil, 0, 0, 0},
		{"short", []int64{10e3}, 0, 14, DefaultLossProbeNs},
		{"short, and tuned", []int64{10e3}, 1e3, 14, 2*10e3 + 4*5e3},
		{"long", []int64{2e6}, 0, 14, 2*2e6 + 4*1e6},
		{"varies", []int64{1e6, 9e6, 1e6, 9e6, 1e6, 9e6, 1e6, 9e6}, 0, 15, 23865576},
		{"switched off", []int64{10e3}, -1, 14, 0},
		{"longer than half of the timeout", []int64{10e6}, 0, 14, 0},
		{"timeout too short", []int64{10e3}, 0, 8, 0},
		{"no timeout", []int64{10e3}, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t, loopOptions{tuning: Tuning{LossProbe: time.Duration(tc.tuning)},
				attr: func(a *QPAttr) { a.Timeout = tc.timeout }})
			for _, rtt := range tc.rtts {
				s.measured(rtt)
			}
			require.Zero(t, s.a.e.Counters().LossProbes, "nothing was lost")
			s.post(WRSend, 1)
			s.sent()
			require.Equal(t, tc.want != 0, s.a.qp.timerSet(timerProbe))
			if tc.want != 0 {
				require.Equal(t, tc.want, s.timer())
			}
		})
	}
}

// A round trip that makes the wait too long for a probe ends the wait that runs.
func TestLossProbeEndsWithLongRoundTrip(t *testing.T) {
	s := probed(t, Tuning{})
	s.post(WRSend, 1)
	s.post(WRSend, 1)
	s.sends("SEND ONLY 1 A", "SEND ONLY 2 A")
	s.now += ackTimeoutNs - 1 // without a look at the timers
	s.ack(1)
	s.a.e.HandleTimeout(s.now)
	s.silent()
	require.EqualValues(t, s.a.qp.sq.ackTimeoutNs(), s.timer(), "which is longer now")
}

// Modify can make the ACK timeout so short, or so long, that probes make sense or not.
func TestLossProbeAfterModify(t *testing.T) {
	s := probed(t, Tuning{})
	a, _ := s.a.qp.Query()
	for _, tc := range []struct {
		timeout ib.TimeoutCode
		want    bool
	}{{8, false}, {14, true}} {
		psn := int(tc.timeout-8)/6 + 1
		a.State = StateSQD
		require.NoError(t, s.a.qp.Modify(s.now, a, AttrState))
		a.Timeout = tc.timeout
		require.NoError(t, s.a.qp.Modify(s.now, a, AttrTimeout))
		a.State = StateRTS
		require.NoError(t, s.a.qp.Modify(s.now, a, AttrState))
		s.post(WRSend, 1)
		s.sent()
		require.Equal(t, tc.want, s.a.qp.timerSet(timerProbe))
		s.ack(psn)
	}
}

// While an RNR NAK makes it wait there is no probe; what is sent afterwards has its own.
func TestNoLossProbeDuringRNRWait(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.measured(10e3)
	s.post(WRSend, 1)
	s.sends("SEND ONLY 1 A")
	s.advance(DefaultLossProbeNs)
	s.nak(1, ib.RNRNAK(20)) // with the probe due
	s.silent()
	require.Equal(t, ib.RNRCode(20).Ns(), s.timer())
	s.advance(ib.RNRCode(20).Ns())
	s.sends("SEND ONLY 1 A")
	s.advance(s.timer())
	s.sends("SEND ONLY 1 A")
	s.ack(1)
	s.done("1 success")
}

// A probe waits for its rate, and there is none while requests do.
func TestLossProbeIsPaced(t *testing.T) {
	l, c := newScripted(t)
	l.a.e.cfg.Tuning.LossProbe = 0
	l.a.qp.sq.probe.configure(l.a.qp, &l.a.qp.sq.rtt)
	write := func(n int) {
		require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
			Opcode: WRWrite, SGList: []SGE{l.a.at(0, n)}, RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
		}))
	}
	write(1)
	l.run()
	c.rate = cc.Mbps // a packet takes 9 ms
	write(3 * 1024)
	next := func() int64 { // when the next packet leaves
		for range 100 {
			if l.a.e.PollTransmit(l.now, l.batch[:1]) > 0 {
				return l.now
			}
			at, ok := l.a.e.NextTimeout()
			require.True(t, ok)
			l.now = max(at, l.now)
			l.a.e.HandleTimeout(l.now)
		}
		return 0
	}
	first := next()
	require.Greater(t, next(), first+8e6)
	last := next()
	require.Greater(t, last, first+16e6)
	require.Zero(t, l.a.e.Counters().LossProbes, "it was still sending")
	require.Greater(t, next(), last+8e6, "the rate admits no probe before")
	counters := l.a.e.Counters()
	require.EqualValues(t, 1, counters.LossProbes)
	require.Zero(t, counters.Timeouts)
}

// A READ of nothing is not probed: no two releases of rdma_rxe take the same repetition
// of one. Memory that was taken away is not sent, and not an error of the probe.
func TestNothingToProbeWith(t *testing.T) {
	for name, post := range map[string]func(s *script){
		"READ of nothing": func(s *script) { s.post(WRRead, 0) },
		"memory gone": func(s *script) {
			r, err := s.a.mem.Register(s.a.pd, mem.RegionAttr{Bytes: make([]byte, 64), Access: mem.LocalWrite})
			require.NoError(s.t, err)
			s.post(WRWrite, 8, func(wr *SendWR) { wr.SGList = []SGE{{Addr: r.IOVA(), Length: 8, LKey: r.LKey()}} })
			s.sent()
			require.NoError(s.t, r.Deregister(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := probed(t, Tuning{})
			post(s)
			s.sent()
			s.advance(DefaultLossProbeNs)
			s.silent()
			s.done()
			s.state(StateRTS)
			require.Zero(t, s.a.e.Counters().LossProbes)
		})
	}
}

// A receiver that has fallen behind is not probed by thousands: an engine has few probes
// that nothing has answered. An answer, a failure and the end of a QP make room.
func TestLossProbesAreFew(t *testing.T) {
	const qps = 4 * maxProbing
	ls := newMany(t, qps)
	ls.everyone(func(l *manyQP) { l.write() })
	ls.answer()
	ls.everyone(func(l *manyQP) { l.write() })
	ls.drop()
	ls.now += DefaultLossProbeNs
	ls.e.HandleTimeout(ls.now)
	require.Equal(t, maxProbing, ls.drop())
	require.Equal(t, maxProbing, ls.e.probing)
	ls.now += DefaultLossProbeNs
	ls.e.HandleTimeout(ls.now)
	require.Zero(t, ls.drop(), "the rest waits")
	var waiting []*manyQP
	for _, q := range ls.qps {
		if q.qp.sq.probe.counted {
			waiting = append(waiting, q)
		}
	}
	require.NoError(t, waiting[0].qp.Destroy())
	require.NoError(t, waiting[1].qp.Modify(ls.now, QPAttr{State: StateErr}, AttrState))
	require.NoError(t, waiting[2].qp.Modify(ls.now, QPAttr{State: StateReset}, AttrState))
	waiting[3].ack()
	require.Equal(t, maxProbing-4, ls.e.probing)
	ls.now += DefaultLossProbeNs
	ls.e.HandleTimeout(ls.now)
	ls.drop()
	ls.now += 16 * DefaultLossProbeNs
	ls.e.HandleTimeout(ls.now)
	ls.drop()
	require.Equal(t, maxProbing, ls.e.probing)
	require.LessOrEqual(t, ls.e.Counters().LossProbes, uint64(maxProbes*maxProbing+8))
	for range 20 {
		ls.now += ackTimeoutNs
		ls.e.HandleTimeout(ls.now)
		ls.drop()
	}
	require.Zero(t, ls.e.probing, "all have failed")
}

// many is an engine with many QPs whose peers the test plays.
type many struct {
	*loop
	e   *Engine
	qps []*manyQP
}

type manyQP struct {
	m   *many
	qp  *QP
	psn ib.PSN // next
}

func newMany(t *testing.T, n int) *many {
	l := newLoop(t, loopOptions{cqe: 1 << 14})
	m := &many{loop: l, e: l.a.e}
	for range n {
		s := *l.a
		var err error
		s.qp, err = s.e.CreateQP(QPInitAttr{
			Type: ib.RC, PD: s.pd, SendCQ: s.scq, RecvCQ: s.rcq, Caps: QPCaps{MaxSendWR: 4, MaxSendSGE: 1},
		})
		require.NoError(t, err)
		l.connect(&s, l.b, loopOptions{typ: ib.RC, mtu: ib.MTU1024})
		m.qps = append(m.qps, &manyQP{m: m, qp: s.qp, psn: s.qp.sq.psn})
	}
	return m
}

func (m *many) everyone(f func(*manyQP)) {
	for _, q := range m.qps {
		f(q)
	}
}

// drop loses what is sent now, and says how much that was.
func (m *many) drop() (n int) {
	for k := 1; k > 0; n += k {
		k = m.e.PollTransmit(m.now, m.batch)
	}
	return n
}

// answer acknowledges everything after 10 us.
func (m *many) answer() {
	m.drop()
	m.now += 10e3
	m.everyone((*manyQP).ack)
}

func (q *manyQP) write() {
	require.NoError(q.m.t,
		q.qp.PostSend(q.m.now, &SendWR{Opcode: WRWrite, SGList: []SGE{q.m.a.at(0, 8)}, RemoteAddr: 0x1000, RKey: 1}))
	q.psn = q.psn.Next()
}

func (q *manyQP) ack() {
	p := ib.Packet{
		BTH:  ib.BTH{Opcode: ib.RCAcknowledge, PKey: ib.PKeyDefault, DestQP: q.qp.Number(), PSN: q.psn.Prev()},
		AETH: ib.AETH{Syndrome: ib.ACKNoCredits},
	}
	c := ib.NewICRC(ib.Flow{Src: q.m.b.addr, Dst: q.m.a.addr})
	q.m.e.HandlePacket(q.m.now, &RxPacket{Src: q.m.b.addr, Dst: q.m.a.addr, Data: p.Append(nil, &c, 0)})
}

// Time does not stand still for a probe: each wait is longer than nothing.
func TestLossProbeTimerEnds(t *testing.T) {
	s := probed(t, Tuning{LossProbe: 1})
	s.post(WRSend, 1)
	s.sent()
	for i := 0; s.a.qp.State() == StateRTS; i++ {
		require.Less(t, i, 10, "probes and timeouts")
		s.advance(max(s.timer(), 0))
		s.sent()
	}
}
