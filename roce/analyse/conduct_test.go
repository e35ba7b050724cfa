package analyse_test

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// judged is a connection between A, QP 0x11, and B, QP 0x22.
var judged = analyse.Known{
	Ends: [2]analyse.Endpoint{
		{Addr: netip.MustParseAddr("192.0.2.1"), QPN: 0x11, Known: true},
		{Addr: netip.MustParseAddr("192.0.2.2"), QPN: 0x22, Known: true},
	},
	FirstPSN: [2]ib.PSN{0xfffffe, 5000},
	MTU:      1024,
}

// script makes packets between the two as one of them sees them, one a microsecond unless told.
type script struct {
	at   int64
	here int // whose view it is
	all  []pcap.Packet
}

func (s *script) add(from int, after int64, op ib.Opcode, psn ib.PSN) *pcap.Packet {
	s.at += after * 1000
	p := pcap.Packet{Frame: len(s.all) + 1, AtNs: s.at, Dir: pcap.In, ICRC: pcap.ICRCRight, Bytes: 64}
	if from == s.here {
		p.Dir = pcap.Out
	}
	p.Flow = ib.Flow{Src: judged.Ends[from].Addr, Dst: judged.Ends[1-from].Addr, SrcPort: 50000, DstPort: ib.UDPPort}
	p.Opcode, p.PSN, p.DestQP = op, psn, judged.Ends[1-from].QPN
	s.all = append(s.all, p)
	return &s.all[len(s.all)-1]
}

// writes are WRITEs of one packet each.
func (s *script) writes(psns ...ib.PSN) *script {
	for _, p := range psns {
		s.add(0, 1, ib.RCWriteOnly, p)
	}
	return s
}

// answers are acknowledgements of B, each after some microseconds.
func (s *script) answer(after int64, syn ib.Syndrome, psn ib.PSN) *script {
	s.add(1, after, ib.RCAcknowledge, psn).AETH.Syndrome = syn
	return s
}

// Each rule is kept by what is right, and broken by what is not.
func TestConduct(t *testing.T) {
	const ack, nak = ib.Syndrome(0x1f), ib.NAKSequence
	requester := func() *script { return &script{here: 0} }
	responder := func() *script { return &script{here: 1} }
	for name, c := range map[string]struct {
		s    *script
		want []analyse.Rule
	}{
		"in order, and back": {requester().writes(0xfffffe, 0xffffff, 0, 1).answer(1, nak, 0xffffff).
			writes(0xffffff, 0, 1, 2), nil},
		"a PSN is skipped":         {requester().writes(0xfffffe, 0), []analyse.Rule{analyse.RuleInOrder}},
		"the first PSN is skipped": {requester().writes(0xffffff), []analyse.Rule{analyse.RuleInOrder}},
		"what was lost before":     {responder().writes(0xfffffe, 1), nil},
		"a NAK for the first":      {responder().writes(0xffffff).answer(1, nak, 0xfffffe), nil},
		"a NAK for the second": {responder().writes(0xfffffe, 1).answer(1, nak, 0),
			[]analyse.Rule{analyse.RuleNAK}},
		"a NAK for nothing": {responder().writes(0xfffffe).answer(1, nak, 0xffffff),
			[]analyse.Rule{analyse.RuleNAK}},
		"NAKs with pauses": {responder().writes(0xfffffe, 0).answer(9, nak, 0xffffff).
			answer(2, nak, 0xffffff).answer(9, nak, 0xffffff), nil},
		"NAKs without": {responder().writes(0xfffffe, 0).answer(9, nak, 0xffffff).
			answer(0, nak, 0xffffff).answer(0, nak, 0xffffff), []analyse.Rule{analyse.RuleNAKPause}},
		"another's NAKs": {requester().writes(0xfffffe).answer(0, nak, 7), nil},
		"ACKs go on": {responder().writes(0xfffffe, 0xffffff, 0).answer(1, ack, 0xfffffe).
			answer(1, ack, 0).answer(1, ack, 0), nil},
		"an ACK goes back": {responder().writes(0xfffffe, 0xffffff, 0).answer(1, ack, 0).
			answer(1, ack, 0xffffff), []analyse.Rule{analyse.RuleACKForward}},
		"an ACK of what has not come": {responder().writes(0xfffffe).answer(1, ack, 0xffffff),
			[]analyse.Rule{analyse.RuleACKSent}},
	} {
		t.Run(name, func(t *testing.T) {
			a := analyse.New(analyse.Options{
				Conduct: &analyse.Conduct{Connections: []analyse.Known{judged}, NAKPauseNs: 5000},
			})
			for i := range c.s.all {
				a.Add(&c.s.all[i])
			}
			var got []analyse.Rule
			r := a.Report()
			for _, b := range r.Breaches {
				got = append(got, b.Rule)
				require.Equal(t, len(c.s.all), b.Frame, "the last packet is the one that breaks it: %s", b.Text)
			}
			require.Equal(t, c.want, got)
			require.Len(t, r.Connections, 1)
		})
	}
	// What comes damaged has not come, be it the first packet of all.
	s := responder().writes(0xfffffe, 0xffffff).answer(1, nak, 0xfffffe)
	s.all[0].ICRC = pcap.ICRCWrong
	a := analyse.New(analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{judged}}})
	for i := range s.all {
		a.Add(&s.all[i])
	}
	require.Empty(t, a.Report().Breaches)

	s = requester().writes(0xfffffe, 0xffffff)
	s.all[1].ICRC = pcap.ICRCWrong
	a = analyse.New(analyse.Options{Conduct: &analyse.Conduct{}})
	for i := range s.all {
		a.Add(&s.all[i])
	}
	require.Equal(t, analyse.RuleICRC, a.Report().Breaches[0].Rule)
}

// A NAK that comes without a pause is right where packets behind the gap have begun anew, and not
// where one was overtaken, or late.
func TestConductNAKWhenLostAgain(t *testing.T) {
	const nak, missing = ib.NAKSequence, 0xffffff
	for name, c := range map[string]struct {
		again [][]ib.PSN // what comes before each further NAK
		right bool
	}{
		"anew":      {[][]ib.PSN{{0, 1, 2, 3, 4, 5}, {1}, {2, 3, 4, 5, 0}}, true},
		"the same":  {[][]ib.PSN{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {}}, false},
		"overtaken": {[][]ib.PSN{{0, 1, 2, 3}, {0}}, false},
		"late":      {[][]ib.PSN{{1, 2, 3, 4, 5}, {0}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&script{here: 1}).writes(0xfffffe)
			for _, psns := range c.again {
				s.writes(psns...).answer(1, nak, missing)
			}
			a := analyse.New(analyse.Options{
				Conduct: &analyse.Conduct{Connections: []analyse.Known{judged}, NAKPauseNs: 50e3},
			})
			for i := range s.all {
				a.Add(&s.all[i])
			}
			b := a.Report().Breaches
			if c.right {
				require.Empty(t, b)
				return
			}
			require.Len(t, b, 1)
			require.Equal(t, analyse.RuleNAKPause, b[0].Rule)
			require.Equal(t, len(s.all), b[0].Frame)
		})
	}
}

// A requester sends a request as often as its retries and probes allow, and then gives up.
func TestConductTries(t *testing.T) {
	const ack, nak = ib.ACKNoCredits, ib.NAKSequence
	for name, c := range map[string]struct {
		s    *script
		want int
	}{
		"as often as it may":     {(&script{}).writes(7, 7, 7), 0},
		"once too often":         {(&script{}).writes(7, 7, 7, 7), 1},
		"twice":                  {(&script{}).writes(7, 8, 7, 8, 7, 8, 7, 8), 2},
		"progress gives it back": {(&script{}).writes(7, 7).answer(1, ack, 6).writes(7, 7, 7), 0},
		"an old answer does not": {(&script{}).answer(1, ack, 6).writes(7, 7).answer(1, ack, 6).writes(7, 7), 1},
		"a NAK is for what came": {(&script{}).answer(1, ack, 6).writes(7, 7).answer(1, nak, 7).writes(7, 7), 1},
		"across the wrap": {(&script{}).answer(1, ack, 0xfffffe).writes(0xffffff, 0xffffff).
			answer(1, ack, 0xffffff).writes(0, 0, 0), 0},
		"an RNR NAK begins another": {(&script{}).answer(1, ack, 6).writes(7, 7).answer(1, ib.RNRNAK(1), 7).
			writes(7, 7, 7), 0},
		"the other end is not told": {(&script{here: 1}).writes(7, 7, 7, 7), 0},
	} {
		t.Run(name, func(t *testing.T) {
			known := judged
			known.FirstPSN[0], known.Tries = 7, [2]int{3, 0}
			if name == "across the wrap" {
				known.FirstPSN[0] = 0xffffff
			}
			r := analyseAll(c.s.all, analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{known}}})
			n := 0
			for _, b := range r.Breaches {
				if b.Rule == analyse.RuleTries {
					n++
				}
			}
			require.Equal(t, c.want, n, "%v", r.Breaches)
			require.Zero(t, r.Unjudged)
		})
	}
	// A requester that never gets an answer costs no more than a window.
	s := &script{}
	for i := range ib.PSN(40_000) {
		s.writes(i)
	}
	known := judged
	known.FirstPSN[0], known.Tries = 0, [2]int{1, 0}
	r := analyseAll(s.all, analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{known}}})
	require.Equal(t, 40_000-1<<15, r.Unjudged)
}

// What is sent again is for the same memory, but for a READ that goes on in the middle.
func TestConductAgain(t *testing.T) {
	add := func(s *script, op ib.Opcode, psn ib.PSN, va uint64, key ib.RKey) {
		p := s.add(0, 1, op, psn)
		p.RETH.VA, p.RETH.RKey, p.RETH.Len = va, key, 3000
		p.Atomic.VA, p.Atomic.RKey = va, key
	}
	for _, op := range []ib.Opcode{ib.RCWriteOnly, ib.RCReadRequest, ib.RCFetchAdd, ib.RCFlush, ib.RCAtomicWrite} {
		for name, c := range map[string]struct {
			psn  ib.PSN
			va   uint64
			key  ib.RKey
			want int
		}{
			"the same":      {0xfffffe, 0x1000, 5, 0},
			"in the middle": {0xffffff, 0x1400, 5, 0},
			"no address":    {0xfffffe, 0, 5, 1},
			"no key":        {0xfffffe, 0x1000, 0, 1},
		} {
			s := &script{}
			add(s, op, 0xfffffe, 0x1000, 5)
			add(s, op, c.psn, c.va, c.key)
			r := analyseAll(s.all, analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{judged}}})
			require.Len(t, r.Breaches, c.want, "%v, %s", op, name)
			if c.want > 0 {
				require.Equal(t, analyse.RuleAgain, r.Breaches[0].Rule)
				require.Equal(t, 2, r.Breaches[0].Frame)
			}
		}
	}
}

// CNPs have BECN and zeros, and are counted with the least time between two.
func TestConductCNP(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(p *pcap.Packet)
		want int
	}{
		"right":     {func(*pcap.Packet) {}, 0},
		"no BECN":   {func(p *pcap.Packet) { p.BECN = false }, 1},
		"a one":     {func(p *pcap.Packet) { p.CNPReserved[15] = 1 }, 1},
		"payload":   {func(p *pcap.Packet) { p.PayloadBytes = 1 }, 1},
		"another's": {func(p *pcap.Packet) { p.BECN, p.Dir = false, pcap.In }, 0},
	} {
		s := (&script{here: 1}).writes(0xfffffe, 0xffffff)
		for _, after := range []int64{10, 50, 20, 30} {
			s.add(1, after, ib.CNP, 0).BECN = true
		}
		c.edit(&s.all[5])
		r := analyseAll(s.all, analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{judged}}})
		require.Len(t, r.Breaches, c.want, what)
		w := r.Connections[0].Ways[0]
		require.Equal(t, 4, w.CNPs)
		require.EqualValues(t, 20_000, w.CNPGapNs)
	}
}

// A way says which PSNs it has seen, and what was asked for and acknowledged.
func TestWayPSNs(t *testing.T) {
	s := (&script{}).writes(0xfffffe, 0xffffff, 0, 1).answer(1, ib.ACKNoCredits, 0xffffff).answer(1,
		ib.ACKNoCredits, 0).answer(1, ib.NAKSequence, 1)
	s.all[1].AckReq, s.all[3].AckReq = true, true
	w := analyseAll(s.all, analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{judged}}}).
		Connections[0].Ways[0]
	require.Equal(t, []ib.PSN{0xfffffe, 2, 1}, []ib.PSN{w.FirstPSN, w.NextPSN, w.UnackedPSN})
	require.Equal(t, []int{4, 3, 2, 2, 1}, []int{w.Packets, w.Answers, w.ACKs, w.ACKReqs, w.Sequence})
}

// A READ takes as many PSNs as it has responses.
func TestConductRead(t *testing.T) {
	for n, want := range map[ib.PSN]int{3: 0, 4: 1} {
		unknown := analyse.New(analyse.Options{Conduct: &analyse.Conduct{}})
		s := &script{here: 0}
		s.add(0, 1, ib.RCReadRequest, 0xfffffe).RETH.Len = 5000 // five responses: up to 2
		s.writes(n)
		a := analyse.New(analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{judged}}})
		for i := range s.all {
			a.Add(&s.all[i])
			unknown.Add(&s.all[i])
		}
		require.Len(t, a.Report().Breaches, want, "PSN %d", n)
		require.Empty(t, unknown.Report().Breaches, "without the path MTU nobody can tell")
	}
}

// This module's two sides keep to the rules whatever the network does to them.
func TestConductOfGoroce(t *testing.T) {
	acts := []fault.Action{fault.Drop, fault.Duplicate, fault.Delay, fault.Corrupt}
	for i := range 2 * len(acts) {
		act, how := acts[i/2], transport.Tuning{GoBackN: i%2 == 0}
		s, err := stage.New(stage.Config{Tuning: [2]transport.Tuning{how, how}})
		require.NoError(t, err)
		for i := range s.Hosts {
			s.Hosts[i].Faults.Add(fault.Rule{Action: act, Every: 7})
		}
		for range 20 {
			do(t, s, s.Write(0, full), s.Read(0, full), s.FetchAdd(0, 1))
		}
		require.NoError(t, s.Close())
		for _, v := range []stage.View{stage.At0, stage.At1} {
			a := analyse.New(analyse.Options{Conduct: &analyse.Conduct{}})
			require.NoError(t, s.Packets(v, func(p *pcap.Packet) { a.Add(p) }))
			r := a.Report()
			require.Empty(t, r.Breaches, "%v %v", act, v)
			require.NotEmpty(t, r.Findings)
		}
	}
}
