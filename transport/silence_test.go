package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// A QP with SilenceNs asks on when its retries are used up, ever less often, down to once a second,
// until the silence has lasted as long.
func TestSilence(t *testing.T) {
	const silence = 30e9
	s := newScript(t,
		loopOptions{tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt, a.SilenceNs = 2, silence }})
	s.post(WRSend, 300)
	s.sends("SEND FIRST 0", "SEND LAST 1 A")
	var waits []int64
	var total int64
	for s.a.qp.State() == StateRTS {
		ns := s.timer()
		waits = append(waits, ns)
		total += ns
		s.advance(ns)
		s.sent()
	}
	s.done("0 transport retry counter exceeded")
	require.EqualValues(t, silence, total)
	const first = ackTimeoutNs
	require.Equal(t, []int64{first, first, first, 2 * first, 4 * first, 8 * first, askAgainNs, askAgainNs}, waits[:8])
	for _, ns := range waits[6 : len(waits)-1] {
		require.EqualValues(t, askAgainNs, ns)
	}
	require.EqualValues(t, 1, s.a.e.Counters().RetryExceededErr)
}

// The peer is back after a silence that took all retries: an ACK, or a NAK for what was lost
// meanwhile, and there are all retries again.
func TestSilenceEnds(t *testing.T) {
	for name, comesBack := range map[string]func(s *script) (retries int){
		"ACK": func(s *script) int {
			s.ack(1)
			s.done("0 success")
			s.post(WRSend, 1)
			s.sends("SEND ONLY 2 A")
			return 2
		},
		"sequence NAK": func(s *script) int {
			s.nak(0, ib.NAKSequence)
			s.sends("SEND FIRST 0 A", "SEND LAST 1 A")
			return 1 // the NAK has taken one
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t,
				loopOptions{tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt, a.SilenceNs = 2, 60e9 }})
			s.post(WRSend, 300)
			for range 12 {
				s.sent()
				s.advance(s.timer())
			}
			require.Equal(t, StateRTS, s.a.qp.State())
			s.sent()
			for range 1 + comesBack(s) { // as from the beginning
				require.EqualValues(t, ackTimeoutNs, s.timer())
				s.advance(ackTimeoutNs)
				s.sent()
			}
			require.EqualValues(t, 2*ackTimeoutNs, s.timer())
		})
	}
}

// An answer to a later request ends it, too: it shows that the one to a READ was lost.
func TestSilenceEndsBehindRead(t *testing.T) {
	s := newScript(t,
		loopOptions{tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt, a.SilenceNs = 2, 60e9 }})
	s.post(WRRead, 300)
	s.post(WRSend, 10)
	for range 12 {
		s.sent()
		s.advance(s.timer())
	}
	s.sent()
	s.ack(2)
	s.sent()
	for range 2 { // the implied NAK has taken one
		require.EqualValues(t, ackTimeoutNs, s.timer())
		s.advance(ackTimeoutNs)
		s.sent()
	}
	require.EqualValues(t, 2*ackTimeoutNs, s.timer())
}

// A link that was down for as long as the retries last, to the millisecond, costs no connection:
// the first NAK gives back what silence has taken, however much that is.
func TestSilenceEndsAtAnyTry(t *testing.T) {
	const retries = 2
	for silent := range retries + 3 {
		s := newScript(t, loopOptions{
			tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt, a.SilenceNs = retries, 60e9 },
		})
		s.post(WRSend, 300)
		s.sent()
		for range silent {
			s.advance(s.timer())
			s.sent()
		}
		for range retries { // each of which is lost again
			s.advance(minEpisodeNs)
			s.nak(0, ib.NAKSequence)
			require.Len(t, s.sent(), 2, "both packets again")
		}
		s.ack(1)
		s.done("0 success")
	}
}

// What is refused with NAKs, again and again, is no silence, and ends.
func TestSilenceIsNotStall(t *testing.T) {
	const silence = 10e9
	s := newScript(t,
		loopOptions{tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt, a.SilenceNs = 2, silence }})
	s.post(WRSend, 300)
	s.sent()
	var waited int64
	for s.a.qp.State() == StateRTS {
		ns := s.timer()
		s.advance(ns)
		if waited += ns; waited > silence+10*ackTimeoutNs {
			t.Fatal("asked for longer than SilenceNs")
		}
		s.sent()
		s.nak(0, ib.NAKSequence)
		s.sent()
	}
	s.done("0 transport retry counter exceeded")
}

// Silence is counted while this side is awake: one that was stopped itself has not waited for
// anybody.
func TestSilenceWhileAsleep(t *testing.T) {
	s := newScript(t,
		loopOptions{tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt, a.SilenceNs = 0, 10e9 }})
	s.post(WRSend, 1)
	for range 3 {
		s.sends("SEND ONLY 0 A")
		s.advance(100e9)
	}
	s.sends("SEND ONLY 0 A")
	s.ack(0)
	s.done("0 success")
}

// What the peer refuses, or what cannot pass, is no silence.
func TestSilenceIsNotRefusal(t *testing.T) {
	s := newScript(t, loopOptions{mtu: ib.MTU1024, tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) {
		a.RetryCnt, a.SilenceNs = 0, 60e9
	}})
	s.post(WRSend, 3000)
	s.sent()
	s.a.qp.path.TooLong++
	s.advance(ackTimeoutNs)
	s.done("0 local length error")
}

func TestSilenceAttribute(t *testing.T) {
	s := newScript(t, loopOptions{})
	for ns, ok := range map[int64]bool{-1: false, 0: true, MaxSilenceNs: true, MaxSilenceNs + 1: false} {
		err := s.a.qp.Modify(0, QPAttr{SilenceNs: ns}, AttrSilence)
		require.Equal(t, ok, err == nil, ns)
	}
}
