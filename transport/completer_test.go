package transport

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

func TestSegmentation(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.post(WRSend, 600)
	s.post(WRWrite, 512)
	s.post(WRSendImm, 0)
	s.post(WRRead, 700)
	s.sends(
		"SEND FIRST 0", "SEND MIDDLE 1", "SEND LAST 2 A",
		"WRITE FIRST 3 +0/512", "WRITE LAST 4 A",
		"SEND ONLY IMM 5 A",
		"READ REQUEST 6 A +0/700",
	)
	s.silent()
	require.Equal(t, s.psn0.Add(9), s.a.qp.sq.nextPSN(), "a READ takes a PSN for each packet of its response")
}

// IBTA 9.7.5.1.2: an ACK acknowledges everything before it.
func TestCoalescedACK(t *testing.T) {
	s := newScript(t, loopOptions{})
	for range 3 {
		s.post(WRSend, 300)
	}
	s.sent()
	s.ack(0)
	s.done()
	s.ack(2)
	s.done("0 success")
	s.ack(5)
	s.done("1 success", "2 success")
	require.EqualValues(t, -1, s.timer(), "nothing is outstanding")
}

// Wire format 5.6 and 13.4: rdma_rxe acknowledges duplicates with PSNs that answer nothing.
func TestGhostACKs(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.ack(0)
	s.post(WRSend, 300)
	s.sent()
	for _, psn := range []int{-1, -2, 2, 3, 1 << 22, -1 << 22, 1<<23 - 1, -1 << 23} {
		s.ack(psn)
		s.nak(psn, ib.NAKSequence)
		s.nak(psn, ib.NAKRemoteAccess)
		s.nak(psn, ib.RNRNAK(1))
		s.data(ib.RCReadRespOnly, psn, []byte{1})
		s.atomic(psn, 1)
	}
	s.silent()
	s.done()
	s.ack(1)
	s.done("0 success")
	s.ack(1)
	s.nak(1, ib.NAKInvalidRequest)
	s.state(StateRTS)
}

func TestReadAndAtomics(t *testing.T) {
	s := newScript(t, loopOptions{})
	want := make([]byte, 700)
	fill(want, 3)
	s.post(WRRead, 700)
	s.post(WRFetchAdd, 8, func(wr *SendWR) { wr.SGList = []SGE{s.a.at(1024, 8)} })
	s.post(WRSend, 1)
	s.sends("READ REQUEST 0 A +0/700", "FETCH ADD 3 A", "SEND ONLY 4 A")
	s.data(ib.RCReadRespFirst, 0, want[:256])
	s.data(ib.RCReadRespMiddle, 1, want[256:512])
	s.data(ib.RCReadRespLast, 2, want[512:])
	s.done("0 success")
	s.atomic(3, 0x0102030405060708)
	s.ack(4)
	s.done("1 success", "2 success")
	require.Equal(t, want, s.a.data[:700])
	require.EqualValues(t, uint64(0x0102030405060708), binary.NativeEndian.Uint64(s.a.data[1024:]))
}

// A gap in the responses of a READ is an implied NAK: what is missing is asked for again, once, and
// the rest may come as the rest of the old READ (rxe) or as a READ of its own (IBTA).
func TestReadGap(t *testing.T) {
	for name, ops := range map[string][2]ib.Opcode{
		"rxe":  {ib.RCReadRespMiddle, ib.RCReadRespLast},
		"IBTA": {ib.RCReadRespFirst, ib.RCReadRespLast},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, loopOptions{tuning: Tuning{GoBackN: true}})
			want := make([]byte, 4*256)
			fill(want, 4)
			s.post(WRRead, 1024)
			s.post(WRSend, 10)
			s.sends("READ REQUEST 0 A +0/1024", "SEND ONLY 4 A")
			s.data(ib.RCReadRespFirst, 0, want[:256])
			s.data(ib.RCReadRespMiddle, 2, want[512:768])
			s.sends("READ REQUEST 1 A +256/768", "SEND ONLY 4 A")
			s.data(ib.RCReadRespLast, 3, want[768:])
			s.ack(4)
			s.silent()
			s.done()
			s.data(ops[0], 1, want[256:512])
			s.data(ib.RCReadRespMiddle, 2, want[512:768])
			s.data(ops[1], 3, want[768:])
			s.ack(4)
			s.done("0 success", "1 success")
			require.Equal(t, want, s.a.data[:1024])
			require.EqualValues(t, 1, s.a.e.Counters().ImpliedNAKs)
		})
	}
}

// The repetition of a READ loses its first packet too. What tells is that the
// PSNs of the responses start over; the rest of the first answer does not.
func TestReadGapTwice(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{GoBackN: true}, attr: func(a *QPAttr) { a.RetryCnt = 2 }})
	b := make([]byte, 256)
	s.post(WRWrite, 1)
	s.sent()
	s.advance(5000)
	s.ack(0) // a round trip takes 5 us
	s.post(WRRead, 1024)
	s.sent()
	again := []string{"READ REQUEST 1 A +0/1024"}
	s.data(ib.RCReadRespMiddle, 2, b)
	s.sends(again...)
	s.advance(minRepeatNs - 1)
	s.data(ib.RCReadRespMiddle, 3, b)
	s.data(ib.RCReadRespLast, 4, b)
	s.data(ib.RCReadRespMiddle, 3, b) // out of order, and too early for the repetition
	s.silent()
	s.advance(1)
	s.data(ib.RCReadRespMiddle, 2, b)
	s.sends(again...)
	s.data(ib.RCReadRespMiddle, 3, b)
	s.data(ib.RCReadRespLast, 4, b)
	s.silent()
	s.advance(2 * minRepeatNs)
	s.data(ib.RCReadRespMiddle, 2, b)
	s.silent() // no retry is left: the ACK timeout decides
	s.done("0 success")
	require.EqualValues(t, 3, s.a.e.Counters().ImpliedNAKs)
	for s.a.qp.timerSet(timerAck) {
		s.advance(s.timer())
	}
	s.done("1 transport retry counter exceeded")
}

// The response to an atomic is lost; that to a later request shows it.
func TestImpliedNAKOfAtomic(t *testing.T) {
	s := newScript(t, loopOptions{tuning: Tuning{GoBackN: true}})
	s.post(WRSend, 10)
	s.post(WRCompareSwap, 8)
	s.post(WRSend, 10)
	s.sent()
	s.ack(2)
	s.done("0 success")
	s.sends("COMPARE SWAP 1 A", "SEND ONLY 2 A")
	s.ack(1) // as rdma_rxe acknowledges a duplicate: no answer to the atomic
	s.silent()
	s.atomic(1, 5)
	s.ack(2)
	s.done("1 success", "2 success")
}

// Responses to later requests complete FLUSH and ATOMIC WRITE: they carry no
// data, and rdma_rxe does not answer a duplicate FLUSH.
func TestFlushAndAtomicWrite(t *testing.T) {
	s := newScript(t, loopOptions{})
	flush := func(wr *SendWR) {
		wr.SGList, wr.FlushLength, wr.FlushType = nil, 64, ib.FlushGlobalVisibility
	}
	s.post(WRAtomicWrite, 8)
	s.post(WRFlush, 0, flush)
	s.post(WRFlush, 0, flush)
	s.post(WRSend, 0)
	s.sends("ATOMIC WRITE 0 A +0/8", "FLUSH 1 A +0/64", "FLUSH 2 A +0/64", "SEND ONLY 3 A")
	s.data(ib.RCReadRespOnly, 0, nil)
	s.data(ib.RCReadRespOnly, 1, nil)
	s.done("0 success", "1 success")
	s.ack(3)
	s.done("2 success", "3 success")
}

// Responses that cannot be one end the connection with "bad response".
func TestBadResponse(t *testing.T) {
	full := make([]byte, 256)
	for name, c := range map[string]struct {
		op     WROpcode
		n      int
		answer func(*script)
	}{
		"read response to a send":   {WRSend, 10, func(s *script) { s.data(ib.RCReadRespOnly, 0, nil) }},
		"atomic ack to a send":      {WRSend, 10, func(s *script) { s.atomic(0, 1) }},
		"atomic ack to a read":      {WRRead, 10, func(s *script) { s.atomic(0, 1) }},
		"read response to atomic":   {WRFetchAdd, 8, func(s *script) { s.data(ib.RCReadRespOnly, 0, full[:8]) }},
		"read response too short":   {WRRead, 10, func(s *script) { s.data(ib.RCReadRespOnly, 0, full[:9]) }},
		"read response too long":    {WRRead, 10, func(s *script) { s.data(ib.RCReadRespOnly, 0, full[:11]) }},
		"read does not end":         {WRRead, 256, func(s *script) { s.data(ib.RCReadRespFirst, 0, full) }},
		"read ends in the middle":   {WRRead, 512, func(s *script) { s.data(ib.RCReadRespOnly, 0, full[:5]) }},
		"flush with data":           {WRAtomicWrite, 8, func(s *script) { s.data(ib.RCReadRespOnly, 0, full) }},
		"atomic write, no end":      {WRAtomicWrite, 8, func(s *script) { s.data(ib.RCReadRespFirst, 0, nil) }},
		"reserved syndrome 0x40":    {WRSend, 10, func(s *script) { s.nak(0, 0x40) }},
		"reserved syndrome 0x80":    {WRSend, 10, func(s *script) { s.nak(0, 0x80) }},
		"reserved NAK code":         {WRSend, 10, func(s *script) { s.nak(0, 0x65) }},
		"NAK in a read response":    {WRRead, 10, func(s *script) { s.respond(readRespNAK()) }},
		"RNR in an atomic response": {WRFetchAdd, 8, func(s *script) { s.respond(atomicRNR()) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, loopOptions{})
			s.post(c.op, c.n)
			s.post(WRSend, 1)
			s.sent()
			c.answer(s)
			s.done("0 bad response error", "1 Work Request Flushed Error")
			s.state(StateErr)
			require.EqualValues(t, -1, s.timer())
			s.silent()
		})
	}
}

func readRespNAK() ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: ib.RCReadRespOnly}, AETH: ib.AETH{Syndrome: ib.NAKRemoteAccess},
		Payload: make([]byte, 10)}
}

func atomicRNR() ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: ib.RCAtomicAck}, AETH: ib.AETH{Syndrome: ib.RNRNAK(1)}}
}

func TestFatalNAKStatuses(t *testing.T) {
	for syndrome, status := range map[ib.Syndrome]string{
		ib.NAKInvalidRequest:   "remote invalid request error",
		ib.NAKRemoteAccess:     "remote access error",
		ib.NAKRemoteOperation:  "remote operation error",
		ib.NAKInvalidRDRequest: "remote invalid RD request",
	} {
		s := newScript(t, loopOptions{})
		s.post(WRSend, 10)
		s.post(WRWrite, 600)
		s.post(WRRead, 600)
		s.sent()
		s.nak(2, syndrome)
		s.done("0 success", "1 "+status, "2 Work Request Flushed Error")
		s.state(StateErr)
	}
	// Amid the data of a READ.
	s := newScript(t, loopOptions{})
	s.post(WRRead, 600)
	s.sent()
	s.data(ib.RCReadRespFirst, 0, make([]byte, 256))
	s.nak(1, ib.NAKRemoteAccess)
	s.done("0 remote access error")
}

// A fatal NAK behind a READ whose response was lost does not complete the
// READ: it is asked for again.
func TestFatalNAKBehindLostRead(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.post(WRRead, 10)
	s.post(WRWrite, 10)
	s.sent()
	s.nak(1, ib.NAKRemoteAccess)
	s.sends("READ REQUEST 0 A +0/10", "WRITE ONLY 1 A +0/10")
	s.data(ib.RCReadRespOnly, 0, make([]byte, 10))
	s.nak(1, ib.NAKRemoteAccess)
	s.done("0 success", "1 remote access error")
}

// IBTA 9.7.7.2: a message without a credit is sent only if nothing else is outstanding.
func TestCreditsHonoured(t *testing.T) {
	s := newScript(t, loopOptions{})
	for range 2 {
		s.post(WRSend, 1)
	}
	s.sends("SEND ONLY 0 A", "SEND ONLY 1 A")
	s.aeth(1, ib.ACKCredit(1), 2)
	for range 3 {
		s.post(WRSend, 1)
	}
	s.post(WRWrite, 1)
	s.sends("SEND ONLY 2 A") // the credit
	s.aeth(2, ib.ACKCredit(0), 3)
	s.sends("SEND ONLY 3 A") // without one: alone
	s.silent()
	s.aeth(3, ib.ACKCredit(0), 4)
	s.sends("SEND ONLY 4 A", "WRITE ONLY 5 A +0/1") // a WRITE needs none
	s.aeth(5, ib.ACKCredit(0), 6)
	s.post(WRSend, 1)
	s.post(WRSend, 1)
	s.sends("SEND ONLY 6 A")
	s.aeth(5, ib.ACKCredit(4), 6) // an ACK for its credits alone
	s.sends("SEND ONLY 7 A")
	s.aeth(7, ib.ACKNoCredits, 8)
	for range 3 {
		s.post(WRSend, 1)
	}
	s.sends("SEND ONLY 8 A", "SEND ONLY 9 A", "SEND ONLY 10 A")
}

// Both ends do end-to-end flow control: a slow receiver meets at most one
// message that it is not ready for, each time it runs dry, not a queue full.
func TestCreditsBothEnds(t *testing.T) {
	const messages, batch = 200, 8
	rnrs := map[bool]uint64{}
	for _, credits := range []bool{false, true} {
		l := newLoop(t, loopOptions{
			tuning: Tuning{EndToEndCredits: credits},
			caps:   QPCaps{MaxSendWR: messages, MaxRecvWR: messages, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		for i := range messages {
			require.NoError(t,
				l.a.qp.PostSend(l.now, &SendWR{ID: uint64(i), Flags: SendSignaled, SGList: []SGE{l.a.at(0, 8)}}))
		}
		got, sent := 0, 0
		for round := 0; got < messages; round++ {
			require.Less(t, round, messages, "stuck")
			for range batch {
				require.NoError(t, l.b.qp.PostRecv(&RecvWR{SGList: []SGE{l.b.at(0, 8)}}))
			}
			for l.carry(l.a, l.b)+l.carry(l.b, l.a) > 0 {
			}
			l.now += 1e6 // beyond the RNR timer
			l.a.e.HandleTimeout(l.now)
			l.b.e.HandleTimeout(l.now)
			got += len(completions(l.b.rcq))
		}
		l.run()
		sent = len(completions(l.a.scq))
		require.Equal(t, messages, sent)
		c := l.a.e.Counters()
		rnrs[credits] = c.RetransmittedPkts
		require.LessOrEqual(t, c.RcvdRNRErr, uint64(messages/batch+1))
	}
	require.Less(t, rnrs[true], rnrs[false]/4, "packets sent for nothing: %v", rnrs)
}

// READ data arrives for memory that is gone, or was never writable.
func TestReadTargetRevoked(t *testing.T) {
	s := newScript(t, loopOptions{})
	s.post(WRRead, 600)
	s.sent()
	s.data(ib.RCReadRespFirst, 0, make([]byte, 256))
	require.NoError(t, s.a.region.Deregister(nil))
	s.data(ib.RCReadRespMiddle, 1, make([]byte, 256))
	s.done("0 local protection error")
	s.state(StateErr)
}
