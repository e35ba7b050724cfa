package transport

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

func TestSendOnly(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.post(1, 100, 100)
	r.send(ib.RCSendOnly, pattern(33, 1))
	r.want("ACK 100 msn 1")
	require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, ByteLen: 33, QPN: rigQPN}}, r.wcs())
	require.Equal(t, pattern(33, 1), r.recv.Bytes()[:33])
	require.Zero(t, r.recv.Bytes()[33])
	require.Equal(t, []EventType{EventCommEstablished}, r.events())
}

func TestSendAcrossPacketsAndElements(t *testing.T) {
	r := newRig(t, rigOpts{psn: ib.PSNMask}) // the PSN wraps inside the message
	r.post(7, 700, 300)
	msg := pattern(600, 3)
	r.send(ib.RCSendFirst, msg[:256], noAck)
	r.send(ib.RCSendMiddle, msg[256:512], noAck)
	require.Empty(t, r.poll(), "nobody asked for an ACK")
	r.send(ib.RCSendLastImm, msg[512:], imm(0xA1B2C3D4))
	r.want("ACK 1 msn 1")
	require.Equal(t, []WC{{
		ID: 7, Opcode: WCRecv, ByteLen: 600, QPN: rigQPN, Flags: WCWithImm, Imm: 0xA1B2C3D4,
	}}, r.wcs())
	require.Equal(t, msg, r.recv.Bytes()[:600])
}

func TestSendOfNothing(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.post(1, 0, 1)
	r.send(ib.RCSendOnlyImm, nil, imm(5))
	r.want("ACK 100 msn 1")
	require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, QPN: rigQPN, Flags: WCWithImm, Imm: 5}}, r.wcs())
}

// A SEND of nothing touches no buffer: it completes whatever their keys are, as on rxe. libfabric's
// fi_shared_ctx posts its receives with key 0, and its clients send nothing.
func TestSendOfNothingNeedsNoKey(t *testing.T) {
	for _, srq := range []bool{false, true} {
		r := newRig(t, rigOpts{srq: srq})
		r.post(1, 8, 8)
		require.NoError(t, r.recv.Deregister(nil))
		r.send(ib.RCSendOnly, nil)
		r.want("ACK 100 msn 1")
		require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, QPN: rigQPN}}, r.wcs())
		require.Equal(t, StateRTR, r.qp.State())
	}
}

// Of a receive request the bytes count that a message fills, as on rxe: the rest may lie outside
// the region, or have a wrong key. perftest rounds its length up when it uses an SRQ.
func TestReceiveBeyondRegion(t *testing.T) {
	for _, o := range []rigOpts{{}, {srq: true}, {typ: ib.UC}, {typ: ib.UD}} {
		op, head, change := [3]ib.Opcode{ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendLast}, 0, noAck
		switch o.typ {
		case ib.UC:
			op = [3]ib.Opcode{ib.UCSendFirst, ib.UCSendMiddle, ib.UCSendLast}
		case ib.UD:
			op[2], head, change = ib.UDSendOnly, ib.GRHBytes, deth
		}
		o.rts = true
		r := newRig(t, o)
		post := func() {
			wr := RecvWR{ID: 1, SGList: []SGE{
				{Addr: rigRecvVA, Length: 300, LKey: r.recv.LKey()},
				{Addr: rigRecvVA + rigLen - 300, Length: 5000, LKey: r.recv.LKey()},
				{Addr: rigRecvVA, Length: 300, LKey: r.recv.LKey() ^ 0x100},
			}}
			if o.srq {
				require.NoError(t, r.qp.srq.PostRecv(&wr))
				return
			}
			require.NoError(t, r.qp.PostRecv(&wr))
		}
		fits, bad := pattern(600-head, 3), pattern(89, 1)
		good := WC{ID: 1, Opcode: WCRecv, ByteLen: 600, QPN: rigQPN}
		post()
		if o.typ == ib.UD {
			good.SrcQP, good.Flags, good.SL = 0x99, WCWithGRH, SLRoCEv2IPv4
			bad = pattern(601-head, 1)
			r.send(op[2], fits, change)
		} else {
			r.send(op[0], fits[:256], change)
			r.send(op[1], fits[256:512], change)
			r.send(op[2], fits[512:], change)
		}
		require.Equal(t, []WC{good}, r.wcs())
		require.Equal(t, fits, append(slices.Clone(r.recv.Bytes()[head:300]), r.recv.Bytes()[rigLen-300:]...))
		require.Equal(t, StateRTS, r.qp.State())

		post()
		if o.typ != ib.UD {
			r.send(op[0], pattern(256, 1), change)
			r.send(op[1], pattern(256, 1), change)
		}
		r.send(op[2], bad, change)
		require.Equal(t, WCLocalProtErr, r.wcs()[0].Status, "one byte more")
		require.Equal(t, StateErr, r.qp.State())
	}
}

// IBTA 9.2.3: the event that a CQ armed for solicited completions makes.
func TestSolicitedEvent(t *testing.T) {
	r := newRig(t, rigOpts{rts: true})
	for id := range uint64(3) {
		r.post(id, 8, 8)
	}
	r.cq.Arm(true)
	r.send(ib.RCSendOnly, pattern(8, 0))
	require.Empty(t, r.events())
	r.send(ib.RCSendOnly, pattern(8, 0), solicited)
	require.Equal(t, []EventType{EventCompletion}, r.events())
	r.send(ib.RCSendOnly, pattern(8, 0), solicited)
	require.Empty(t, r.events(), "one event for each Arm")
}

func TestWrite(t *testing.T) {
	r := newRig(t, rigOpts{})
	msg := pattern(600, 9)
	r.send(ib.RCWriteFirst, msg[:256], r.reth(1001, 600), noAck)
	r.send(ib.RCWriteMiddle, msg[256:512], noAck)
	r.send(ib.RCWriteLast, msg[512:])
	r.send(ib.RCWriteOnly, pattern(3, 1), r.reth(0, 3), noAck)
	r.want("ACK 103 msn 2")
	require.Equal(t, msg, r.mem.Bytes()[1001:1601])
	require.Equal(t, pattern(3, 1), r.mem.Bytes()[:3])
	require.Empty(t, r.wcs())
	r.canaries()
}

func TestWriteImmediate(t *testing.T) {
	r := newRig(t, rigOpts{})
	r.post(4, 0, 1)
	msg := pattern(300, 9)
	r.send(ib.RCWriteFirst, msg[:256], r.reth(8, 300), noAck)
	require.Equal(t, 1, r.qp.rq.posted(), "the receive request is taken by the last packet")
	r.send(ib.RCWriteLastImm, msg[256:], imm(77), solicited)
	r.want("ACK 101 msn 1")
	require.Equal(t,
		[]WC{{ID: 4, Opcode: WCRecvWriteImm, ByteLen: 300, QPN: rigQPN, Flags: WCWithImm, Imm: 77}}, r.wcs())
	require.Equal(t, msg, r.mem.Bytes()[8:308])
}

// IBTA C9-88: a WRITE or READ of nothing needs no key.
func TestNothingNeedsNoKey(t *testing.T) {
	r := newRig(t, rigOpts{})
	none := func(p *ib.Packet) { p.RETH = ib.RETH{RKey: 0xDEAD, VA: 1 << 60} }
	r.send(ib.RCWriteOnly, nil, none)
	r.send(ib.RCReadRequest, nil, none)
	r.want("ONLY 101 msn 2 [0]") // acknowledges the WRITE
	require.Equal(t, StateRTR, r.qp.State())
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		n     int
		lines []string
	}{
		{1, []string{"ONLY 100 msn 1 [1]"}},
		{255, []string{"ONLY 100 msn 1 [255]"}},
		{256, []string{"ONLY 100 msn 1 [256]"}},
		{257, []string{"FIRST 100 msn 1 [256]", "LAST 101 msn 1 [1]"}},
		{700, []string{"FIRST 100 msn 1 [256]", "MIDDLE 101 [256]", "LAST 102 msn 1 [188]"}},
	} {
		for _, room := range []int{1, 2, 64} {
			r := newRig(t, rigOpts{})
			r.send(ib.RCReadRequest, nil, r.reth(5, c.n))
			require.Equal(t, c.lines, r.pollN(room))
			require.Equal(t, r.mem.Bytes()[5:5+c.n], r.data())
		}
	}
}

func TestReadWrapsPSN(t *testing.T) {
	r := newRig(t, rigOpts{psn: ib.PSNMask - 1})
	r.send(ib.RCReadRequest, nil, r.reth(0, 1024))
	r.post(1, 8, 8)
	r.send(ib.RCSendOnly, pattern(8, 0))
	r.want("FIRST 16777214 msn 1 [256]", "MIDDLE 16777215 [256]", "MIDDLE 0 [256]", "LAST 1 msn 1 [256]",
		"ACK 2 msn 2")
}

func word(r *rig, off int) uint64 { return binary.NativeEndian.Uint64(r.mem.Bytes()[off:]) }

func decimal(v uint64) string { return strconv.FormatUint(v, 10) }

func setWord(r *rig, off int, v uint64) { binary.NativeEndian.PutUint64(r.mem.Bytes()[off:], v) }

func TestAtomics(t *testing.T) {
	r := newRig(t, rigOpts{})
	setWord(r, 64, 40)
	r.send(ib.RCFetchAdd, nil, r.atomic(64, 2, 99))
	r.send(ib.RCCompareSwap, nil, r.atomic(64, 7, 42))
	r.send(ib.RCCompareSwap, nil, r.atomic(64, 8, 42))
	r.want("ATOMIC 100 msn 1 = 40", "ATOMIC 101 msn 2 = 42", "ATOMIC 102 msn 3 = 7")
	require.EqualValues(t, 7, word(r, 64))
}

// A lost answer is asked for again; the operation is not done again (IBTA 9.7.5.1.4).
func TestAtomicReplay(t *testing.T) {
	r := newRig(t, rigOpts{})
	setWord(r, 64, 40)
	r.send(ib.RCFetchAdd, nil, r.atomic(64, 2, 0))
	r.want("ATOMIC 100 msn 1 = 40")
	for range 3 {
		r.send(ib.RCFetchAdd, nil, r.atomic(64, 2, 0), at(100))
		r.want("ATOMIC 100 msn 1 = 40")
	}
	require.EqualValues(t, 42, word(r, 64))
	// Not the operation that was done at that PSN: dropped.
	r.send(ib.RCCompareSwap, nil, r.atomic(64, 2, 0), at(100))
	require.Empty(t, r.poll())
	require.EqualValues(t, 4, r.e.Counters().DuplicateRequest)
	// Nor twice while the first answer has not left.
	r.psn = 101
	r.send(ib.RCFetchAdd, nil, r.atomic(64, 2, 0))
	r.send(ib.RCFetchAdd, nil, r.atomic(64, 2, 0), at(101))
	r.want("ATOMIC 101 msn 2 = 42")
}

func TestAtomicWriteAndFlush(t *testing.T) {
	r := newRig(t, rigOpts{})
	flush := func(h ib.FETH) func(*ib.Packet) { return func(p *ib.Packet) { p.FETH = h } }
	word := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	r.send(ib.RCAtomicWrite, word, r.reth(16, 8))
	r.send(ib.RCFlush, nil, r.reth(0, 100), flush(ib.FlushGlobalVisibility))
	r.send(ib.RCFlush, nil, r.reth(0, 0), flush(ib.FlushPersistence|ib.FlushMR))
	r.want("ONLY 100 msn 1 [0]", "ONLY 101 msn 2 [0]", "ONLY 102 msn 3 [0]")
	require.Equal(t, word, r.mem.Bytes()[16:24])

	// rxe repeats both with address 0 and drops a repeated FLUSH itself.
	clear(r.mem.Bytes()[16:24])
	r.send(ib.RCAtomicWrite, word, func(p *ib.Packet) { p.RETH.RKey, p.RETH.Len = r.mem.RKey(), 8 }, at(100))
	r.send(ib.RCFlush, nil, func(p *ib.Packet) { p.RETH.RKey, p.FETH = r.mem.RKey(), 1 }, at(101))
	r.want("ONLY 100 msn 1 [0]", "ONLY 101 msn 2 [0]")
	require.Zero(t, r.mem.Bytes()[16], "not stored again")
}

func TestSendWithInvalidate(t *testing.T) {
	r := newRig(t, rigOpts{})
	table := r.e.cfg.Mem
	w, err := table.AllocMW(r.pd, mem.Type2B)
	require.NoError(t, err)
	key := mem.NextRKey(w.RKey())
	require.Equal(t, mem.FaultNone, table.BindWR(r.pd, rigQPN, w, key, mem.BindInfo{
		Region: r.mem, Addr: rigVA, Length: 64, Access: mem.RemoteWrite,
	}))
	through := func(p *ib.Packet) { p.RETH = ib.RETH{VA: rigVA, RKey: key, Len: 4} }
	r.send(ib.RCWriteOnly, pattern(4, 1), through)
	r.want("ACK 100 msn 1")
	r.post(3, 8, 8)
	r.send(ib.RCSendOnlyInv, pattern(8, 1), func(p *ib.Packet) { p.IETH = key })
	r.want("ACK 101 msn 2")
	require.Equal(t, []WC{{ID: 3, Opcode: WCRecv, ByteLen: 8, QPN: rigQPN, Flags: WCWithInv, InvKey: key}}, r.wcs())
	require.False(t, w.Bound())
	r.send(ib.RCWriteOnly, pattern(4, 1), through)
	r.want("NAK remote access error 102 msn 2")
}

// wire format 13.10 and 4.5: one ACK for a run of SENDs and WRITEs, none that
// passes a READ or atomic, whose answer acknowledges what is before it.
func TestAckCoalescing(t *testing.T) {
	r := newRig(t, rigOpts{})
	write := func() { r.send(ib.RCWriteOnly, pattern(4, 0), r.reth(0, 4)) }
	write()
	write()
	write()
	r.want("ACK 102 msn 3")
	write()
	r.send(ib.RCReadRequest, nil, r.reth(0, 300))
	write()
	write()
	r.send(ib.RCFetchAdd, nil, r.atomic(8, 0, 0))
	write()
	r.want("FIRST 104 msn 5 [256]", "LAST 105 msn 5 [44]",
		"ATOMIC 108 msn 8 = "+decimal(word(r, 8)), "ACK 109 msn 9")
	// Two of the first three, the one before the READ and both before the atomic.
	require.EqualValues(t, 2+1+2, r.e.Counters().CoalescedAcks)
}

func TestAckCoalescingOff(t *testing.T) {
	r := newRig(t, rigOpts{tuning: Tuning{DisableAckCoalesce: true}})
	for range 3 {
		r.send(ib.RCWriteOnly, pattern(4, 0), r.reth(0, 4))
		r.send(ib.RCWriteOnly, pattern(4, 0), r.reth(0, 4), noAck)
	}
	r.send(ib.RCReadRequest, nil, r.reth(0, 3))
	r.want("ACK 100 msn 1", "ACK 102 msn 3", "ACK 104 msn 5", "ONLY 106 msn 7 [3]")
	require.Zero(t, r.e.Counters().CoalescedAcks)
}

// IBTA 9.7.7.2: an ACK tells how many receive requests are posted, if asked to.
func TestCredits(t *testing.T) {
	r := newRig(t, rigOpts{tuning: Tuning{EndToEndCredits: true}})
	for id := range uint64(6) {
		r.post(id, 8, 8)
	}
	r.send(ib.RCSendOnly, nil)
	r.want("ACK credits=4 100 msn 1") // 5 posted, and no code for 5
	for range 5 {
		r.send(ib.RCSendOnly, nil)
	}
	r.want("ACK credits=0 105 msn 6")
	r.post(9, 8, 8)
	r.want("ACK credits=1 105 msn 6") // unsolicited
	r.post(10, 8, 8)
	require.Empty(t, r.poll())
}

// The request of a message in progress is still a credit: the MSN, which the peer takes
// them from, does not count it yet.
func TestCreditsInMidMessage(t *testing.T) {
	r := newRig(t, rigOpts{tuning: Tuning{EndToEndCredits: true}})
	for id := range uint64(3) {
		r.post(id, 512, 512)
	}
	r.send(ib.RCSendFirst, pattern(256, 1), func(p *ib.Packet) { p.AckReq = true })
	r.want("ACK credits=3 100 msn 0")
	r.send(ib.RCSendLast, pattern(8, 1))
	r.want("ACK credits=2 101 msn 1")
}

func TestCreditsNotAfterRead(t *testing.T) {
	r := newRig(t, rigOpts{tuning: Tuning{EndToEndCredits: true}})
	r.send(ib.RCReadRequest, nil, r.reth(0, 4))
	r.want("ONLY 100 msn 1 [4]")
	r.post(1, 8, 8)
	// It would look like the answer to the READ, should that have got lost.
	require.Empty(t, r.poll())
}

func TestSRQ(t *testing.T) {
	r := newRig(t, rigOpts{srq: true, rts: true, tuning: Tuning{EndToEndCredits: true}})
	r.send(ib.RCSendOnly, pattern(8, 1))
	r.want("RNR NAK timer=12 100 msn 0")
	r.post(1, 8, 8)
	r.psn = 100
	r.send(ib.RCSendOnly, pattern(8, 1))
	r.want("ACK 100 msn 1") // no credits: the SRQ is not the peer's alone
	require.Equal(t, []WC{{ID: 1, Opcode: WCRecv, ByteLen: 8, QPN: rigQPN}}, r.wcs())
	r.post(2, 8, 8)
	r.send(ib.RCSendFirst, pattern(256, 1))
	require.Equal(t, []EventType{EventLastWQEReached}, r.events())
	require.Equal(t, WCLocalLenErr, r.wcs()[0].Status)
}

// Both ends together: a requester that is told how many receive requests there
// are meets at most one RNR NAK for each time that it runs out, the price of
// the one message that it may send without a credit.
func TestCreditsBetweenQPs(t *testing.T) {
	const n = 40
	vain := func(on bool) uint64 {
		l := newLoop(t, loopOptions{
			mtu: ib.MTU256, data: 4096, psn: 9, tuning: Tuning{EndToEndCredits: on}, cqe: 2 * n,
			caps: QPCaps{MaxSendWR: n, MaxSendSGE: 1, MaxRecvWR: 8, MaxRecvSGE: 1},
		})
		recv := RecvWR{SGList: []SGE{l.b.at(0, 700)}}
		post := func(k int) {
			for range k {
				require.NoError(t, l.b.qp.PostRecv(&recv))
			}
		}
		post(4)
		for i := range uint64(n) {
			require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
				ID: i, Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 700)},
			}))
			if i == 0 {
				l.run() // its ACK brings the first credits
			}
		}
		got := 0
		for rounds := 0; got < n; rounds++ {
			require.Less(t, rounds, 100*n, "stuck")
			for l.carry(l.a, l.b)+l.carry(l.b, l.a) > 0 {
			}
			k := len(completions(l.b.rcq))
			got += k
			if k > 0 {
				post(min(k, 4))
				continue
			}
			at, ok := l.a.e.NextTimeout()
			require.True(t, ok)
			l.now = max(l.now, at)
			l.a.e.HandleTimeout(l.now)
			l.b.e.HandleTimeout(l.now)
		}
		l.run()
		for i, wc := range completions(l.a.scq) {
			require.Equal(t, WCSuccess, wc.Status)
			require.EqualValues(t, i, wc.ID)
		}
		return l.b.e.Counters().OutOfSeqRequest
	}
	with, without := vain(true), vain(false)
	t.Logf("requests refused: %d with credits, %d without", with, without)
	require.Less(t, 4*with, without)
}
