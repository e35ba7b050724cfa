package analyse_test

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// repairOf analyses packets and returns how a loss on the judged connection was mended.
func repairOf(s *script, l analyse.Loss) *analyse.Repair {
	l.Requester, l.Responder = judged.Ends[0], judged.Ends[1]
	return analyseAll(s.all, analyse.Options{Conduct: &analyse.Conduct{Losses: []analyse.Loss{l}}}).Repairs[0]
}

// A request is lost: what shows it, who says so, and what is sent again, microsecond by
// microsecond.
func TestRepairOfRequest(t *testing.T) {
	const ack, nak = ib.ACKNoCredits, ib.NAKSequence
	lost := analyse.Loss{PSN: 0}
	s := (&script{}).writes(0xfffffe, 0xffffff, 0, 1, 2).answer(5, ack, 0xfffffe).answer(1, nak, 0).
		answer(1, nak, 0).writes(0, 1, 2).answer(9, ack, 2).writes(3, 0)
	r := repairOf(s, lost)
	require.Equal(t, &analyse.Repair{
		Loss: r.Loss, Times: 3, SentNs: []int64{3000, 13_000, 26_000}, ShownNs: 4000, NAKs: 2, NAKNs: 11_000,
		ResentNs: 13_000,
	}, r)

	// Probes before the NAK, which starts the count anew: two and one.
	s = (&script{}).writes(0xfffffe, 0xffffff, 0, 1, 0xfffffe, 0xfffffe).answer(1, nak, 0).writes(0xffffff, 0)
	require.Equal(t, 2, repairOf(s, lost).Probes)

	// Damaged answers say nothing, and what others send is not this connection's.
	s = (&script{}).writes(0xfffffe, 0xffffff, 0, 1).answer(1, nak, 0).writes(7)
	s.all[4].ICRC = pcap.ICRCWrong
	s.all[5].DestQP++
	s.all[5].PSN = 0
	r = repairOf(s, lost)
	require.Zero(t, r.NAKs)
	require.Equal(t, 1, r.Times)

	// What is listed is bounded, what is counted is not.
	s = &script{}
	for range 100 {
		s.writes(0)
	}
	r = repairOf(s, lost)
	require.Equal(t, 100, r.Times)
	require.Len(t, r.SentNs, 64)
}

// A response is lost: which READ requests follow.
func TestRepairOfResponse(t *testing.T) {
	ask := func(s *script, psn ib.PSN, n uint32) { s.add(0, 1, ib.RCReadRequest, psn).RETH.Len = n }
	say := func(s *script, psns ...ib.PSN) {
		for _, p := range psns {
			s.add(1, 1, ib.RCReadRespMiddle, p)
		}
	}
	lost := analyse.Loss{PSN: 0, Response: true, Request: 0xfffffe, MTU: 1024}
	s := &script{}
	ask(s, 0xfffffa, 100) // READs before
	ask(s, 0xfffffa, 100)
	say(s, 0xfffffa)
	ask(s, 0xfffffe, 5000)
	ask(s, 0xfffffe, 5000) // a probe
	say(s, 0xfffffe, 0xffffff, 1, 2)
	ask(s, 0, 2952)
	say(s, 0, 1, 2)
	ask(s, 3, 100) // and behind
	say(s, 3)
	r := repairOf(s, lost)
	require.Equal(t, &analyse.Repair{
		Loss: r.Loss, Times: 1, SentNs: []int64{11_000}, Probes: 1, ShownNs: 8000, Missing: 2952,
		Asked: []analyse.Ask{{PSN: 0xfffffe, Bytes: 5000, AtNs: 5000}, {PSN: 0, Bytes: 2952, AtNs: 10_000}},
	}, r)
	a, ok := r.For()
	require.True(t, ok)
	require.EqualValues(t, 2952, a.Bytes)

	// In parts, of which the first ask for nothing again: it is lost from the second, and the third
	// is asked for in two pieces.
	s = &script{}
	ask(s, 0xfffffe, 1024)
	ask(s, 0xffffff, 3*1024)
	ask(s, 2, 2048)
	say(s, 0xfffffe, 0xffffff)
	ask(s, 2, 2048) // a probe
	say(s, 1)
	ask(s, 3, 1024) // came, or will
	ask(s, 0, 2048)
	ask(s, 4, 500)
	ask(s, 0, 1024)
	say(s, 2, 3)
	ask(s, 0xfffffe, 1024)
	say(s, 0, 4)
	r = repairOf(s, lost)
	require.Equal(t, &analyse.Repair{
		Loss: r.Loss, Times: 1, SentNs: []int64{15_000}, Probes: 1, ShownNs: 7000, Missing: 2048,
		Asked:   []analyse.Ask{{PSN: 0, Bytes: 2048, AtNs: 9000}, {PSN: 0, Bytes: 1024, AtNs: 11_000}},
		Skipped: &analyse.Ask{PSN: 3, Bytes: 1024, AtNs: 8000},
	}, r)

	s = &script{}
	for range 100 {
		ask(s, 0xfffffe, 5000)
	}
	r = repairOf(s, lost)
	require.Len(t, r.Asked, 64)
	require.Equal(t, 100, 1+len(r.Asked)+r.MoreAsked)
	require.Equal(t, 99, r.Probes)
	_, ok = r.For()
	require.False(t, ok)
}
