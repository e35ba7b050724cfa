package transport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

func patiently(wr *SendWR) { wr.Flags |= SendPatient }

// patientScript is a requester that knows a round trip of 10 us and has room for 64 requests.
func patientScript(t *testing.T, o loopOptions) *script {
	o.caps = QPCaps{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}
	s := newScript(t, o)
	s.measured(10e3)
	return s
}

// One packet asks for the answer to many messages: the last of a quarter of the send queue.
func TestPatientMessages(t *testing.T) {
	s := patientScript(t, loopOptions{tuning: Tuning{MaxUnackedPackets: 64}})
	for range 15 {
		s.post(WRSend, 8, patiently)
		require.NotContains(t, s.sent()[0], " A")
	}
	s.post(WRSend, 8, patiently)
	s.sends("SEND ONLY 16 A")
	s.post(WRSend, 8, patiently)
	s.sends("SEND ONLY 17")
	s.post(WRSend, 600, patiently)
	s.sends("SEND FIRST 18", "SEND MIDDLE 19", "SEND LAST 20")
	s.post(WRSend, 8)
	s.sends("SEND ONLY 21 A")
	s.ack(21)
	require.Len(t, completions(s.a.scq), 19)
	require.EqualValues(t, -1, s.timer())
	c := s.a.e.Counters()
	require.Zero(t, c.LossProbes+c.RetransmittedPkts)
}

// Where nothing later asks, the last packet does, sent again when a lost one would be. That is no
// sign of a loss, and it is if nothing answers then.
func TestPatientEnd(t *testing.T) {
	s := patientScript(t, loopOptions{})
	for range 5 {
		s.post(WRWrite, 8, patiently)
		s.sent()
		s.advance(1000)
	}
	s.advance(s.timer())
	s.sends("WRITE ONLY 5 A +0/8")
	require.Zero(t, s.a.e.Counters().LossProbes)
	s.advance(s.timer())
	s.sends("WRITE ONLY 5 A +0/8")
	require.EqualValues(t, 1, s.a.e.Counters().LossProbes)
	s.ack(5)
	s.done("1 success", "2 success", "3 success", "4 success", "5 success")
	require.EqualValues(t, -1, s.timer())
	s.post(WRWrite, 8, patiently)
	s.sends("WRITE ONLY 6 +0/8")
	s.ack(6) // unasked
	s.done("6 success")
}

// A queue pair whose few messages all end that way asks at once, more and more often.
func TestPatientInVain(t *testing.T) {
	s := patientScript(t, loopOptions{})
	late, psn := 0, 0
	for range 100 {
		s.post(WRWrite, 8, patiently)
		psn++
		if sent := s.sent()[0]; !strings.Contains(sent, " A") {
			s.advance(s.timer())
			require.Len(t, s.sent(), 1)
			late++
		}
		s.ack(psn)
	}
	require.Equal(t, 6, late, "of 100")
}

// Somebody waits: Ask asks at once, for what has left by its last packet, for what has not in that.
func TestPatientAsk(t *testing.T) {
	s := patientScript(t, loopOptions{})
	s.a.qp.Ask()
	s.silent()
	s.post(WRSend, 8, patiently)
	s.post(WRSend, 8, patiently)
	s.a.qp.Ask()
	s.sends("SEND ONLY 1", "SEND ONLY 2 A")
	s.a.qp.Ask()
	s.silent()
	s.post(WRSend, 8, patiently)
	s.sends("SEND ONLY 3")
	s.a.qp.Ask()
	s.ack(2) // an earlier answer does not make it superfluous
	s.sends("SEND ONLY 3 A")
	s.ack(3)
	s.done("1 success", "2 success", "3 success")
	require.EqualValues(t, -1, s.timer())
}

// Who drains the send queue waits.
func TestPatientDrain(t *testing.T) {
	s := patientScript(t, loopOptions{})
	s.post(WRSend, 8, patiently)
	s.sends("SEND ONLY 1")
	require.NoError(t, s.a.qp.Modify(s.now, QPAttr{State: StateSQD}, AttrState))
	s.sends("SEND ONLY 1 A")
}

// Messages ask where nothing else would in time: without probes, with credits, behind a timeout,
// and once some time has passed since the first that did not.
func TestPatientAsksNow(t *testing.T) {
	s := patientScript(t, loopOptions{tuning: Tuning{LossProbe: -1}})
	s.post(WRSend, 8, patiently)
	s.sends("SEND ONLY 1 A")

	s = patientScript(t, loopOptions{})
	s.aeth(0, ib.ACKCredit(ib.CreditCodeFor(4)), 1)
	s.post(WRSend, 8, patiently)
	s.sends("SEND ONLY 1 A")

	s = patientScript(t, loopOptions{})
	for i := range 12 {
		s.post(WRSend, 8, patiently)
		require.Equal(t, i == 10, strings.Contains(s.sent()[0], " A"), i)
		s.advance(maxUnaskedNs / 10) // shorter than a probe waits
	}

	s = patientScript(t, loopOptions{})
	s.post(WRSend, 8, patiently)
	s.post(WRSend, 8, patiently)
	s.sends("SEND ONLY 1", "SEND ONLY 2")
	s.nak(1, ib.NAKSequence)
	s.sends("SEND ONLY 1 A", "SEND ONLY 2 A")
}

// A responder acknowledges what was not asked for with what it sends, if that shares a datagram,
// and before the end; never twice, and nothing inside a message.
func TestUnaskedAcknowledgement(t *testing.T) {
	for _, tc := range []struct {
		gso     bool
		answers []int // bytes
		acks    bool
	}{{true, []int{8}, true}, {true, []int{8, 8}, true}, {true, []int{16, 8}, false}, {false, []int{8}, false}} {
		l := newLoop(t,
			loopOptions{gso: tc.gso, caps: QPCaps{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
		carry := func() { // no timer runs
			for l.carry(l.a, l.b)+l.carry(l.b, l.a) > 0 {
			}
		}
		toB := func(flags SendFlags) {
			require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{Opcode: WRWrite, Flags: flags | SendSignaled,
				SGList: []SGE{l.a.at(0, 8)}, RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey()}))
		}
		toB(0)
		carry()
		completions(l.a.scq)
		toB(SendPatient)
		carry()
		require.Empty(t, completions(l.a.scq))
		for _, n := range tc.answers {
			require.NoError(t, l.b.qp.PostSend(l.now, &SendWR{
				Opcode: WRWrite, SGList: []SGE{l.b.at(0, n)}, RemoteAddr: l.a.region.IOVA(), RKey: l.a.region.RKey(),
			}))
		}
		carry()
		require.Len(t, completions(l.a.scq), map[bool]int{true: 1, false: 0}[tc.acks])
		for range 2 {
			sent := l.b.e.Counters().SentPkts
			l.b.e.AcknowledgeAll()
			carry()
			require.Equal(t, !tc.acks, l.b.e.Counters().SentPkts > sent)
			tc.acks = true
		}
	}
}
