package transport

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// advance moves the clock and runs the timers.
func (r *rig) advance(ns int64) {
	r.now += ns
	r.e.HandleTimeout(r.now)
}

const ms = int64(1e6)

// L1: the NAK names the first missing PSN, and there is one for each gap.
func TestSequenceNAKOncePerGap(t *testing.T) {
	r := newRig(t, rigOpts{})
	w := r.reth(0, 4)
	r.send(ib.RCWriteOnly, pattern(4, 0), w)
	for psn := ib.PSN(102); psn < 106; psn++ {
		r.send(ib.RCWriteOnly, pattern(4, 1), w, at(psn))
	}
	r.want("ACK 100 msn 1", "NAK PSN sequence error 101 msn 1")
	r.send(ib.RCWriteOnly, pattern(4, 1), w, at(106))
	require.Empty(t, r.poll())
	require.EqualValues(t, 5, r.e.Counters().OutOfSeqRequest)
	require.EqualValues(t, 1, r.e.Counters().SentSeqNAKs)
	require.Equal(t, pattern(4, 0), r.mem.Bytes()[:4], "nothing behind a gap is executed")

	// Repaired; the next gap has a NAK of its own.
	r.psn = 101
	r.send(ib.RCWriteOnly, pattern(4, 2), w)
	r.send(ib.RCWriteOnly, pattern(4, 2), w, at(103))
	r.want("ACK 101 msn 2", "NAK PSN sequence error 102 msn 2")
	_, set := r.e.NextTimeout()
	require.True(t, set)
	r.psn = 102
	r.send(ib.RCWriteOnly, pattern(4, 2), w)
	_, set = r.e.NextTimeout()
	require.False(t, set, "the timer ends with the gap")
}

// Packets that overtake one another within a batch need no NAK.
func TestSequenceNAKCancelledByRepair(t *testing.T) {
	r := newRig(t, rigOpts{})
	w := r.reth(0, 4)
	r.send(ib.RCWriteOnly, pattern(4, 0), w, at(101))
	r.send(ib.RCWriteOnly, pattern(4, 0), w, at(100))
	r.want("ACK 100 msn 1")
}

// wire format 13.12: a lost NAK is repeated, by the timer and by packets that
// still come, at growing intervals, and not for ever.
func TestSequenceNAKRepeats(t *testing.T) {
	r := newRig(t, rigOpts{})
	w := r.reth(0, 4)
	r.send(ib.RCWriteOnly, nil, w, at(105))
	r.want("NAK PSN sequence error 100 msn 0")
	var waits []int64
	for last := r.now; ; {
		next, ok := r.e.NextTimeout()
		if !ok {
			break
		}
		r.advance(next - r.now)
		if out := r.poll(); out != nil {
			require.Equal(t, []string{"NAK PSN sequence error 100 msn 0"}, out)
			waits = append(waits, (r.now-last)/ms)
			last = r.now
		}
		require.Less(t, len(waits), 10)
	}
	require.Equal(t, []int64{2, 4, 8, 16, 32}, waits)
	// The peer lives after all.
	r.advance(100 * ms)
	r.send(ib.RCWriteOnly, nil, w, at(106))
	r.send(ib.RCWriteOnly, nil, w, at(107))
	r.want("NAK PSN sequence error 100 msn 0")
}

// A requester that has gone back sends what is behind the gap anew, and if what is missing was lost
// again, the NAK is repeated at once. Packets that come twice otherwise, or late, do not show that.
func TestSequenceNAKWhenLostAgain(t *testing.T) {
	for _, back := range []bool{false, true} {
		// Wraps somewhere behind the gap.
		for _, first := range []ib.PSN{rigPSN, 0xffffff, 0xfffffe, 0xfffffb, 0xfffff8} {
			sequenceNAKWhenLostAgain(t, back, first)
		}
	}
}

// sequenceNAKWhenLostAgain plays it with packets from first on, which is missing.
func sequenceNAKWhenLostAgain(t *testing.T, back bool, first ib.PSN) {
	r := newRig(t, rigOpts{psn: first, tuning: Tuning{GoBackN: back}})
	w := r.reth(0, 4)
	behind := func(from, to int) {
		for d := from; d <= to; d++ {
			r.send(ib.RCWriteOnly, pattern(4, 1), w, at(first.Add(d)), noAck)
		}
	}
	nak := fmt.Sprintf("NAK PSN sequence error %d msn 0", uint32(first))
	behind(2, 9)
	r.want(nak)
	r.advance(ms / 4)
	behind(6, 6) // twice: three have overtaken it
	behind(1, 1) // late
	require.Empty(t, r.poll())
	for range 3 { // and what begins anew is not always the first
		behind(3, 3)
		r.want(nak)
		behind(4, 9)
		require.Empty(t, r.poll())
		r.advance(ms / 4)
	}
	// The time without a sign counts from the last one.
	r.advance(2*ms - ms/4 - 1)
	require.Empty(t, r.poll())
	r.advance(1)
	r.want(nak)
}

// A NAK is not repeated before what it asks for can have come, once it is known how long that
// takes; before, ever more rarely.
func TestSequenceNAKWaitsForRepair(t *testing.T) {
	r := newRig(t, rigOpts{tuning: Tuning{GoBackN: true}})
	w := r.reth(0, 4)
	for gap, want := range []int{4, 0, 0} {
		missing := rigPSN + ib.PSN(2*gap)
		r.send(ib.RCWriteOnly, pattern(4, 1), w, at(missing+1), noAck)
		require.Len(t, r.poll(), 1)
		naks := 0
		for i := range ib.PSN(40) { // a round trip, in which more packets come
			r.advance(ms)
			r.send(ib.RCWriteOnly, pattern(4, 1), w, at(missing+2+i), noAck)
			naks += len(r.poll())
		}
		require.Equal(t, want, naks, "gap %d", gap)
		r.send(ib.RCWriteOnly, pattern(4, 1), w, at(missing), noAck)
		r.send(ib.RCWriteOnly, pattern(4, 1), w, at(missing+1), noAck)
	}
	// It may be lost: then it is.
	r.send(ib.RCWriteOnly, pattern(4, 1), w, at(rigPSN+8), noAck)
	require.Len(t, r.poll(), 1)
	r.advance(50*ms - 1)
	require.Empty(t, r.poll())
	r.advance(1)
	require.Len(t, r.poll(), 1)
}

func TestReceiverNotReady(t *testing.T) {
	r := newRig(t, rigOpts{})
	w := r.reth(0, 4)
	r.send(ib.RCWriteOnly, pattern(4, 0), w)
	r.send(ib.RCSendFirst, pattern(256, 1))
	r.want("ACK 100 msn 1", "RNR NAK timer=12 101 msn 1")
	// What follows is dropped without a sequence NAK: it would cut the wait short.
	r.send(ib.RCSendLast, pattern(4, 1))
	require.Empty(t, r.poll())
	r.advance(ms)
	require.Empty(t, r.poll())
	require.EqualValues(t, 1, r.e.Counters().SendRNRErr)
	// Again, and again it is lost.
	r.send(ib.RCSendFirst, pattern(256, 1), at(101))
	r.want("RNR NAK timer=12 101 msn 1")
	r.post(1, 300, 300)
	r.psn = 101
	r.send(ib.RCSendFirst, pattern(256, 1), noAck)
	r.send(ib.RCSendLast, pattern(4, 1))
	r.want("ACK 102 msn 2")
	require.EqualValues(t, 260, r.wcs()[0].ByteLen)
}

// If what should come after the wait is lost again, the gap is reported.
func TestReceiverNotReadyThenGap(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.send(ib.RCSendOnly, nil)
	r.want("RNR NAK timer=12 100 msn 0")
	r.advance(ib.RNRCode(12).Ns() + 2*ms)
	r.send(ib.RCSendOnly, nil)
	r.want("NAK PSN sequence error 100 msn 0")
}

func TestReceiverNotReadyForImmediate(t *testing.T) {
	r := newRig(t, rigOpts{})
	msg := pattern(300, 4)
	r.send(ib.RCWriteFirst, msg[:256], r.reth(0, 300), noAck)
	r.send(ib.RCWriteLastImm, msg[256:], imm(1))
	r.want("RNR NAK timer=12 101 msn 0")
	require.NotEqual(t, msg[256:], r.mem.Bytes()[256:300])
	r.post(1, 0, 1)
	r.psn = 101
	r.send(ib.RCWriteLastImm, msg[256:], imm(1))
	r.want("ACK 101 msn 1")
	require.Equal(t, msg, r.mem.Bytes()[:300])
}

// IBTA 9.9.3: what is refused, how the peer is told, and what is told here.
func TestFatalNAKs(t *testing.T) {
	over2GiB := func(p *ib.Packet) { p.RETH.Len = 1<<31 + 1 }
	const (
		invalid   = "NAK invalid request"
		access    = "NAK remote access error"
		operation = "NAK remote operational error"
	)
	foreign := func(p *ib.Packet) { p.RETH.RKey ^= 0x100; p.Atomic.RKey ^= 0x100 }
	flush := func(h ib.FETH) func(*ib.Packet) { return func(p *ib.Packet) { p.FETH = h } }
	none := WCStatus(0xFF)
	for _, c := range []struct {
		name   string
		o      rigOpts
		do     func(r *rig)
		nak    string
		status WCStatus // of the receive request that was in use
		event  EventType
	}{
		{"middle without first", rigOpts{}, func(r *rig) { r.send(ib.RCSendMiddle, pattern(256, 0)) },
			invalid, none, EventQPRequestError},
		{"last without first", rigOpts{}, func(r *rig) { r.send(ib.RCWriteLast, pattern(1, 0)) }, invalid,
			none, EventQPRequestError},
		{"first within SEND", rigOpts{}, func(r *rig) {
			r.send(ib.RCSendFirst, pattern(256, 0), noAck)
			r.send(ib.RCSendOnly, nil)
		}, invalid, WCRemoteInvReqErr, 0},
		{"WRITE within SEND", rigOpts{}, func(r *rig) {
			r.send(ib.RCSendFirst, pattern(256, 0), noAck)
			r.send(ib.RCWriteLast, pattern(1, 0))
		}, invalid, WCRemoteInvReqErr, 0},
		{"READ within WRITE", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteFirst, pattern(256, 0), r.reth(0, 300), noAck)
			r.send(ib.RCReadRequest, nil, r.reth(0, 1))
		}, invalid, none, EventQPRequestError},
		{"QP without WRITE", rigOpts{access: mem.RemoteRead}, func(r *rig) { r.send(ib.RCWriteOnly, nil) },
			invalid, none, EventQPRequestError},
		{"QP without READ", rigOpts{access: mem.RemoteWrite},
			func(r *rig) { r.send(ib.RCReadRequest, nil, r.reth(0, 1)) }, invalid, none, EventQPRequestError},
		{"QP without atomics", rigOpts{access: mem.RemoteWrite},
			func(r *rig) { r.send(ib.RCFetchAdd, nil, r.atomic(0, 1, 1)) }, invalid, none, EventQPRequestError},
		{"QP without FLUSH", rigOpts{access: mem.FlushGlobal},
			func(r *rig) { r.send(ib.RCFlush, nil, r.reth(0, 1), flush(2)) }, invalid, none, EventQPRequestError},
		{"FLUSH of no type", rigOpts{}, func(r *rig) { r.send(ib.RCFlush, nil, r.reth(0, 1), flush(0)) },
			invalid, none, EventQPRequestError},
		{"FLUSH with reserved bits", rigOpts{}, func(r *rig) { r.send(ib.RCFlush, nil, r.reth(0, 1), flush(1|1<<5)) },
			invalid, none, EventQPRequestError},
		{"depth 0 READ", rigOpts{noRd: true}, func(r *rig) { r.send(ib.RCReadRequest, nil, r.reth(0, 1)) },
			invalid, none, EventQPRequestError},
		{"depth 0 atomic", rigOpts{noRd: true}, func(r *rig) { r.send(ib.RCCompareSwap, nil, r.atomic(0, 1, 1)) },
			invalid, none, EventQPRequestError},
		{"short FIRST", rigOpts{}, func(r *rig) { r.send(ib.RCWriteFirst, pattern(255, 0), r.reth(0, 300)) },
			invalid, none, EventQPRequestError},
		{"long ONLY", rigOpts{}, func(r *rig) { r.send(ib.RCSendOnly, pattern(257, 0)) }, invalid,
			WCRemoteInvReqErr, 0},
		{"empty LAST", rigOpts{}, func(r *rig) {
			r.send(ib.RCSendFirst, pattern(256, 0), noAck)
			r.send(ib.RCSendLast, nil)
		}, invalid, WCRemoteInvReqErr, 0},
		{"bad padding", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteOnly, pattern(8, 0), r.reth(0, 8), func(p *ib.Packet) { p.Pad = 2 })
		}, invalid, none, EventQPRequestError},
		{"WRITE longer than announced", rigOpts{}, func(r *rig) { r.send(ib.RCWriteOnly, pattern(8, 0), r.reth(0, 7)) },
			invalid, none, EventQPRequestError},
		{"WRITE shorter than announced", rigOpts{},
			func(r *rig) { r.send(ib.RCWriteOnly, pattern(8, 0), r.reth(0, 9)) }, invalid, none, EventQPRequestError},
		{"WRITE of nothing with payload", rigOpts{},
			func(r *rig) { r.send(ib.RCWriteOnly, pattern(8, 0), r.reth(0, 0)) }, invalid, none, EventQPRequestError},
		{"WRITE FIRST that is all", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteFirst, pattern(256, 0), r.reth(0, 256))
		}, invalid, none, EventQPRequestError},
		{"WRITE over 2 GiB", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteFirst, pattern(256, 0), r.reth(0, 0), over2GiB)
		}, invalid, none, EventQPRequestError},
		{"READ over 2 GiB", rigOpts{}, func(r *rig) { r.send(ib.RCReadRequest, nil, r.reth(0, 0), over2GiB) },
			invalid, none, EventQPRequestError},
		{"misaligned atomic", rigOpts{}, func(r *rig) { r.send(ib.RCFetchAdd, nil, r.atomic(4, 1, 1)) },
			invalid, none, EventQPRequestError},
		{"misaligned ATOMIC WRITE", rigOpts{}, func(r *rig) { r.send(ib.RCAtomicWrite, pattern(8, 0), r.reth(4, 8)) },
			invalid, none, EventQPRequestError},
		{"ATOMIC WRITE of 4", rigOpts{}, func(r *rig) { r.send(ib.RCAtomicWrite, pattern(4, 0), r.reth(0, 4)) },
			invalid, none, EventQPRequestError},
		{"ATOMIC WRITE announcing 16", rigOpts{}, func(r *rig) {
			r.send(ib.RCAtomicWrite, pattern(8, 0), r.reth(0, 16))
		}, invalid, none, EventQPRequestError},

		{"WRITE with a bad key", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteOnly, pattern(8, 0), r.reth(0, 8), foreign)
		}, access, none, EventQPAccessError},
		{"WRITE past the end", rigOpts{}, func(r *rig) { r.send(ib.RCWriteOnly, pattern(8, 0), r.reth(rigLen-7, 8)) },
			access, none, EventQPAccessError},
		{"WRITE around the address space", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteFirst, pattern(256, 0), r.reth(-rigVA-8, 300))
		}, access, none, EventQPAccessError},
		{"immediate with a bad key", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteOnlyImm, pattern(8, 0), r.reth(0, 8), foreign)
		}, access, WCLocalAccessErr, 0},
		{"READ with a bad key", rigOpts{}, func(r *rig) { r.send(ib.RCReadRequest, nil, r.reth(0, 8), foreign) },
			access, none, EventQPAccessError},
		{"atomic with a bad key", rigOpts{}, func(r *rig) { r.send(ib.RCFetchAdd, nil, r.atomic(0, 8, 0), foreign) },
			access, none, EventQPAccessError},
		{"FLUSH with a bad key", rigOpts{}, func(r *rig) { r.send(ib.RCFlush, nil, r.reth(0, 8), foreign, flush(1)) },
			access, none, EventQPAccessError},
		{"READ of memory without READ", rigOpts{}, func(r *rig) {
			m := r.register(make([]byte, 8), 0, mem.LocalWrite|mem.RemoteWrite)
			r.send(ib.RCReadRequest, nil, func(p *ib.Packet) { p.RETH = ib.RETH{RKey: m.RKey(), Len: 8} })
		}, access, none, EventQPAccessError},
		{"invalidate of a region", rigOpts{}, func(r *rig) {
			r.send(ib.RCSendOnlyInv, nil, func(p *ib.Packet) { p.IETH = r.mem.RKey() })
		}, access, WCLocalAccessErr, 0}, // rxe acknowledges
		{"deregistered within WRITE", rigOpts{}, func(r *rig) {
			r.send(ib.RCWriteFirst, pattern(256, 0), r.reth(0, 300), noAck)
			require.NoError(r.t, r.mem.Deregister(nil))
			r.send(ib.RCWriteLast, pattern(44, 0))
		}, access, none, EventQPAccessError},

		{"SEND too long", rigOpts{}, func(r *rig) {
			r.send(ib.RCSendFirst, pattern(256, 0), noAck)
			r.send(ib.RCSendLast, pattern(145, 0))
		}, invalid, WCLocalLenErr, 0}, // rxe: remote operational error
		{"buffers deregistered", rigOpts{}, func(r *rig) {
			require.NoError(r.t, r.recv.Deregister(nil))
			r.send(ib.RCSendOnly, pattern(8, 0))
		}, operation, WCLocalProtErr, 0},
		{"buffers deregistered within SEND", rigOpts{}, func(r *rig) {
			r.send(ib.RCSendFirst, pattern(256, 0), noAck)
			require.NoError(r.t, r.recv.Deregister(nil))
			r.send(ib.RCSendLast, pattern(8, 0))
		}, operation, WCLocalProtErr, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.rts = true
			r := newRig(t, c.o)
			r.post(1, 400, 400)
			r.post(2, 400, 400)
			before := string(r.mem.Bytes()[:8])
			c.do(r)
			seq := r.psn.Prev()
			require.Equal(t, []string{c.nak + " " + strconv.Itoa(int(seq)) + " msn 0"}, r.poll())
			require.Equal(t, StateErr, r.qp.State())
			var want []WCStatus
			if c.status != none {
				want = append(want, c.status, WCFlushErr)
			} else {
				want = append(want, WCFlushErr, WCFlushErr)
				require.Equal(t, []EventType{c.event}, r.events())
			}
			var got []WCStatus
			for i, wc := range r.wcs() {
				require.EqualValues(t, i+1, wc.ID)
				got = append(got, wc.Status)
			}
			require.Equal(t, want, got)
			require.Empty(t, r.events())
			if seq == rigPSN {
				require.Equal(t, before, string(r.raw[rigCanary:rigCanary+8]), "nothing was executed")
			}
			r.canaries()
		})
	}
}

// CQ overflow: the peer must not take the SEND for delivered.
func TestCompletionLost(t *testing.T) {
	r := newRig(t, rigOpts{rts: true, cqe: 1})
	r.post(1, 8, 8)
	r.post(2, 8, 8)
	r.send(ib.RCSendOnly, nil)
	r.send(ib.RCSendOnly, nil)
	r.want("ACK 100 msn 1", "NAK remote operational error 101 msn 1")
	require.Equal(t, StateErr, r.qp.State())
	require.Equal(t, []EventType{EventCQError, EventQPFatal}, r.events())
}

// wire format 13.14: after a fatal NAK the request that failed and those before
// it get the same NAK again until the linger ends. Nothing else is answered: no
// READ is done again, no saved result is sent, no congestion is told of.
func TestFatalLinger(t *testing.T) {
	r := newRig(t, rigOpts{rts: true, tuning: Tuning{FatalLinger: 10 * time.Millisecond}})
	r.qp.WatchEstablished()
	w := r.reth(0, 4)
	requests := []func(edit ...func(*ib.Packet)){
		func(e ...func(*ib.Packet)) { r.send(ib.RCWriteOnly, pattern(4, 0), append(e, w)...) },
		func(e ...func(*ib.Packet)) { r.send(ib.RCReadRequest, nil, append(e, w)...) },
		func(e ...func(*ib.Packet)) { r.send(ib.RCFetchAdd, nil, append(e, r.atomic(8, 1, 0))...) },
		func(e ...func(*ib.Packet)) { r.send(ib.RCAtomicWrite, pattern(8, 0), append(e, r.reth(16, 8))...) },
		func(e ...func(*ib.Packet)) {
			r.send(ib.RCFlush, nil, append(e, w, func(p *ib.Packet) { p.FETH = ib.FlushGlobalVisibility })...)
		},
		func(e ...func(*ib.Packet)) { r.send(ib.RCSendLast, pattern(4, 0), e...) }, // not the next of a message
		func(e ...func(*ib.Packet)) { r.send(ib.RCWriteOnly, pattern(4, 9), append(e, w)...) },
	}
	const bad = 5
	for _, request := range requests {
		request()
	}
	require.Len(t, r.poll(), 5)
	require.Equal(t, StateErr, r.qp.State())
	require.Equal(t, []EventType{EventCommEstablished, EventQPRequestError}, r.events())
	copy(r.mem.Bytes(), "SECRET!!")
	for i := range 2 {
		r.advance(3 * ms)
		for k, request := range requests {
			request(at(rigPSN + ib.PSN(k)))
			if k <= bad {
				r.want("NAK invalid request 105 msn 5")
			} else {
				require.Empty(t, r.poll(), "behind what failed")
			}
		}
		require.EqualValues(t, bad*(i+1), r.e.Counters().DuplicateRequest)
	}
	p := pkt(ib.RCWriteOnly, rigPSN, pattern(4, 0))
	w(&p)
	r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: rigSelf, TrafficClass: ECNCE})
	r.want("NAK invalid request 105 msn 5") // and no CNP
	p.PSN = rigPSN - 1
	r.rx(&p)
	require.Empty(t, r.poll(), "before the first PSN")
	require.Equal(t, "SECRET!!", string(r.mem.Bytes()[:8]))
	r.advance(5 * ms)
	requests[bad](at(rigPSN + bad))
	require.Empty(t, r.poll())
	_, set := r.e.NextTimeout()
	require.False(t, set)
	require.EqualValues(t, 1, r.e.Counters().DropState)
}

// What was owed before a fatal NAK is still sent, and in order: the peer would
// not understand the NAK otherwise.
func TestFatalBehindAnswers(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 300))
	r.send(ib.RCSendLast, pattern(4, 0))
	require.Equal(t, StateErr, r.qp.State())
	require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:1]))
	r.send(ib.RCReadRequest, nil, r.reth(0, 300), at(100)) // does not go back
	r.want("LAST 101 msn 1 [44]", "NAK invalid request 102 msn 1")
}

// An application that moves the QP to ERR or RESET ends it all at once, also
// what a fatal NAK of the QP's own has left.
func TestNoLingerAfterModify(t *testing.T) {
	for _, to := range []QPState{StateErr, StateReset} {
		for _, fatal := range []bool{false, true} {
			r := newRig(t, rigOpts{rts: true})
			r.post(1, 400, 400)
			r.send(ib.RCReadRequest, nil, r.reth(0, 1))
			r.want("ONLY 100 msn 1 [1]")
			r.send(ib.RCSendFirst, pattern(256, 0))
			if fatal {
				r.send(ib.RCSendOnly, pattern(256, 0)) // amid a message
				require.Equal(t, StateErr, r.qp.State())
				require.Equal(t, []WC{
					{ID: 1, Status: WCRemoteInvReqErr, VendorErr: uint32(ib.NAKInvalidRequest) << 8, QPN: rigQPN},
				}, r.wcs())
			} else {
				r.send(ib.RCSendLast, pattern(4, 0), at(200)) // a NAK is due
			}
			require.NoError(t, r.qp.Modify(r.now, QPAttr{State: to}, AttrState))
			require.Empty(t, r.poll())
			r.send(ib.RCSendFirst, pattern(256, 0), at(101))
			r.send(ib.RCSendOnly, pattern(256, 0), at(102))
			read := pkt(ib.RCReadRequest, 100, nil)
			r.reth(0, 1)(&read)
			r.rx(&read)
			require.Empty(t, r.poll())
			_, set := r.e.NextTimeout()
			require.False(t, set)
			if to == StateErr {
				if !fatal {
					require.Equal(t, []WC{{ID: 1, Status: WCFlushErr, Opcode: WCRecv, QPN: rigQPN}}, r.wcs())
				}
				continue
			}
			require.Empty(t, r.wcs())
			r.connect(rigOpts{typ: ib.RC, mtu: ib.MTU256, psn: 7, access: allRemote, depth: 1})
			r.psn = 7
			r.send(ib.RCReadRequest, nil, r.reth(0, 1))
			r.want("ONLY 7 msn 1 [1]")
		}
	}
}

// Memory that goes away while it is being read: the rest of the answer is a NAK (wire format 5.5).
func TestReadRevoked(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 1000))
	n := r.e.PollTransmit(r.now, r.tx[:2])
	require.Equal(t, 2, n)
	require.NoError(t, r.mem.Deregister(nil))
	r.want("NAK remote access error 102 msn 1")
	require.Equal(t, StateErr, r.qp.State())
	require.Equal(t, []EventType{EventQPAccessError}, r.events())
	// A peer that lost the first response too hears that it was this READ that
	// failed, not the one after it.
	key := ib.RKey(r.qp.resp.store.newest().rkey)
	again := func(psn ib.PSN, off, n uint32) {
		p := pkt(ib.RCReadRequest, psn, nil)
		p.RETH = ib.RETH{VA: rigVA + uint64(off), RKey: key, Len: n}
		r.rx(&p)
	}
	again(100, 0, 1000)
	r.want("NAK remote access error 100 msn 1")
	again(101, 256, 744)
	r.want("NAK remote access error 101 msn 1")
	again(102, 512, 488)
	r.want("NAK remote access error 102 msn 1")
	again(103, 768, 232)
	require.Empty(t, r.poll())
}

// A stray duplicate of a READ that was finished long ago must not end the QP.
func TestReadRevokedDuplicate(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.send(ib.RCReadRequest, nil, r.reth(0, 8))
	r.want("ONLY 100 msn 1 [8]")
	require.NoError(t, r.mem.Deregister(nil))
	r.rx(&ib.Packet{
		BTH:  ib.BTH{Opcode: ib.RCReadRequest, PKey: ib.PKeyDefault, DestQP: rigQPN, PSN: 100},
		RETH: ib.RETH{VA: rigVA, RKey: ib.RKey(r.qp.resp.store.newest().rkey), Len: 8},
	})
	r.want("NAK remote access error 100 msn 1")
	require.Equal(t, StateRTS, r.qp.State())
	r.post(1, 8, 8)
	r.send(ib.RCSendOnly, nil)
	r.want("ACK 101 msn 2")
}

// A peer that has more unanswered than any peer can have is refused.
func TestTooManyOutstanding(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	for range maxAnswers {
		r.send(ib.RCReadRequest, nil, r.reth(0, 1))
	}
	require.Equal(t, StateRTS, r.qp.State())
	r.send(ib.RCReadRequest, nil, r.reth(0, 1))
	out := r.poll()
	require.Len(t, out, maxAnswers+1)
	require.Equal(t, "NAK invalid request 1124 msn 1024", out[maxAnswers])
	require.Equal(t, StateErr, r.qp.State())
}

// A message has at most 2^31 bytes, however large the buffers are.
func TestSendOverLimit(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	r.post(1, 600, 600)
	r.send(ib.RCSendFirst, pattern(256, 0), noAck)
	r.qp.resp.msg.done = MaxMessage - 4
	r.send(ib.RCSendLast, pattern(5, 0))
	r.want("NAK invalid request 101 msn 0")
	require.Equal(t, WCLocalLenErr, r.wcs()[0].Status)
}

// L4: counters equal the trace, also for a NAK that never left.
func TestCancelledNAKIsNotCounted(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.send(ib.RCSendOnly, nil)
	r.post(1, 8, 8)
	r.send(ib.RCSendOnly, nil, at(100))
	r.send(ib.RCSendOnly, nil, at(102))
	r.post(2, 8, 8)
	r.send(ib.RCSendOnly, nil, at(101))
	r.want("ACK 101 msn 2")
	c := r.e.Counters()
	require.Zero(t, c.SentSeqNAKs)
	require.Zero(t, c.SendRNRErr)
}
