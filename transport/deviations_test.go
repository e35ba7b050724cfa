package transport_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// The 27 known deviations of rdma_rxe from the specification, by the number that the project's wire
// notes (part 8) give them. In each test a puppet plays the deviating peer: the engine does what
// the specification says and survives.

// 1: retry_cnt 7 is for ever on rxe. The engine gives up after 7 retries, as
// the specification and ConnectX do, and answers a peer that never does.
func TestDeviation01RetryForever(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.write(0, 0, 8))
	d.wait(10 * second)
	d.a.wantWC("1 transport retry counter exceeded")
	require.Len(t, d.log, 8, "the first try and seven retries")
	d.wantState(transport.StateErr)

	d = newPuppet(t, pairConfig{}, linkConfig{})
	d.a.recv(5, 0, 8)
	for range 100 {
		d.send(ib.RCSendOnly, 0, make([]byte, 8))
		d.want("a> ACKNOWLEDGE 0 ACK msn=1")
		d.wait(ms)
	}
	d.a.wantWC("5 success")
	require.EqualValues(t, 99, d.a.eng.Counters().DuplicateRequest)
}

// 2: rxe repeats FLUSH and ATOMIC WRITE with VA 0, and drops duplicates of
// FLUSH. (Its other ICRC for FLUSH is the link's business.)
func TestDeviation02RetriedFlushAndAtomicWrite(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	flush := func(va uint64) {
		d.send(ib.RCFlush, 0, nil, reth(va, d.a.region.RKey(), 8),
			func(p *ib.Packet) { p.FETH = ib.FlushGlobalVisibility })
	}
	write := func(va uint64, data string) {
		d.send(ib.RCAtomicWrite, 1, []byte(data), reth(va, d.a.region.RKey(), 8))
	}
	flush(d.a.base)
	write(d.a.base+16, "original")
	d.want(`
		a> READ RESPONSE ONLY 0 0B ACK msn=1
		a> READ RESPONSE ONLY 1 0B ACK msn=2`)
	flush(0)
	write(0, "repeated")
	d.want(`
		a> READ RESPONSE ONLY 0 0B ACK msn=1
		a> READ RESPONSE ONLY 1 0B ACK msn=2`)
	require.Equal(t, "original", string(d.a.buf[16:24]))

	// Our FLUSH whose answer was lost and whose duplicates are dropped.
	d.a.post(with(d.a.write(0, 0, 0), func(wr *transport.SendWR) {
		wr.Opcode, wr.SGList, wr.FlushLength, wr.FlushType = transport.WRFlush, nil, 8, ib.FlushGlobalVisibility
	}))
	d.wait(10 * second)
	d.a.wantWC("1 transport retry counter exceeded")
	for _, f := range d.log {
		require.Equal(t, d.b.base, f.pkt.RETH.VA, "retries carry the address")
	}
}

// 3: the ACK of a duplicate may carry PSN 0xFFFFFF or a stale one, and comes
// even if none was asked for. ACKs outside what is outstanding are ignored.
func TestDeviation03StaleAck(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) {
		if l.i == 0 {
			a.SQPSN = 0x500
		}
	}})
	d.a.post(d.a.write(0, 0, 8))
	d.a.post(d.a.write(0, 8, 8))
	d.pump()
	for _, psn := range []int{0xFFFFFF - 0x500, -1, -1000, 2, 3, 500} {
		d.send(ib.RCAcknowledge, psn, nil)
		require.Empty(t, d.a.poll(), "ACK of PSN %d", psn)
	}
	require.NotZero(t, d.a.eng.Counters().DropBadResponse)
	d.send(ib.RCAcknowledge, 0, nil)
	d.a.wantWC("1 success")
	d.send(ib.RCAcknowledge, 0, nil)
	d.send(ib.RCAcknowledge, 1, nil)
	d.a.wantWC("2 success")
	d.wantState(transport.StateRTS)
}

// 4: a READ that is asked for again from the middle is answered by rxe with
// MIDDLE and LAST; the specification and ConnectX say FIRST or ONLY.
func TestDeviation04PartialReadReplay(t *testing.T) {
	part := func(i int) []byte {
		b := make([]byte, 1024)
		for j := range b {
			b[j] = byte(i + j)
		}
		return b
	}
	for _, replay := range [][]ib.Opcode{
		{ib.RCReadRespMiddle, ib.RCReadRespMiddle, ib.RCReadRespLast},
		{ib.RCReadRespFirst, ib.RCReadRespMiddle, ib.RCReadRespLast},
	} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		d.a.post(d.a.read(0, 0x100, 4096))
		d.want("a> READ REQUEST 0 +0x100/4096 A")
		d.send(ib.RCReadRespFirst, 0, part(0))
		d.wait(5 * ms)
		require.NotEmpty(t, d.log)
		last := d.log[len(d.log)-1]
		require.Equal(t, "a> READ REQUEST 1 +0x500/3072 A", last.String(), "the rest, and nothing more")
		for i, op := range replay {
			d.send(op, 1+i, part(1+i))
		}
		d.a.wantWC("1 success")
		for i := range 4 {
			require.Equal(t, part(i), d.a.buf[1024*i:1024*(i+1)], "packet %d", i)
		}
		d.wantState(transport.StateRTS)
	}
	// The last packet alone: MIDDLE/LAST becomes LAST, FIRST/ONLY becomes ONLY.
	for _, op := range []ib.Opcode{ib.RCReadRespLast, ib.RCReadRespOnly} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		d.a.post(d.a.read(0, 0, 1500))
		d.pump()
		d.send(ib.RCReadRespFirst, 0, part(0))
		d.wait(5 * ms)
		d.send(op, 1, part(9)[:476])
		d.a.wantWC("1 success")
		require.Equal(t, part(9)[:476], d.a.buf[1024:1500])
	}
}

// 5: each replay makes rxe forget the part of a READ before it. So a request
// is never repeated from an earlier point than the one before.
func TestDeviation05ReplayWindowShrinks(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.read(0, 0, 8192))
	d.pump()
	data := make([]byte, 1024)
	d.send(ib.RCReadRespFirst, 0, data)
	d.wait(3 * ms)
	d.send(ib.RCReadRespMiddle, 1, data)
	d.send(ib.RCReadRespMiddle, 4, data) // a gap
	d.wait(3 * ms)
	d.send(ib.RCReadRespMiddle, 2, data)
	d.wait(3 * ms)
	from := uint64(0)
	for _, f := range d.log {
		require.Equal(t, ib.RCReadRequest, f.pkt.Opcode)
		require.GreaterOrEqual(t, f.pkt.RETH.VA, from)
		require.EqualValues(t, f.pkt.RETH.VA-d.b.base, 1024*f.rel, "address and PSN move together")
		from = f.pkt.RETH.VA
	}
	require.EqualValues(t, 3*1024, from-d.b.base)
}

// 6: duplicates of a zero-length READ need a valid key on rxe 6.1 and key 0 on 6.12. The responder
// answers any; keys of zero-length accesses are not checked (IBTA C9-88).
func TestDeviation06ZeroLengthRead(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for i, key := range []ib.RKey{0, d.a.region.RKey(), 0x12345678} {
		d.send(ib.RCReadRequest, 0, nil, reth(0, key, 0))
		d.want("a> READ RESPONSE ONLY 0 0B ACK msn=1")
		require.EqualValues(t, i, d.a.eng.Counters().DuplicateRequest)
	}
	d.readReq(1, 0, 8)
	d.send(ib.RCReadRequest, 0, nil, reth(0, 0, 0))
	d.readReq(1, 0, 8)
	d.want(`
		a> READ RESPONSE ONLY 1 8B ACK msn=2
		a> READ RESPONSE ONLY 0 0B ACK msn=1
		a> READ RESPONSE ONLY 1 8B ACK msn=2`)
	d.wantState(transport.StateRTS)
}

// 7: a SEND that does not fit is refused by rxe with 0x63; the specification says 0x61.
func TestDeviation07SendTooLong(t *testing.T) {
	for nak, want := range map[ib.Syndrome]string{
		ib.NAKRemoteOperation: "1 remote operation error", ib.NAKInvalidRequest: "1 remote invalid request error",
	} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		d.a.post(d.a.send(0, 100))
		d.pump()
		d.send(ib.RCAcknowledge, 0, nil, syndrome(nak))
		d.a.wantWC(want)
		d.wantState(transport.StateErr)
	}
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.recv(3, 64, 9)
	d.send(ib.RCSendOnly, 0, make([]byte, 10))
	d.want("a> ACKNOWLEDGE 0 NAK invalid request msn=0")
	d.a.wantWC("3 local length error")
	d.wantState(transport.StateErr)
}

// 8: rxe acknowledges SEND with invalidate of a bad key, then goes silent.
func TestDeviation08SendInvBadKey(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(with(d.a.send(0, 8),
		func(wr *transport.SendWR) { wr.Opcode, wr.InvalidateKey = transport.WRSendInv, 0x777 }))
	d.pump()
	d.send(ib.RCAcknowledge, 0, nil)
	d.a.post(d.a.send(0, 8))
	d.wait(10 * second)
	d.a.wantWC("1 success", "2 transport retry counter exceeded")

	// The engine refuses.
	d = newPuppet(t, pairConfig{}, linkConfig{})
	d.a.recv(3, 64, 9)
	d.send(ib.RCSendOnlyInv, 0, make([]byte, 8), func(p *ib.Packet) { p.IETH = 0x777 })
	d.want("a> ACKNOWLEDGE 0 NAK remote access error msn=0")
	d.wantState(transport.StateErr)
	require.NotEqual(t, transport.WCSuccess, d.a.poll()[0].Status)
}

// 9: rxe's RNR NAK is followed by a sequence NAK of the same PSN, and does not
// acknowledge what came before. The wait goes on.
func TestDeviation09SequenceNAKAfterRNR(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.send(0, 8))
	d.a.post(d.a.send(0, 8))
	d.a.post(d.a.send(0, 8))
	d.want(`
		a> SEND ONLY 0 8B A
		a> SEND ONLY 1 8B A
		a> SEND ONLY 2 8B A`)
	d.send(ib.RCAcknowledge, 1, nil, syndrome(ib.RNRNAK(14))) // 1.28 ms
	d.send(ib.RCAcknowledge, 1, nil, syndrome(ib.NAKSequence))
	d.wait(1200 * us)
	d.want("")
	d.a.wantWC("1 success")
	d.wait(100 * us)
	d.want(`
		a> SEND ONLY 1 8B A
		a> SEND ONLY 2 8B A`)
	d.send(ib.RCAcknowledge, 2, nil)
	d.a.wantWC("2 success", "3 success")

	// The engine as responder: rxe goes on sending new requests behind the one
	// that was refused. They are dropped, and the repetition is served.
	d = newPuppet(t, pairConfig{tuning: goBackN}, linkConfig{})
	d.send(ib.RCSendOnly, 0, []byte("first"))
	d.send(ib.RCSendOnly, 1, []byte("secnd"))
	d.send(ib.RCSendOnly, 2, []byte("third"))
	d.want("a> ACKNOWLEDGE 0 RNR NAK timer=12 msn=0")
	for i := range 3 {
		d.a.recv(uint64(i), 16*i, 16)
	}
	d.send(ib.RCSendOnly, 0, []byte("first"))
	d.send(ib.RCSendOnly, 1, []byte("secnd"))
	d.send(ib.RCSendOnly, 2, []byte("third"))
	d.want(`
		a> ACKNOWLEDGE 0 ACK msn=1
		a> ACKNOWLEDGE 1 ACK msn=2
		a> ACKNOWLEDGE 2 ACK msn=3`)
	d.a.wantWC("0 success", "1 success", "2 success")
	require.Equal(t, "third", string(d.a.buf[32:37]))
}

// 10: nothing answers an unknown opcode.
func TestDeviation10UnknownOpcode(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for op := range 256 {
		if ib.Opcode(op).Known() {
			continue
		}
		data := d.packet(ib.RCSendOnly, 0, make([]byte, 64))
		data[0] = byte(op)
		d.sendRaw(data)
	}
	d.want("")
	require.NotZero(t, d.a.eng.Counters().DropOpcode)
	d.wantState(transport.StateRTS)
}

// 11: a peer in ERR is silent; ours says why first, and goes on saying so for
// a while (see TestRuleFatalLinger).
func TestDeviation11SilentPeer(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.RetryCnt = 2 }})
	d.a.post(d.a.read(0, 0, 8))
	d.a.post(d.a.write(0, 0, 8))
	d.a.recv(9, 0, 8)
	d.wait(second)
	d.a.wantWC("1 transport retry counter exceeded", "2 Work Request Flushed Error", "9 Work Request Flushed Error")
	require.EqualValues(t, 1, d.a.eng.Counters().RetryExceededErr)
	require.EqualValues(t, 3, d.a.eng.Counters().Timeouts)
}

// 12: rxe 6.1 does not check that FIRST and MIDDLE packets are full.
func TestDeviation12ShortFirst(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1023} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		d.a.recv(1, 0, 4096)
		d.send(ib.RCSendFirst, 0, make([]byte, n))
		d.want("a> ACKNOWLEDGE 0 NAK invalid request msn=0")
		d.wantState(transport.StateErr)
	}
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.send(ib.RCWriteFirst, 0, make([]byte, 512), reth(d.a.base, d.a.region.RKey(), 2048))
	d.want("a> ACKNOWLEDGE 0 NAK invalid request msn=0")
}

// 13: rxe rounds max_rd_atomic up to a power of two. Depth 3 gets 4 READs, and
// more, and replays of them.
func TestDeviation13DepthRoundedUp(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.MaxDestRdAtomic = 3 }})
	for range 2 { // the second time they are duplicates
		for i := range 4 {
			d.readReq(i, 64*i, 8)
		}
		for i := range 4 {
			d.send(ib.RCFetchAdd, 4+i, nil, func(p *ib.Packet) { p.Atomic.VA += 1024; p.Atomic.SwapAdd = 1 })
		}
		require.Len(t, d.log, 8)
		d.log = nil
	}
	d.wantState(transport.StateRTS)
	require.EqualValues(t, 4, binary.NativeEndian.Uint64(d.a.buf[1024:]), "each executed once")
}

// 14: rxe ignores credits and MSN and always sends 0x1F. Garbage in either does no harm.
func TestDeviation14CreditsAndMSN(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for i := range 40 {
		d.a.post(d.a.write(0, 0, 8))
		d.pump()
		d.send(ib.RCAcknowledge, i, nil, msn(ib.MSN(i*0x123457)&ib.PSNMask))
	}
	require.Len(t, d.a.poll(), 40)
	d.wantState(transport.StateRTS)
}

// 15: rxe's datagrams ask for an ACK, which does not exist, and its senders do
// not know the rule of controlled Q_Keys.
func TestDeviation15Datagrams(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{typ: ib.UD})
	d.a.recv(1, 0, 100)
	d.send(ib.UDSendOnly, 0, []byte("hello"), func(p *ib.Packet) { p.AckReq = true })
	d.want("")
	d.a.wantWC("1 success")
	d.a.recv(2, 0, 100)
	d.send(ib.UDSendOnly, 1, []byte("hello"), func(p *ib.Packet) { p.DETH.QKey = 0x80010000 })
	require.Empty(t, d.a.poll())
	require.EqualValues(t, 1, d.a.eng.Counters().DropQKey)

	// Our own sender: a Q_Key with the top bit set means that of the QP.
	ah, err := d.a.eng.CreateAH(d.a.pd, transport.AddressVector{DGID: ib.GIDFromAddr(d.b.addr)})
	require.NoError(t, err)
	for _, key := range []ib.QKey{0x80000000, 0x1234} {
		d.a.post(with(d.a.send(0, 4),
			func(wr *transport.SendWR) { wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, puppetQPN, key }))
	}
	d.want(`
		a> SEND ONLY 0 4B qkey=0x11111111
		a> SEND ONLY 1 4B qkey=0x1234`)
	require.NoError(t, ah.Destroy())
}

// 16: P_Key 0xFFFF is sent; any full or limited member of the default
// partition is accepted as the specification says; M is accepted either way.
func TestDeviation16PKeyAndMigReq(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for _, mig := range []bool{false, true} {
		for _, key := range []ib.PKey{0xFFFF, 0x7FFF} {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), func(p *ib.Packet) { p.PKey, p.MigReq = key, mig })
			require.Len(t, d.log, 1)
			require.Equal(t, ib.PKeyDefault, d.log[0].pkt.PKey)
			require.True(t, d.log[0].pkt.MigReq)
			d.log = nil
		}
	}
	for _, key := range []ib.PKey{0x8001, 0x0001, 0x0000} {
		d.send(ib.RCWriteOnly, 1, make([]byte, 8), func(p *ib.Packet) { p.PKey = key })
	}
	d.want("")
	require.EqualValues(t, 3, d.a.eng.Counters().DropPKey)
}

// 17: rxe knows no ECN and no CNP. Marks on what it sends are counted, a CNP is never an error.
func TestDeviation17Congestion(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.sendFrom(transport.RxPacket{Src: d.b.addr, Dst: d.a.addr, TrafficClass: transport.ECNCE,
		Data: d.packet(ib.RCWriteOnly, 0, make([]byte, 8))})
	require.EqualValues(t, 1, d.a.eng.Counters().CEMarkedPkts)
	require.Equal(t, "a> ACKNOWLEDGE 0 ACK msn=1", d.log[len(d.log)-1].String())
	d.log = nil
	d.send(ib.CNP, 0, nil, func(p *ib.Packet) { p.BECN, p.PSN = true, 0 })
	d.want("")
	require.EqualValues(t, 1, d.a.eng.Counters().CNPsHandled)
	d.wantState(transport.StateRTS)
}

// 18: rxe checks remote access through a window against the region only.
func TestDeviation18WindowBounds(t *testing.T) {
	for _, tc := range []struct {
		off, n int
		ok     bool
	}{{64, 64, true}, {127, 1, true}, {63, 1, false}, {128, 1, false}, {64, 65, false}} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		w, err := d.a.mem.AllocMW(d.a.pd, mem.Type2B)
		require.NoError(t, err)
		key := mem.NextRKey(w.RKey())
		d.a.post(transport.SendWR{Opcode: transport.WRBindMW, Bind: transport.BindMW{
			MW: w, Region: d.a.region, NewRKey: key, Addr: d.a.base + 64, Length: 64, Access: mem.RemoteWrite}})
		d.pump()
		d.send(ib.RCWriteOnly, 0, make([]byte, tc.n), reth(d.a.base+uint64(tc.off), key, uint32(tc.n)))
		if tc.ok {
			d.want("a> ACKNOWLEDGE 0 ACK msn=1")
		} else {
			d.want("a> ACKNOWLEDGE 0 NAK remote access error msn=0")
		}
	}
}

// 19: a full queue of the sending device ends rxe's QP. Ours does not: a
// packet that is lost before the wire is sent again.
func TestDeviation19LocalDrop(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, _ := p.connect(linkConfig{})
	p.lose(func(f *flight) bool { return f.from == a.end && f.nth == 0 })
	a.post(a.write(0, 0, 3000))
	p.run()
	a.wantWC("1 success")
}

// 20: rxe reports an error of the sender itself as flushed. Ours says which.
func TestDeviation20LocalErrors(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(with(d.a.write(0, 0, 8), func(wr *transport.SendWR) { wr.SGList[0].LKey++ }))
	d.a.post(d.a.write(0, 0, 8))
	d.want("")
	d.a.wantWC("1 local protection error", "2 Work Request Flushed Error")
	d.wantState(transport.StateErr)
}

// 21: rxe's RNR code 25 waits 61.41 ms, the specification's 61.44 ms.
func TestDeviation21RNRCode25(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.send(0, 8))
	d.want("a> SEND ONLY 0 8B A")
	d.send(ib.RCAcknowledge, 0, nil, syndrome(ib.RNRNAK(25)))
	d.wait(61430 * us)
	d.want("")
	d.wait(20 * us)
	d.want("a> SEND ONLY 0 8B A")
}

// 22: rxe 6.1 does not understand a NAK amid the responses to a READ.
func TestDeviation22NAKInReadStream(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.write(0, 0, 8))
	d.a.post(d.a.read(0, 0, 4096))
	d.pump()
	d.send(ib.RCReadRespFirst, 1, make([]byte, 1024))
	d.send(ib.RCAcknowledge, 2, nil, syndrome(ib.NAKRemoteAccess))
	d.a.wantWC("1 success", "2 remote access error")

	// As responder: memory that goes away amid a READ.
	d = newPuppet(t, pairConfig{}, linkConfig{})
	r, err := d.a.mem.Register(d.a.pd, mem.RegionAttr{Bytes: make([]byte, 1<<20), Access: mem.RemoteRead})
	require.NoError(t, err)
	rx := transport.RxPacket{Src: d.b.addr, Dst: d.a.addr,
		Data: d.packet(ib.RCReadRequest, 0, nil, reth(r.IOVA(), r.RKey(), 1<<20))}
	d.a.eng.HandlePacket(d.now, &rx)
	batch := make([]transport.TxPacket, 3)
	require.Equal(t, 3, d.a.eng.PollTransmit(d.now, batch))
	require.NoError(t, r.Deregister(nil))
	require.Equal(t, 1, d.a.eng.PollTransmit(d.now, batch))
	var pk ib.Packet
	require.Equal(t, ib.DecodeOK, pk.Decode(append(batch[0].AppendTo(nil), 0, 0, 0, 0)))
	require.Equal(t, ib.RCAcknowledge, pk.Opcode)
	require.Equal(t, ib.NAKRemoteAccess, pk.AETH.Syndrome)
	require.Equal(t, d.l.attr.SQPSN.Add(3), pk.PSN)
	d.wantState(transport.StateErr)
}

// 23: rxe notices a READ response lost in the middle by its timeout only. Ours
// takes the gap as an implied NAK.
func TestDeviation23ImpliedNAK(t *testing.T) {
	d := newPuppet(t, pairConfig{tuning: goBackN}, linkConfig{})
	d.a.post(d.a.read(0, 0, 5000))
	d.want("a> READ REQUEST 0 +0x0/5000 A")
	data := make([]byte, 1024)
	d.send(ib.RCReadRespFirst, 0, data)
	d.send(ib.RCReadRespMiddle, 2, data)
	d.send(ib.RCReadRespMiddle, 3, data)
	d.send(ib.RCReadRespLast, 4, data[:904])
	d.want("a> READ REQUEST 1 +0x400/3976 A")
	require.EqualValues(t, 1, d.a.eng.Counters().ImpliedNAKs)
	require.Zero(t, d.a.eng.Counters().Timeouts)
}

// 24: a plain ACK completes a READ or an atomic on rxe, without data. Ours
// never sends one, and never takes one for the data.
func TestDeviation24PlainAckForRead(t *testing.T) {
	for _, atomic := range []bool{false, true} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		wr := d.a.read(0, 0, 8)
		if atomic {
			wr = d.a.fetchAdd(0, 0, 1)
		}
		d.a.post(wr)
		d.pump()
		d.send(ib.RCAcknowledge, 0, nil)
		for _, wc := range d.a.poll() {
			require.NotEqual(t, transport.WCSuccess, wc.Status)
		}
	}
}

// 25: on rxe a UC message without its LAST takes the next message with it.
func TestDeviation25UCMissingLast(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{typ: ib.UC})
	d.a.recv(1, 0, 4096)
	d.a.recv(2, 4096, 4096)
	d.send(ib.UCSendFirst, 0, make([]byte, 1024))
	d.send(ib.UCSendOnly, 2, []byte("next message")) // LAST, PSN 1, was lost
	d.a.wantWC("1 success")
	require.Equal(t, "next message", string(d.a.buf[:12]), "the receive of the broken message is used again")
	d.send(ib.UCSendFirst, 3, make([]byte, 1024))
	d.send(ib.UCSendFirst, 4, append([]byte("again"), make([]byte, 1019)...)) // LAST lost, PSN in order
	d.send(ib.UCSendLast, 5, []byte("end"))
	wcs := d.a.wantWC("2 success")
	require.EqualValues(t, 1027, wcs[0].ByteLen)
	require.Equal(t, "again", string(d.a.buf[4096:4101]))
}

// 26: rxe sends flow label 0 always; it is not looked at on receive. The other
// IPv6 and IPv4 fields that do not identify the peer are not either.
func TestDeviation26HeaderFieldsIgnored(t *testing.T) {
	d := newPuppet(t, pairConfig{v6: true},
		linkConfig{attr: func(l *link, a *transport.QPAttr) { a.AV.FlowLabel = 0x12345 }})
	for i, hop := range []uint8{0, 1, 64, 255} {
		d.sendFrom(transport.RxPacket{Src: d.b.addr, Dst: d.a.addr, HopLimit: hop, TrafficClass: uint8(i) << 5,
			Data: d.packet(ib.RCWriteOnly, i, make([]byte, 8),
				func(p *ib.Packet) { p.FECN, p.BECN, p.Resv6, p.Resv7 = true, true, 63, 127 })})
	}
	d.want(`
		a> ACKNOWLEDGE 0 ACK msn=1
		a> ACKNOWLEDGE 1 ACK msn=2
		a> ACKNOWLEDGE 2 ACK msn=3
		a> ACKNOWLEDGE 3 ACK msn=4`)
}

// 27: rxe answers a READ whose response it could not send with an RNR NAK.
func TestDeviation27RNRForRead(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.read(0, 0, 2048))
	d.want("a> READ REQUEST 0 +0x0/2048 A")
	d.send(ib.RCReadRespFirst, 0, make([]byte, 1024))
	d.send(ib.RCAcknowledge, 1, nil, syndrome(ib.RNRNAK(1)))
	d.want("")
	d.wait(50 * us)
	d.want("a> READ REQUEST 1 +0x400/1024 A")
	d.send(ib.RCReadRespOnly, 1, make([]byte, 1024))
	d.a.wantWC("1 success")
	d.a.post(d.a.fetchAdd(0, 0, 1))
	d.want("a> FETCH ADD 2 +0x0 0x0,0x1 A")
	d.send(ib.RCAcknowledge, 2, nil, syndrome(ib.RNRNAK(1)))
	d.wait(50 * us)
	d.want("a> FETCH ADD 2 +0x0 0x0,0x1 A")
}
