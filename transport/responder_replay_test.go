package transport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// wire format 13.11: SENDs and WRITEs are acknowledged again, with the newest
// PSN executed, and not executed again; also if the duplicate does not ask.
func TestDuplicateWriteAndSend(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.post(1, 8, 8)
	r.post(2, 8, 8)
	w := r.reth(0, 4)
	r.send(ib.RCWriteOnly, pattern(4, 1), w)
	r.send(ib.RCSendOnly, pattern(8, 1))
	r.send(ib.RCWriteOnly, pattern(4, 2), w)
	r.want("ACK 102 msn 3")
	require.Len(t, r.wcs(), 1)
	r.send(ib.RCWriteOnly, pattern(4, 1), w, at(100), noAck)
	r.want("ACK 102 msn 3")
	r.send(ib.RCWriteOnly, pattern(4, 1), w, at(100))
	r.send(ib.RCSendOnly, pattern(8, 1), at(101))
	r.send(ib.RCWriteOnly, pattern(4, 2), w, at(102))
	// Where answers are lost in bursts, more of them are better.
	r.want("ACK 102 msn 3", "ACK 102 msn 3", "ACK 102 msn 3")
	require.Empty(t, r.wcs())
	require.Equal(t, pattern(4, 2), r.mem.Bytes()[:4])
	require.Equal(t, 1, r.qp.rq.posted())
	require.EqualValues(t, 4, r.e.Counters().DuplicateRequest)
}

// An ACK must not stand in for the lost answer to a READ or atomic: rxe's
// requester would take the operation for done, without its data.
func TestDuplicateAckStopsAtRead(t *testing.T) {
	r := newRig(t, rigOpts{})
	w := r.reth(0, 4)
	r.send(ib.RCWriteOnly, nil, w, func(p *ib.Packet) { p.RETH.Len = 0 })
	r.send(ib.RCWriteOnly, pattern(4, 1), w)
	r.send(ib.RCReadRequest, nil, r.reth(0, 600)) // 102 to 104
	r.send(ib.RCWriteOnly, pattern(4, 1), w)      // 105
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 0, 0)) // 106
	r.poll()
	again := func(psn ib.PSN) { r.send(ib.RCWriteOnly, pattern(4, 1), w, at(psn)) }
	again(100)
	again(101)
	r.want("ACK 101 msn 2")
	again(105)
	r.want("ACK 105 msn 4")
	r.psn = 107
	again(107) // new
	r.want("ACK 107 msn 6")
	again(101)
	again(105)
	again(107)
	r.want("ACK 101 msn 2", "ACK 105 msn 4", "ACK 107 msn 6")
}

// What happened between an old duplicate and now may be forgotten; the ACK then
// covers no more than the duplicate.
func TestDuplicateOlderThanReplayStore(t *testing.T) {
	r := newRig(t, rigOpts{depth: 1})
	w := r.reth(0, 4)
	r.send(ib.RCWriteOnly, pattern(4, 1), w)
	for range 20 {
		r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0))
	}
	r.poll()
	r.send(ib.RCWriteOnly, pattern(4, 1), w, at(100))
	r.want("ACK 100 msn 21")
	before := word(r, 8)
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(101))
	require.Empty(t, r.poll(), "forgotten, and must not be done again")
	require.Equal(t, before, word(r, 8))
}

// At least as many as an rxe that rounded the depth up can have outstanding, twice.
func TestReplayStoreDepth(t *testing.T) {
	for _, depth := range []uint8{1, 2, 3, 4, 5, 16, 17, 128, 255} {
		r := newRig(t, rigOpts{depth: 1})
		r.qp.resp.store.init(depth)
		pow := 1
		for pow < int(depth) {
			pow *= 2
		}
		n := 2 * pow
		for range n {
			r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0))
			r.poll()
		}
		for i := range n {
			r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(rigPSN+ib.PSN(i)))
		}
		require.Len(t, r.poll(), n, "depth %d", depth)
	}
}

// A connection that is given a greater depth remembers as much from then on, and forgets
// nothing of before.
func TestReplayStoreDeepens(t *testing.T) {
	for _, before := range []int{0, 3, 4, 5, 11} {
		r := newRig(t, rigOpts{depth: 1, rts: true}) // 4 are remembered
		for range before {
			r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0))
			r.poll()
		}
		require.NoError(t, r.qp.Modify(0, QPAttr{State: StateSQD}, AttrState))
		require.NoError(t, r.qp.Modify(0, QPAttr{MaxDestRdAtomic: 8}, AttrMaxDestRdAtomic))
		const after = 16
		for i := range after {
			oldest := max(0, before-4)
			for j := oldest; j < before && before-j+i <= after; j++ {
				r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(rigPSN+ib.PSN(j)))
				require.Len(t, r.poll(), 1, "request %d of %d, %d later", j, before, i)
			}
			r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0))
			r.poll()
		}
		for i := range after {
			r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(rigPSN+ib.PSN(before+i)))
		}
		require.Len(t, r.poll(), after, "after %d", before)
		if before > 0 {
			r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(rigPSN))
			require.Empty(t, r.poll(), "forgotten by now")
			require.Equal(t, seqBase+uint64(rigPSN+before-1), r.qp.resp.store.evicted)
		}
		require.NoError(t, r.qp.Modify(0, QPAttr{MaxDestRdAtomic: 1}, AttrMaxDestRdAtomic))
		r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(rigPSN+ib.PSN(before)))
		require.Len(t, r.poll(), 1, "still remembered")
	}
}

func TestReadReplay(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.send(ib.RCReadRequest, nil, r.reth(5, 700)) // 100 to 102
	r.poll()
	whole := []string{"FIRST 100 msn 1 [256]", "MIDDLE 101 [256]", "LAST 102 msn 1 [188]"}
	r.send(ib.RCReadRequest, nil, r.reth(5, 700), at(100))
	r.want(whole...)
	// A part is a READ of its own on the wire, as IBTA has it; rxe sends MIDDLE.
	r.send(ib.RCReadRequest, nil, r.reth(5+256, 700-256), at(101))
	r.want("FIRST 101 msn 1 [256]", "LAST 102 msn 1 [188]")
	r.send(ib.RCReadRequest, nil, r.reth(5+512, 188), at(102))
	r.want("ONLY 102 msn 1 [188]")
	require.Equal(t, r.mem.Bytes()[517:705], r.data())
	r.send(ib.RCReadRequest, nil, r.reth(5+256, 256), at(101))
	r.want("ONLY 101 msn 1 [256]")
	// And the whole again: the window does not shrink (rxe's does).
	r.mem.Bytes()[5]++
	r.send(ib.RCReadRequest, nil, r.reth(5, 700), at(100))
	r.want(whole...)
	require.Equal(t, r.mem.Bytes()[5:705], r.data(), "from memory as it is now")
	require.EqualValues(t, 1, r.qp.resp.msn)
}

func TestReadReplayRefused(t *testing.T) {
	r := newRig(t, rigOpts{})
	other := r.register(make([]byte, 4096), rigVA, allRemote|3)
	r.send(ib.RCReadRequest, nil, r.reth(5, 700))
	r.poll()
	for name, f := range map[string]func(*ib.Packet){
		"another address": r.reth(6, 700),
		"longer":          r.reth(5, 701),
		"nothing":         r.reth(5, 0),
		"another key": func(p *ib.Packet) {
			p.RETH = ib.RETH{VA: rigVA + 5, RKey: other.RKey(), Len: 700}
		},
	} {
		r.send(ib.RCReadRequest, nil, f, at(100))
		require.Empty(t, r.poll(), name)
	}
	r.send(ib.RCReadRequest, nil, r.reth(5, 700), at(101))
	require.Empty(t, r.poll(), "an address that does not belong to the PSN")
	require.Equal(t, StateRTR, r.qp.State())
}

func TestReadReplayOfNothing(t *testing.T) {
	r := newRig(t, rigOpts{})
	for _, key := range []ib.RKey{0, r.mem.RKey(), 0xBAD} {
		none := func(p *ib.Packet) { p.RETH = ib.RETH{RKey: key} }
		psn := r.psn
		r.send(ib.RCReadRequest, nil, none)
		require.Len(t, r.poll(), 1)
		r.send(ib.RCReadRequest, nil, none, at(psn))
		require.Len(t, r.poll(), 1)
		r.psn = psn.Next()
	}
}

// A requester that asks again while the first answer is still being sent gets it once: what it was
// already sent is sent again, what is to come is not doubled.
func TestReadReplayWhileSending(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.send(ib.RCReadRequest, nil, r.reth(0, 2000)) // 100 to 107
	r.send(ib.RCReadRequest, nil, r.reth(0, 100))  // 108
	require.Equal(t, 4, r.e.PollTransmit(r.now, r.tx[:4]))
	r.send(ib.RCReadRequest, nil, r.reth(1280, 720), at(105)) // will come
	r.send(ib.RCReadRequest, nil, r.reth(0, 100), at(108))    // will come
	r.want("MIDDLE 104 [256]", "MIDDLE 105 [256]", "MIDDLE 106 [256]", "LAST 107 msn 1 [208]", "ONLY 108 msn 2 [100]")

	r.psn = 109
	r.send(ib.RCReadRequest, nil, r.reth(0, 2000)) // 109 to 116
	require.Equal(t, 6, r.e.PollTransmit(r.now, r.tx[:6]))
	r.send(ib.RCReadRequest, nil, r.reth(256, 2000-256), at(110)) // lost from 110 on
	r.want("FIRST 110 msn 3 [256]", "MIDDLE 111 [256]", "MIDDLE 112 [256]", "MIDDLE 113 [256]",
		"MIDDLE 114 [256]", "MIDDLE 115 [256]", "LAST 116 msn 3 [208]")
	require.Equal(t, r.mem.Bytes()[256:2000], r.data())
}

// A requester that knows selective repeat asks for parts of READs, of their middle and of their
// end. They are answered in the order in which they were asked for, and before what waits: one that
// came later would look lost.
func TestReadReplayInOrder(t *testing.T) {
	r := newRig(t, rigOpts{depth: 8})
	for range 3 {
		r.send(ib.RCReadRequest, nil, r.reth(0, 4*256))
	}
	r.poll()
	r.send(ib.RCReadRequest, nil, r.reth(0, 256))
	for _, x := range []struct{ packet, n int }{{2, 2}, {4, 1}, {6, 2}, {8, 4}} {
		p := pkt(ib.RCReadRequest, ib.PSN(rigPSN).Add(x.packet), nil)
		p.Resv7 = ib.Resv7Selective
		r.reth(x.packet%4*256, x.n*256)(&p)
		r.rx(&p)
	}
	var psns []string
	for _, l := range r.poll() {
		psns = append(psns, strings.Fields(l)[1])
	}
	require.Equal(t, []string{"102", "103", "104", "106", "107", "108", "109", "110", "111", "112"}, psns)
}

// A hostile peer that repeats a READ does not make the answers pile up.
func TestReadReplayFlood(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.send(ib.RCReadRequest, nil, r.reth(0, 2000))
	for range 10000 {
		r.send(ib.RCReadRequest, nil, r.reth(0, 2000), at(100))
	}
	require.Len(t, r.poll(), 8)
	for range 10000 {
		r.send(ib.RCReadRequest, nil, r.reth(0, 2000), at(100))
	}
	require.Len(t, r.poll(), 8)
}

// A packet from before the first PSN of the connection was never executed
// here, so it is not acknowledged.
func TestBeforeFirstPSN(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.send(ib.RCWriteOnly, pattern(4, 1), r.reth(0, 4), at(99))
	r.send(ib.RCReadRequest, nil, r.reth(0, 4), at(50))
	r.send(ib.RCFetchAdd, nil, r.atomic(0, 4, 4), at(98))
	require.Empty(t, r.poll())
	require.EqualValues(t, 3, r.e.Counters().DuplicateRequest)
}

// 2^24 packets later the same PSN is another one.
func TestReplayAcrossWrap(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0))
	r.want("ATOMIC 100 msn 1 = " + decimal(word(r, 8)-1))
	s := &r.qp.resp
	s.next += 1<<24 - 1 // as many SENDs
	require.Equal(t, ib.PSN(100), s.expectedPSN())
	s.next += 10
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 1, 0), at(100))
	require.Empty(t, r.poll())
	r.send(ib.RCWriteOnly, nil, at(99))
	r.want("ACK 109 msn 1")
}
