package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// What somebody gets out of a responder who knows addresses and QP number, or
// who is its peer and repeats himself.

func (r *rig) setAccess(a mem.Access) {
	r.t.Helper()
	require.NoError(r.t, r.qp.Modify(r.now, QPAttr{Access: a}, AttrAccess))
}

// A right that Modify takes away is gone for a READ that is repeated, and for one
// whose answer is on its way. Saved results tell of what was allowed.
func TestRightsTakenAway(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 700)) // 100 to 102
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0))
	r.send(ib.RCAtomicWrite, pattern(8, 0), r.reth(16, 8))
	require.Len(t, r.poll(), 5)
	r.setAccess(allRemote &^ mem.RemoteRead)
	r.send(ib.RCReadRequest, nil, r.reth(0, 700), at(100))
	r.want("NAK invalid request 100 msn 3")
	r.send(ib.RCReadRequest, nil, r.reth(256, 444), at(101))
	r.want("NAK invalid request 101 msn 3")
	require.Equal(t, StateRTS, r.qp.State(), "it may be a stray packet")

	r.setAccess(0)
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(103))
	r.send(ib.RCAtomicWrite, pattern(8, 1), r.reth(16, 8), at(104))
	require.Len(t, r.poll(), 2)
	require.Equal(t, pattern(8, 0), r.mem.Bytes()[16:24])

	r.setAccess(allRemote)
	r.send(ib.RCReadRequest, nil, r.reth(0, 700), at(100))
	require.Len(t, r.poll(), 3)

	// A repetition that is being answered.
	r.send(ib.RCReadRequest, nil, r.reth(0, 700), at(100))
	require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:1]))
	r.setAccess(0)
	r.want("NAK remote access error 101 msn 3")
	require.Equal(t, StateRTS, r.qp.State())

	// The first answer.
	r.setAccess(allRemote)
	r.psn = 105
	r.send(ib.RCReadRequest, nil, r.reth(0, 700))
	require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:1]))
	r.setAccess(0)
	r.want("NAK remote access error 106 msn 4")
	require.Equal(t, StateErr, r.qp.State())
}

// A right can also go with a transition.
func TestRightsTakenAwayByTransition(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 700))
	require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:1]))
	require.NoError(t, r.qp.Modify(r.now, QPAttr{State: StateSQD}, AttrState))
	require.NoError(t, r.qp.Modify(r.now, QPAttr{State: StateRTS}, AttrState|AttrAccess))
	r.want("NAK remote access error 101 msn 1")
}

// Communication is established by the peer, and the PSN is what tells it from
// others: not a packet with another one, nor any after the QP has failed.
func TestEstablishedByThePeer(t *testing.T) {
	for _, rts := range []bool{false, true} {
		r := newRig(t, rigOpts{rts: rts})
		r.qp.WatchEstablished()
		for _, d := range []int{1, 5000, 1<<23 - 1, -1, -5000, -1 << 23} {
			r.send(ib.RCWriteOnly, nil, at(ib.PSN(rigPSN).Add(d)))
			require.Empty(t, r.events(), "%+d", d)
		}
		r.psn = rigPSN
		r.send(ib.RCWriteOnly, nil)
		require.Equal(t, []EventType{EventCommEstablished}, r.events())
		r.send(ib.RCWriteOnly, nil)
		require.Empty(t, r.events())
	}
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCSendLast, nil)
	require.Equal(t, StateErr, r.qp.State())
	r.events()
	r.qp.WatchEstablished()
	r.send(ib.RCSendLast, nil, at(rigPSN))
	require.Empty(t, r.events())
}

// UC takes up again at any PSN, so there it is one near the first.
func TestEstablishedByThePeerUC(t *testing.T) {
	r := newRig(t, rigOpts{typ: ib.UC})
	for _, d := range []int{minNearGap, minNearGap + 1, 1 << 23, -1} {
		r.send(ib.UCWriteOnly, nil, at(ib.PSN(rigPSN).Add(d)))
		require.Empty(t, r.events(), "%+d", d)
	}
	r.send(ib.UCWriteOnly, nil, at(rigPSN+7)) // the first ones were lost
	require.Equal(t, []EventType{EventCommEstablished}, r.events())
}

// A packet ahead of the expected one is behind a gap if it is near. If it is
// far, it gets no NAK as long as the expected ones come.
func TestFarAhead(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	for _, d := range []int{minNearGap + 1, 1 << 20, 1<<23 - 1} {
		for range 3 {
			r.send(ib.RCWriteOnly, nil, at(r.qp.resp.expectedPSN().Add(d)))
			require.Empty(t, r.poll(), "%+d", d)
			r.advance(maxFarGapNs - 1)
			require.Empty(t, r.poll())
			r.send(ib.RCWriteOnly, nil, noAck, at(r.qp.resp.expectedPSN()))
		}
	}
	r.advance(maxFarGapNs)
	require.Empty(t, r.poll())
	c := r.e.Counters()
	require.EqualValues(t, 9, c.OutOfSeqRequest)
	require.EqualValues(t, 9, c.FarAheadRequest)
	require.Zero(t, c.SentSeqNAKs)
	r.send(ib.RCWriteOnly, nil, at(r.qp.resp.expectedPSN().Add(minNearGap)))
	r.want("NAK PSN sequence error 109 msn 9")
}

// The gap can be real. The NAK comes when nothing else does, is repeated as any
// other is, and a near packet does not wait for it.
func TestFarAheadIsTrue(t *testing.T) {
	const nak = "NAK PSN sequence error 100 msn 0"
	far := ib.PSN(rigPSN + 1<<20) // behind a READ that was lost
	for _, c := range []struct {
		timeout ib.TimeoutCode
		ns      int64
	}{{0, maxFarGapNs}, {31, maxFarGapNs}, {14, 4096 << 14}, {1, DefaultSeqNAKRearmNs}} {
		r := newRig(t, rigOpts{rts: true})
		r.qp.attr.Timeout = c.timeout
		r.send(ib.RCWriteOnly, nil, at(far))
		r.advance(c.ns - 1)
		r.send(ib.RCWriteOnly, nil, at(far+1))
		require.Empty(t, r.poll())
		r.advance(1)
		r.want(nak)
		r.send(ib.RCWriteOnly, nil, at(far+2))
		require.Empty(t, r.poll())
		for i := range maxNAKRepeats {
			r.advance(DefaultSeqNAKRearmNs << i)
			r.want(nak)
		}
		r.advance(maxFarGapNs)
		require.Empty(t, r.poll())
		r.send(ib.RCWriteOnly, nil, at(far+3)) // it still sends
		r.want(nak)
		r.send(ib.RCWriteOnly, nil, at(rigPSN))
		r.want("ACK 100 msn 1")
	}
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCWriteOnly, nil, at(far))
	r.send(ib.RCWriteOnly, nil, at(rigPSN+1))
	r.want(nak)
	r.send(ib.RCWriteOnly, nil, at(far)) // one NAK for both
	require.Empty(t, r.poll())
}

// A peer that was refused for want of a receive request sends nothing near or
// far; one that does gets no NAK that would make it go back too early.
func TestFarAheadWhileNotReady(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCSendOnly, nil)
	require.Len(t, r.poll(), 1)
	r.advance(maxFarGapNs)
	r.send(ib.RCWriteOnly, nil, at(rigPSN+1<<20))
	require.Empty(t, r.poll())
}

// Who has a large window has a peer with a large one.
func TestNearGap(t *testing.T) {
	r := newRig(t, rigOpts{rts: true, tuning: Tuning{MaxUnackedPackets: 10000}})
	require.Equal(t, 10000, r.qp.resp.nearGap())
	r.qp.attr.MaxUnackedPackets = 20000
	require.Equal(t, 20000, r.qp.resp.nearGap())
	r.send(ib.RCWriteOnly, nil, at(rigPSN+20001))
	require.Empty(t, r.poll())
	r.send(ib.RCWriteOnly, nil, at(rigPSN+20000))
	require.Len(t, r.poll(), 1)
}

// A READ can be repeated as often as a peer may need, as a whole or from where
// it stands; beyond that each repetition is worth a packet.
func TestReadRepeats(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 2560)) // 100 to 109
	require.Len(t, r.poll(), 10)
	for range readCopies {
		r.send(ib.RCReadRequest, nil, r.reth(0, 2560), at(100))
		require.Len(t, r.poll(), 10)
	}
	require.Zero(t, r.e.Counters().CutReads)
	for i := range 10 {
		left := 2560 - 256*i
		if i > 0 {
			r.send(ib.RCReadRequest, nil, r.reth(256*i, left), at(ib.PSN(rigPSN+i)))
			require.Empty(t, r.poll(), "so soon")
		}
		r.now += readAgainNs
		r.send(ib.RCReadRequest, nil, r.reth(256*i, left), at(ib.PSN(rigPSN+i)))
		if i == 9 {
			r.want("ONLY 109 msn 1 [256]")
		} else {
			r.want("FIRST " + decimal(uint64(rigPSN+i)) + " msn 1 [256]")
		}
		require.Equal(t, r.mem.Bytes()[256*i:256*i+256], r.data())
	}
	require.EqualValues(t, 10+9, r.e.Counters().CutReads)

	// Another READ has its own.
	r.psn = 110
	r.send(ib.RCReadRequest, nil, r.reth(0, 2560))
	require.Len(t, r.poll(), 10)
	r.send(ib.RCReadRequest, nil, r.reth(0, 2560), at(110))
	require.Len(t, r.poll(), 10)

	// One of a single packet, too.
	r.psn = 120
	r.send(ib.RCReadRequest, nil, r.reth(0, 8))
	r.poll()
	for i := range 10 * readCopies {
		r.now += readAgainNs
		r.send(ib.RCReadRequest, nil, r.reth(0, 8), at(120))
		require.NotEmpty(t, r.poll())
		r.send(ib.RCReadRequest, nil, r.reth(0, 8), at(120))
		require.Equal(t, i < readCopies/2, len(r.poll()) > 0)
	}
}

// Somebody who has seen a READ request sends it again, 20,000 times a second for a second.
func TestReadReplayed(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	sent := 0
	for i := range 20_000 {
		if i == 0 {
			r.send(ib.RCReadRequest, nil, r.reth(0, 2560))
		} else {
			r.send(ib.RCReadRequest, nil, r.reth(0, 2560), at(100))
		}
		sent += len(r.poll())
		r.now += 50_000
	}
	require.LessOrEqual(t, sent, 10*(1+readCopies)+1000, "it was 20,000 packets before")
	require.GreaterOrEqual(t, sent, 10*(1+readCopies)+990)
	require.EqualValues(t, 20_000-1-readCopies, r.e.Counters().CutReads)
}

// An answer that goes on after it was cut.
func TestReadRepeatsCutThenMore(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 2560)) // 100 to 109
	r.poll()
	for range readCopies - 1 {
		r.send(ib.RCReadRequest, nil, r.reth(0, 2560), at(100))
	}
	r.poll()
	r.qp.resp.store.newest().again = 10*readCopies - 4
	r.send(ib.RCReadRequest, nil, r.reth(256, 9*256), at(101)) // does not fit: one packet
	r.send(ib.RCReadRequest, nil, r.reth(256, 4*256), at(101)) // does
	r.want("FIRST 101 msn 1 [256]", "MIDDLE 102 [256]", "MIDDLE 103 [256]", "LAST 104 msn 1 [256]")
}

// Going back while the answer is sent costs as much, and cannot go on for ever.
func TestReadRepeatsWhileSending(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 2560)) // 100 to 109
	sent := 0
	for range 1000 {
		n := r.e.PollTransmit(r.now, r.tx[:5])
		if sent += n; n < 5 {
			break
		}
		r.send(ib.RCReadRequest, nil, r.reth(0, 2560), at(100))
	}
	sent += len(r.poll())
	require.LessOrEqual(t, sent, 10*(1+readCopies)+5)
	require.GreaterOrEqual(t, sent, 10*readCopies)
}
