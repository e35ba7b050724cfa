package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// acknowledged takes a sample if una answers what is timed, as the requester does.
func (e *rttEstimate) acknowledged(now int64, una ib.PSN) bool {
	return e.answers(una) && e.answered(now, 10_000)
}

// RFC 6298, with one packet timed at a time.
func TestRTTEstimate(t *testing.T) {
	var e rttEstimate
	require.False(t, e.acknowledged(5, 1), "nothing is timed")
	e.start(100, ib.PSNMask)
	e.start(150, 0) // the first one is
	require.False(t, e.acknowledged(300, ib.PSNMask), "not that far")
	require.True(t, e.acknowledged(900, 0))
	require.Equal(t, rttEstimate{psn: ib.PSNMask, sentAt: 100, smoothed: 800, variance: 400, least: 800,
		last: 800, low: 800, lowNext: 800, mostLow: 800, short: true, awaits: 3200}, e)
	require.False(t, e.acknowledged(1000, 1), "one sample each")
	for range 100 {
		e.start(0, 7)
		require.True(t, e.acknowledged(1600, 8))
	}
	require.InDelta(t, 1600, e.smoothed, 8, "it follows")
	require.Less(t, e.variance, int64(100), "and gets sure")
	e.start(0, 9)
	require.True(t, e.acknowledged(16000, 10))
	require.Greater(t, e.variance, int64(3000), "until it is surprised")
	require.Less(t, e.smoothed, int64(4000))
	e.start(0, 11)
	e.cancel()
	require.False(t, e.acknowledged(9, 12), "Karn")
	e = rttEstimate{}
	e.start(5, 0)
	require.True(t, e.acknowledged(5, 1))
	require.NotZero(t, e.smoothed, "known, if the clock did not move")
	for _, took := range []int64{3600e9, 40_001} {
		e = rttEstimate{}
		e.start(5, 0)
		require.False(t, e.acknowledged(5+took, 1), "a process was stopped, or the clock has jumped")
		e.start(5, 0)
		e.again()
		require.False(t, e.acknowledged(5+took, 1))
		require.Equal(t, rttEstimate{sentAt: 5, twice: true}, e)
	}
}

// What a sample says of the queue: where the longest lately is 5 ms, one of less than a quarter is
// none, one of up to half is short. A queue is long only if a few samples in a row say so, and a
// wait for a processor is none.
func TestRTTQueue(t *testing.T) {
	const ms = 1_000_000
	var e rttEstimate
	sample := func(rtt int64, n int) [3]bool {
		for range n {
			e.sampleOf(rtt)
		}
		return [3]bool{e.empty, e.short, e.waits}
	}
	require.Equal(t, [3]bool{true, true, false}, sample(ms, 2))
	require.Equal(t, [3]bool{}, sample(6*ms, 1), "one may have waited for a processor")
	sample(6*ms, 12)
	require.EqualValues(t, 6*ms, e.mostLow)
	require.Equal(t, [3]bool{false, false, true}, sample(6*ms, 1))
	require.Equal(t, [3]bool{false, true, false}, sample(3*ms, 1))
	require.Equal(t, [3]bool{true, true, false}, sample(2*ms, 1))
	sample(50*ms, 1)
	sample(2*ms, 3)
	require.LessOrEqual(t, e.mostLow, int64(6*ms), "a process had to wait")
	sample(2*ms, 1000)
	require.Equal(t, [3]bool{false, false, true}, sample(2*ms, 1), "the queue has become shorter")

	// On a long path noise is no queue.
	e = rttEstimate{}
	sample(10*ms, 8)
	require.Equal(t, [3]bool{false, true, false}, sample(12*ms, 100))
	require.Equal(t, [3]bool{true, true, false}, sample(11*ms, 1))
	require.Equal(t, [3]bool{false, false, true}, sample(13*ms, 100))
}

// measured lets the requester have a round trip of ns, with a WRITE that is acknowledged.
func (s *script) measured(ns int64) {
	s.t.Helper()
	id := s.ids
	psn := int(int32(s.a.qp.sq.psn-s.psn0) << 8 >> 8)
	s.post(WRWrite, 1)
	require.Len(s.t, s.sent(), 1)
	s.advance(ns)
	s.ack(psn)
	require.Equal(s.t, id, completions(s.a.scq)[0].ID)
}

// Karn: the time from the first sending of a packet to the answer to the second is
// no round trip, and neither is the one from the second to the answer to the first.
func TestRepeatedPacketIsNotTimed(t *testing.T) {
	for name, again := range map[string]func(s *script){
		"ACK timeout":  func(s *script) { s.advance(ackTimeoutNs) },
		"sequence NAK": func(s *script) { s.nak(1, ib.NAKSequence) },
		"RNR NAK":      func(s *script) { s.nak(1, ib.RNRNAK(1)); s.advance(ib.RNRCode(1).Ns()) },
		"loss probe":   func(s *script) { s.advance(s.timer()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, loopOptions{})
			s.measured(10e3)
			want := s.a.qp.sq.rtt.smoothed
			require.EqualValues(t, 10e3, want)
			s.post(WRSend, 1)
			s.sends("SEND ONLY 1 A")
			again(s)
			s.sends("SEND ONLY 1 A")
			s.advance(1)
			s.ack(1)
			s.done("1 success")
			require.Equal(t, want, s.a.qp.sq.rtt.smoothed)
			s.measured(90e3)
			require.EqualValues(t, 20e3, s.a.qp.sq.rtt.smoothed, "the next one is")
		})
	}
}

// A sequence NAK that comes sooner than most of a round trip after going back is about the loss
// that is being repaired. If a round trip takes as long as a responder waits before it repeats a
// NAK, it has to come later than any answer.
func TestEpisodeTakesARoundTrip(t *testing.T) {
	for _, x := range [][2]int64{{40e3, 30e3}, {5e6, 15e6}} {
		s := newScript(t, loopOptions{tuning: Tuning{LossProbe: -1}})
		s.measured(x[0])
		s.post(WRSend, 1)
		s.sends("SEND ONLY 1 A")
		s.nak(1, ib.NAKSequence)
		s.advance(ms) // since the packet left, and not since it was due
		s.sends("SEND ONLY 1 A")
		s.advance(x[1] - 1)
		s.nak(1, ib.NAKSequence)
		s.silent()
		s.advance(1)
		s.nak(1, ib.NAKSequence)
		s.sends("SEND ONLY 1 A")
	}
}

// Where no round trip is measured since each window loses a packet, the time from going back to a
// NAK that tells of progress is one.
func TestEpisodeWhereAllIsLost(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{LossProbe: -1}})
	s.post(WRWrite, 100*256)
	s.sent()
	for i := range 10 {
		s.nak(i+1, ib.NAKSequence)
		s.sent()
		s.advance(10e3)
	}
	s.nak(10, ib.NAKSequence)
	require.NotEmpty(t, s.sent(), "10 us after it was sent again")
	require.Zero(t, s.a.qp.sq.rtt.smoothed)
}

// A gap in responses, two round trips after asking for the rest of a READ or later, is
// a new one; the time doubles with each that brings nothing.
func TestGapInResponsesAfterRoundTrips(t *testing.T) {
	const rtt = 2e6
	s := newScript(t, loopOptions{tuning: Tuning{LossProbe: -1, GoBackN: true}})
	s.measured(rtt)
	s.post(WRRead, 3*256)
	s.sends("READ REQUEST 1 A +0/768")
	data := make([]byte, 256)
	s.data(ib.RCReadRespMiddle, 2, data)
	s.sends("READ REQUEST 1 A +0/768")
	for _, wait := range []int64{2 * rtt, 4 * rtt, 8 * rtt} {
		s.advance(wait - 1)
		s.data(ib.RCReadRespMiddle, 2, data)
		s.silent()
		s.advance(1)
		s.data(ib.RCReadRespMiddle, 2, data)
		s.sends("READ REQUEST 1 A +0/768")
	}
	s.data(ib.RCReadRespFirst, 1, data)
	s.data(ib.RCReadRespLast, 3, data)
	s.sends("READ REQUEST 2 A +256/512")
	s.advance(2 * rtt)
	s.data(ib.RCReadRespLast, 3, data)
	s.sends("READ REQUEST 2 A +256/512")
}

// After a timeout a sequence NAK is about what was sent since, however soon it comes.
func TestSequenceNAKRightAfterTimeout(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.post(WRSend, 300)
	s.sends("SEND FIRST 0", "SEND LAST 1 A")
	s.nak(0, ib.NAKSequence) // an episode begins
	s.sends("SEND FIRST 0", "SEND LAST 1 A")
	s.advance(ackTimeoutNs)
	s.sends("SEND FIRST 0 A", "SEND LAST 1 A")
	s.nak(0, ib.NAKSequence)
	s.sends("SEND FIRST 0 A", "SEND LAST 1 A")
	s.nak(0, ib.NAKSequence) // of the same repetition
	s.silent()
	s.ack(1)
	s.done("0 success")
}

// A response that was asked for again is late when even one is that fills the queues of the path,
// and later than that if such ones have come twice: those that were sent again twice are no
// samples.
func TestLateResponse(t *testing.T) {
	sq := requester{miss: &missing{ring: []sentPacket{{lastResent: true}}}, peerKeeps: true}
	require.Zero(t, sq.lateNs(), "nothing is known")
	for range 50 {
		sq.rtt.sampleOf(5 * ms)
		sq.miss.again.sampleOf(ms)
	}
	late := sq.lateNs()
	require.Greater(t, late, int64(5*ms))
	for range 9 {
		sq.cameTwice(0)
	}
	require.Equal(t, late<<maxDoubt, sq.lateNs())
	s := sentPacket{had: true, want: true, order: 1}
	sq.came(ms, &s)
	require.Equal(t, late, sq.lateNs(), "a sample")
}

// Progress after going back that takes less than the shortest round trip may be a late answer. A
// few times in a row, without a sample, it shows a path that has become shorter.
func TestRTTShorter(t *testing.T) {
	const ms = 1_000_000
	var e rttEstimate
	require.False(t, e.wentBack(ms, false), "nothing is known")
	e.sampleOf(10 * ms)
	for range lowSamples - 1 {
		require.False(t, e.wentBack(2*ms, false))
	}
	e.sampleOf(10 * ms)
	for range lowSamples - 1 {
		require.False(t, e.wentBack(2*ms, false), "a sample came in between")
	}
	require.False(t, e.wentBack(11*ms, false))
	for _, ns := range []int64{4, 5, 3} {
		require.False(t, e.wentBack(ns*ms, false), "and a longer one")
	}
	for range 2 * lowSamples {
		require.False(t, e.wentBack(2*ms, true), "responses")
	}
	require.EqualValues(t, 10*ms, e.least)
	require.True(t, e.wentBack(2*ms, false))
	require.EqualValues(t, 5*ms, e.least, "the longest of them: the path is no longer")
}
