package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

const ackTimeoutNs = 4096 << 14

// IBTA 9.7.5.2.2: a sequence NAK acknowledges what is before it; the rest is
// sent again, once for each loss.
func TestSequenceNAK(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.post(WRSend, 10)
	s.post(WRWrite, 1024)
	s.post(WRSend, 10)
	first := []string{"SEND ONLY 0 A", "WRITE FIRST 1 +0/1024", "WRITE MIDDLE 2", "WRITE MIDDLE 3",
		"WRITE LAST 4 A", "SEND ONLY 5 A"}
	s.sends(first...)
	s.nak(2, ib.NAKSequence)
	s.done("0 success")
	s.sends("WRITE MIDDLE 2", "WRITE MIDDLE 3", "WRITE LAST 4 A", "SEND ONLY 5 A")
	s.nak(2, ib.NAKSequence) // a duplicate
	s.silent()
	s.nak(3, ib.NAKSequence) // another loss
	s.sends("WRITE MIDDLE 3", "WRITE LAST 4 A", "SEND ONLY 5 A")
	s.advance(minEpisodeNs)
	s.nak(3, ib.NAKSequence) // the peer says so again, much later: lost once more
	s.sends("WRITE MIDDLE 3", "WRITE LAST 4 A", "SEND ONLY 5 A")
	s.ack(5)
	s.done("1 success", "2 success")
	c := s.a.e.Counters()
	require.EqualValues(t, 4, c.RcvdSeqErr)
	require.EqualValues(t, 3, c.CompleterRetryErr)
	require.EqualValues(t, 10, c.RetransmittedPkts)
}

// NAKs that come before the repetition has left, however late that is, are about what was sent
// before: they take no retries. A responder repeats its NAK, and a busy machine may read several at
// once.
func TestSequenceNAKBeforeRepetition(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt = 1 }})
	s.post(WRWrite, 1024)
	s.sends("WRITE FIRST 0 +0/1024", "WRITE MIDDLE 1", "WRITE MIDDLE 2", "WRITE LAST 3 A")
	for range 5 {
		s.nak(1, ib.NAKSequence)
		s.advance(minEpisodeNs)
	}
	s.sends("WRITE MIDDLE 1", "WRITE MIDDLE 2", "WRITE LAST 3 A")
	s.ack(3)
	s.done("0 success")
	require.EqualValues(t, 1, s.a.e.Counters().CompleterRetryErr)
}

// An ACK that overtakes the repetition makes it unnecessary.
func TestLateACKCutsRepetition(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.post(WRWrite, 1024)
	s.post(WRSend, 600)
	s.sent()
	s.nak(1, ib.NAKSequence)
	s.ack(4) // before the repetition was sent
	s.sends("SEND MIDDLE 5", "SEND LAST 6 A")
	s.ack(6)
	s.done("0 success", "1 success")
	require.EqualValues(t, -1, s.timer())
}

// IBTA 9.7.6.1.3: 4.096 us x 2^timeout, and retry_cnt retries; 7 is seven.
func TestACKTimeout(t *testing.T) {
	for _, retries := range []uint8{0, 1, 7} {
		s := newScript(t, loopOptions{tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt = retries }})
		s.post(WRSend, 300)
		s.post(WRSend, 1)
		s.sends("SEND FIRST 0", "SEND LAST 1 A", "SEND ONLY 2 A")
		for range retries {
			require.EqualValues(t, ackTimeoutNs, s.timer())
			s.advance(ackTimeoutNs - 1)
			s.silent()
			s.advance(1)
			s.sends("SEND FIRST 0", "SEND LAST 1 A", "SEND ONLY 2 A")
		}
		s.advance(ackTimeoutNs)
		s.done("0 transport retry counter exceeded", "1 Work Request Flushed Error")
		s.state(StateErr)
		require.EqualValues(t, -1, s.timer())
		c := s.a.e.Counters()
		require.EqualValues(t, retries+1, c.Timeouts)
		require.EqualValues(t, 1, c.RetryExceededErr)
	}
}

// A requester that is patient has the timer expire ever later, within what IBTA 9.7.6.1.3 permits.
// Any answer starts that over.
func TestPatientRetries(t *testing.T) {
	s := newScript(t,
		loopOptions{tuning: Tuning{LossProbe: -1, PatientRetries: true}, attr: func(a *QPAttr) { a.RetryCnt = 7 }})
	s.post(WRSend, 2*256)
	s.sends("SEND FIRST 0", "SEND LAST 1 A")
	for _, times := range []int64{1, 1, 2, 4} {
		require.EqualValues(t, times*ackTimeoutNs, s.timer())
		s.advance(times * ackTimeoutNs)
		s.sends("SEND FIRST 0", "SEND LAST 1 A")
	}
	s.ack(0)
	for _, times := range []int64{1, 1, 2, 4, 4, 4, 4} {
		require.EqualValues(t, times*ackTimeoutNs, s.timer())
		s.advance(times*ackTimeoutNs - 1)
		s.silent()
		s.advance(1)
		s.sends("SEND LAST 1 A")
	}
	s.advance(4 * ackTimeoutNs)
	s.done("0 transport retry counter exceeded")
	require.EqualValues(t, 12, s.a.e.Counters().Timeouts)
}

// Progress starts the timer over and restores the retries.
func TestProgressRestoresRetries(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{LossProbe: -1}, attr: func(a *QPAttr) { a.RetryCnt = 1 }})
	s.post(WRSend, 5*256)
	s.sent()
	for psn := range 4 {
		s.advance(ackTimeoutNs)
		require.NotEmpty(t, s.sent())
		s.advance(ackTimeoutNs / 2)
		s.ack(psn)
		require.EqualValues(t, ackTimeoutNs, s.timer())
	}
	s.done()
	s.ack(4)
	s.done("0 success")
}

func TestNoTimer(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.Timeout = 0 }})
	s.post(WRSend, 1)
	s.sent()
	require.EqualValues(t, -1, s.timer())
	s.nak(0, ib.NAKSequence)
	s.sends("SEND ONLY 0 A")
	require.EqualValues(t, -1, s.timer())
}

// Sequence NAKs use up retries, too.
func TestSequenceNAKRetriesExceeded(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt = 2 }})
	s.post(WRSend, 1)
	s.sent()
	for range 2 {
		s.nak(0, ib.NAKSequence)
		s.sends("SEND ONLY 0 A")
		s.advance(minEpisodeNs)
	}
	s.nak(0, ib.NAKSequence) // none is left, but the last repetition may still arrive
	s.silent()
	s.advance(ackTimeoutNs - minEpisodeNs - 1)
	s.done()
	s.advance(1)
	s.done("0 transport retry counter exceeded")
}

// Repeated NAKs do not end a queue pair whose repetition is only late.
func TestSequenceNAKsBeforeLateRepetition(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt = 1 }})
	s.post(WRSend, 1)
	s.sent()
	for range 5 {
		s.nak(0, ib.NAKSequence)
		s.advance(2 * minEpisodeNs)
	}
	s.sends("SEND ONLY 0 A")
	s.nak(0, ib.NAKSequence)
	s.advance(30 * minEpisodeNs)
	s.nak(0, ib.NAKSequence)
	s.ack(0)
	s.done("0 success")
}

// An RNR NAK shows that the peer is there: what a NAK said before is forgotten, also in the error.
func TestSequenceNAKForgottenAfterRNR(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt = 1 }, tuning: Tuning{LossProbe: -1}})
	s.post(WRSend, 1)
	s.sent()
	s.nak(0, ib.NAKSequence)
	s.sends("SEND ONLY 0 A")
	s.advance(minEpisodeNs)
	s.nak(0, ib.NAKSequence)
	require.True(t, s.a.qp.sq.retry.doubted)
	s.nak(0, ib.RNRNAK(12))
	require.False(t, s.a.qp.sq.retry.doubted)
	s.advance(640_000)
	s.sends("SEND ONLY 0 A")
	s.ack(0)
	s.done("0 success")
}

// Without a timeout nothing else would end it.
func TestSequenceNAKRetriesExceededWithoutTimeout(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt, a.Timeout = 1, 0 }})
	s.post(WRSend, 1)
	s.sent()
	s.nak(0, ib.NAKSequence)
	s.sends("SEND ONLY 0 A")
	s.advance(minEpisodeNs)
	s.nak(0, ib.NAKSequence)
	s.done("0 transport retry counter exceeded")
}

// Wire format 5.7 and 13.4: the sequence NAK that follows an RNR NAK does not
// cut the wait short, and nothing is sent meanwhile.
func TestRNR(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{LossProbe: -1}})
	s.post(WRWrite, 1)
	s.post(WRSend, 1)
	s.post(WRSend, 1)
	s.sent()
	s.nak(1, ib.RNRNAK(12))
	s.done("0 success")
	s.nak(1, ib.NAKSequence)
	s.nak(1, ib.RNRNAK(12)) // a duplicate
	s.silent()
	s.post(WRSend, 1)
	s.silent()
	require.EqualValues(t, 640_000, s.timer())
	s.advance(639_999)
	s.silent()
	s.advance(1)
	s.sends("SEND ONLY 1 A", "SEND ONLY 2 A", "SEND ONLY 3 A")
	require.EqualValues(t, ackTimeoutNs, s.timer())
	s.ack(3)
	s.done("1 success", "2 success", "3 success")
}

// An ACK of the request that was not taken ends the wait.
func TestRNRThenACK(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{LossProbe: -1}})
	s.post(WRSend, 1)
	s.sent()
	s.nak(0, ib.RNRNAK(0))
	s.post(WRSend, 1)
	s.ack(0)
	s.done("0 success")
	s.sends("SEND ONLY 1 A")
	require.EqualValues(t, ackTimeoutNs, s.timer())
}

func TestRNRRetry(t *testing.T) {
	for _, retries := range []uint8{0, 3} {
		s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RNRRetry = retries }})
		s.post(WRSend, 1)
		for range retries {
			s.sends("SEND ONLY 0 A")
			s.nak(0, ib.RNRNAK(1))
			s.advance(10_000)
		}
		s.sends("SEND ONLY 0 A")
		s.nak(0, ib.RNRNAK(1))
		s.done("0 RNR retry counter exceeded")
		s.state(StateErr)
		c := s.a.e.Counters()
		require.EqualValues(t, retries+1, c.RcvdRNRErr)
		require.EqualValues(t, 1, c.RetryRNRExceededErr)
	}
	s := newScript(t, loopOptions{}) // 7: for ever
	s.post(WRSend, 1)
	for range 1000 {
		s.sends("SEND ONLY 0 A")
		s.nak(0, ib.RNRNAK(1))
		s.advance(10_000)
	}
	s.sends("SEND ONLY 0 A")
	s.ack(0)
	s.done("0 success")
}

// A peer that says that it is not ready is there: what timeouts have used up of the
// transport retries is given back.
func TestRNRRefillsRetries(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.RetryCnt = 1 }})
	s.post(WRSend, 1)
	for range 5 {
		s.sends("SEND ONLY 0 A")
		s.advance(s.timer()) // the RNR NAK is lost
		s.sends("SEND ONLY 0 A")
		s.nak(0, ib.RNRNAK(1))
		s.advance(10_000)
	}
	s.sends("SEND ONLY 0 A")
	s.advance(s.timer())
	s.sends("SEND ONLY 0 A")
	s.advance(s.timer())
	s.done("0 transport retry counter exceeded")
}

// rdma_rxe answers a READ with an RNR NAK when it cannot send the data.
func TestRNRForRead(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.post(WRRead, 600)
	s.sent()
	s.data(ib.RCReadRespFirst, 0, make([]byte, 256))
	s.nak(1, ib.RNRNAK(1))
	s.advance(10_000)
	s.sends("READ REQUEST 1 A +256/344")
}

// The window: at most so many packets unacknowledged, the last one asking for
// an ACK; loss halves it and ACKs open it again.
func TestWindow(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{MaxUnackedPackets: 8, AckReqInterval: 100, GoBackN: true}})
	s.post(WRSend, 256*40)
	s.sends("SEND FIRST 0", "SEND MIDDLE 1", "SEND MIDDLE 2", "SEND MIDDLE 3 A",
		"SEND MIDDLE 4", "SEND MIDDLE 5", "SEND MIDDLE 6", "SEND MIDDLE 7 A")
	s.ack(3)
	s.sends("SEND MIDDLE 8", "SEND MIDDLE 9", "SEND MIDDLE 10", "SEND MIDDLE 11 A")
	s.nak(5, ib.NAKSequence)
	s.sends("SEND MIDDLE 5 A", "SEND MIDDLE 6 A", "SEND MIDDLE 7 A", "SEND MIDDLE 8 A")
	s.ack(8)
	s.sends("SEND MIDDLE 9 A", "SEND MIDDLE 10 A", "SEND MIDDLE 11 A", "SEND MIDDLE 12 A", "SEND MIDDLE 13 A")
	require.Equal(t, 5, s.a.qp.sq.win.size)
	s.advance(ackTimeoutNs)
	require.Equal(t, 5, s.a.qp.sq.win.size, "no less than at the beginning of a connection, if it was more")
}

// A READ larger than the window is asked for in parts, and a part that is lost is asked for again
// with the end that it had: to the peer it is a duplicate, which may not reach beyond the original.
func TestReadInParts(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{MaxUnackedPackets: 4, GoBackN: true}})
	b := make([]byte, 256)
	s.post(WRRead, 256*9+1)
	s.sends("READ REQUEST 0 A +0/1024")
	s.data(ib.RCReadRespFirst, 0, b)
	s.silent() // not for a crumb
	s.data(ib.RCReadRespMiddle, 1, b)
	s.sends("READ REQUEST 4 A +1024/512")
	s.data(ib.RCReadRespLast, 3, b) // 2 is lost
	s.sends("READ REQUEST 2 A +512/512", "READ REQUEST 4 A +1024/512")
	s.data(ib.RCReadRespFirst, 2, b)
	s.data(ib.RCReadRespLast, 3, b)
	s.sends("READ REQUEST 6 A +1536/512")
	s.advance(ackTimeoutNs)
	s.sends("READ REQUEST 4 A +1024/512", "READ REQUEST 6 A +1536/512")
	for psn := 4; psn < 8; psn++ {
		s.data([2]ib.Opcode{ib.RCReadRespFirst, ib.RCReadRespLast}[psn&1], psn, b)
	}
	s.sends("READ REQUEST 8 A +2048/257")
	s.data(ib.RCReadRespFirst, 8, b)
	s.data(ib.RCReadRespLast, 9, b[:1])
	s.done("0 success")
}

// At most MaxRdAtomic READs and atomics are outstanding (IBTA 9.4.3); what is
// behind one that waits, waits too.
func TestReadDepth(t *testing.T) {
	s := newScript(t, loopOptions{attr: func(a *QPAttr) { a.MaxRdAtomic = 2 }})
	for range 3 {
		s.post(WRFetchAdd, 8)
	}
	s.post(WRSend, 1)
	s.sends("FETCH ADD 0 A", "FETCH ADD 1 A")
	s.atomic(0, 1)
	s.sends("FETCH ADD 2 A", "SEND ONLY 3 A")
	s.advance(ackTimeoutNs)
	s.sends("FETCH ADD 1 A", "FETCH ADD 2 A", "SEND ONLY 3 A")

	s = newScript(t, loopOptions{attr: func(a *QPAttr) { a.MaxRdAtomic = 0 }})
	s.post(WRSend, 1)
	s.post(WRRead, 1)
	s.sends("SEND ONLY 0 A")
	s.done()
	s.ack(0)
	s.done("0 success", "1 local QP operation error")
}

// IBTA 10.8.3.3: a fence waits for earlier READs and atomics.
func TestFence(t *testing.T) {
	s := newScript(t, loopOptions{})
	fence := func(wr *SendWR) { wr.Flags |= SendFence }
	s.post(WRSend, 1)
	s.post(WRSend, 1, fence)
	s.post(WRRead, 300)
	s.post(WRFetchAdd, 8)
	s.post(WRSend, 1, fence)
	s.post(WRSend, 1)
	s.sends("SEND ONLY 0 A", "SEND ONLY 1 A", "READ REQUEST 2 A +0/300", "FETCH ADD 4 A")
	s.ack(1)
	s.data(ib.RCReadRespFirst, 2, make([]byte, 256))
	s.data(ib.RCReadRespLast, 3, make([]byte, 44))
	s.silent()
	s.atomic(4, 0)
	s.sends("SEND ONLY 5 A", "SEND ONLY 6 A")
}

// IBTA 10.3.1.6: in SQD what was begun is finished, and nothing new begun.
func TestDrain(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{MaxUnackedPackets: 2}})
	s.post(WRSend, 4*256)
	s.post(WRSend, 1)
	s.sends("SEND FIRST 0 A", "SEND MIDDLE 1 A")
	require.NoError(t, s.a.qp.Modify(s.now, QPAttr{State: StateSQD, EnSQDAsyncNotify: true}, AttrState|AttrEnSQDNotify))
	s.post(WRSend, 1)
	s.ack(1)
	s.sends("SEND MIDDLE 2 A", "SEND LAST 3 A")
	s.nak(3, ib.NAKSequence)
	s.sends("SEND LAST 3 A")
	_, ok := s.a.e.PollEvent()
	require.False(t, ok)
	s.ack(3)
	s.done("0 success")
	ev, ok := s.a.e.PollEvent()
	require.True(t, ok)
	require.Equal(t, Event{Type: EventSQDrained, QP: s.a.qp}, ev)
	s.silent()
	require.NoError(t, s.a.qp.Modify(s.now, QPAttr{State: StateRTS}, AttrState))
	s.sends("SEND ONLY 4 A", "SEND ONLY 5 A")
}

// Local errors complete in their turn: after what was posted before them.
func TestLocalErrors(t *testing.T) {
	s := newScript(t, loopOptions{})
	badKey := func(wr *SendWR) { wr.SGList[0].LKey++ }
	s.post(WRSend, 1)
	s.post(WRSend, 1, badKey)
	s.post(WRSend, 1)
	s.sends("SEND ONLY 0 A")
	s.advance(ackTimeoutNs)
	s.sends("SEND ONLY 0 A")
	s.done()
	s.ack(0)
	s.done("0 success", "1 local protection error", "2 Work Request Flushed Error")
	s.state(StateErr)
	s.post(WRSend, 1)
	s.done("3 Work Request Flushed Error")
}

// Memory that goes away between two packets of a message.
func TestPayloadRevoked(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{MaxUnackedPackets: 2}})
	s.post(WRSend, 4*256)
	s.sent()
	require.NoError(t, s.a.region.Deregister(nil))
	s.ack(1)
	s.silent()
	s.done("0 local protection error")
}

// Every timer that a flush leaves behind would fire on an empty queue.
func TestFlushStopsTimers(t *testing.T) {
	for _, provoke := range []func(*script){
		func(*script) {},
		func(s *script) { s.nak(0, ib.RNRNAK(0)) },
	} {
		s := newScript(t, loopOptions{})
		s.post(WRRead, 600)
		s.post(WRSend, 1)
		s.sent()
		provoke(s)
		require.NoError(t, s.a.qp.Modify(s.now, QPAttr{State: StateErr}, AttrState))
		s.done("0 Work Request Flushed Error", "1 Work Request Flushed Error")
		require.EqualValues(t, -1, s.timer())
		s.ack(3)
		s.silent()
		require.NoError(t, s.a.qp.Modify(s.now, QPAttr{State: StateReset}, AttrState))
		s.connect(s.a, s.b, loopOptions{typ: ib.RC, mtu: ib.MTU256, psn: s.psn0})
		s.post(WRSend, 1)
		s.sends("SEND ONLY 0 A")
	}
}

// A lost packet is no reason to wait longer for the next: only the second in a row that is answered
// after the ACK timeout is, without a round trip between, or where none is known. Nobody waits
// longer than four times.
func TestLateAnswers(t *testing.T) {
	const rtt = 1000
	late := func(s *script, psn int, ns int64) {
		s.post(WRSend, 1)
		s.sent()
		s.advance(ackTimeoutNs)
		s.sent()
		s.advance(ns)
		s.ack(psn)
	}
	waits := func(s *script, psn int, want int64) {
		t.Helper()
		s.post(WRSend, 1)
		s.sent()
		require.Equal(t, want, s.timer())
		s.advance(rtt)
		s.ack(psn)
		s.post(WRSend, 1)
		s.sent()
		require.EqualValues(t, ackTimeoutNs, s.timer(), "a round trip is known")
		s.ack(psn + 1)
	}
	open := func() *script { return newScript(t, loopOptions{tuning: Tuning{LossProbe: -1}}) }
	s := open()
	late(s, 0, rtt)
	waits(s, 1, 2*(ackTimeoutNs+rtt))
	late(s, 3, rtt)
	waits(s, 4, ackTimeoutNs)
	late(s, 6, rtt)
	late(s, 7, 2*rtt)
	waits(s, 8, 2*(ackTimeoutNs+2*rtt))
	s = open()
	late(s, 0, 2*ackTimeoutNs/3)
	waits(s, 1, 2*(ackTimeoutNs+2*ackTimeoutNs/3))
	s = open()
	late(s, 0, ackTimeoutNs-1)
	s.post(WRSend, 1)
	s.sent()
	require.EqualValues(t, 4*ackTimeoutNs-2, s.timer())
}
