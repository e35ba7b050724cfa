package transport_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Drills for the project's implementation rules (wire notes, part 13) that are
// the engine's. Rules 4, 9 and 10 have more in deviations_test.go, the ICRC
// and CM rules belong to other packages.

// Rule 2: what every packet carries.
func TestRuleFixedFields(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	p.onSend = func(f *flight) {
		k := &f.pkt
		require.Equal(t, ib.PKeyDefault, k.PKey)
		require.True(t, k.MigReq, "M is sent 1")
		require.False(t, k.FECN || k.BECN)
		require.Zero(t, k.TVer|k.Resv6|k.Resv7)
		require.Equal(t, uint8(ib.PadFor(len(k.Payload))), k.Pad)
		for _, z := range f.data[len(f.data)-ib.ICRCBytes-int(k.Pad) : len(f.data)-ib.ICRCBytes] {
			require.Zero(t, z, "padding")
		}
		require.True(t, k.Opcode.Info().Payload.Admits(len(k.Payload), 1024), "%v with %d bytes", k.Opcode, len(k.Payload))
		if k.Opcode.Info().Response {
			require.False(t, k.AckReq)
		}
		if k.Opcode == ib.RCReadRequest || k.Opcode.Info().Payload == ib.PayloadNone {
			require.Empty(t, k.Payload)
		}
		if k.Opcode.Has(ib.HasAETH) && k.AETH.Syndrome.Kind() == ib.SyndromeACK {
			require.Equal(t, ib.ACKNoCredits, k.AETH.Syndrome)
		}
	}
	b.recv(1, 0, 5000)
	for n := range 8 {
		a.post(a.write(n, 64, n))
		a.post(a.read(0, n, 2047+n))
	}
	a.post(a.send(0, 4999))
	a.post(a.fetchAdd(0, 0, 1))
	a.post(a.compareSwap(0, 0, 1, 1))
	p.run()
	require.Len(t, a.poll(), 19)
}

// The way of a packet follows the address vector, and stays the same object.
func TestPath(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, _ := p.connect(linkConfig{attr: func(l *link, at *transport.QPAttr) {
		at.AV.TrafficClass, at.AV.HopLimit, at.AV.FlowLabel = 0x68|transport.ECT0, 7, 0x286CF
	}})
	batch := make([]transport.TxPacket, 1)
	var first *transport.Path
	for range 3 {
		a.post(a.write(0, 0, 8))
		require.Equal(t, 1, a.eng.PollTransmit(p.now, batch))
		path := batch[0].Path
		if first == nil {
			first = path
			path.Link = "prepared by the link"
		}
		require.Same(t, first, path)
		require.Equal(t, "prepared by the link", path.Link)
		require.Equal(t, a.qp.Number(), batch[0].SrcQP)
	}
	require.Equal(t, transport.Path{
		Src: a.addr, Dst: a.peer().addr, SrcPort: 50885, FlowLabel: 0x286CF,
		TrafficClass: 0x68 | transport.ECT0, HopLimit: 7, Link: "prepared by the link",
	}, *first)
}

// Rule 3: AckReq on the last packet of each message and at least every
// AckReqInterval packets, and no more than the window without an answer.
func TestRuleAckReqAndWindow(t *testing.T) {
	for _, window := range []int{1, 3, 16, 100} {
		d := newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{AckReqInterval: 10}}},
			linkConfig{attr: func(l *link, a *transport.QPAttr) { a.MaxUnackedPackets = window }})
		d.a.post(d.a.write(0, 0, 300*1024))
		acked, quiet := -1, 0
		for range 1000 {
			d.pump()
			d.drain()
			if len(d.log) == 0 {
				break
			}
			for _, f := range d.log {
				if quiet++; f.pkt.AckReq {
					quiet = 0
				}
				require.LessOrEqual(t, quiet, 10)
				require.LessOrEqual(t, f.rel-acked, window)
			}
			last := d.log[len(d.log)-1]
			require.True(t, last.pkt.AckReq, "a sender that stops for the window has asked for an ACK: %v", last)
			d.log = nil
			acked = last.rel
			d.send(ib.RCAcknowledge, acked, nil)
		}
		require.Equal(t, 299, acked)
		d.a.wantWC("1 success")
	}
}

// Rule 4: one go-back-N for each loss, however many NAKs tell of it.
func TestRuleOneGoBackPerLoss(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for range 6 {
		d.a.post(d.a.write(0, 0, 8))
	}
	d.pump()
	d.drain()
	d.log = nil
	for range 5 {
		d.send(ib.RCAcknowledge, 2, nil, syndrome(ib.NAKSequence))
	}
	d.want(`
		a> WRITE ONLY 2 8B +0x0/8 A
		a> WRITE ONLY 3 8B +0x0/8 A
		a> WRITE ONLY 4 8B +0x0/8 A
		a> WRITE ONLY 5 8B +0x0/8 A`)
	d.a.wantWC("1 success", "2 success")
	c := d.a.eng.Counters()
	require.EqualValues(t, 1, c.CompleterRetryErr)
	require.EqualValues(t, 4, c.RetransmittedPkts)
	require.EqualValues(t, 5, c.RcvdSeqErr)
	// Progress, and then another loss: that one counts.
	d.send(ib.RCAcknowledge, 3, nil)
	d.send(ib.RCAcknowledge, 4, nil, syndrome(ib.NAKSequence))
	d.want(`
		a> WRITE ONLY 4 8B +0x0/8 A
		a> WRITE ONLY 5 8B +0x0/8 A`)
}

// Rule 7: a packet counts only from the peer's address to ours. Nothing else
// of the header is looked at.
func TestRuleSourceCheck(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	data := d.packet(ib.RCWriteOnly, 0, []byte("evil"))
	other := d.a.addr.Next().Next()
	for _, rx := range []transport.RxPacket{
		{Src: other, Dst: d.a.addr, Data: data}, {Src: d.b.addr, Dst: other, Data: data},
		{Src: d.a.addr, Dst: d.a.addr, Data: data}, {Dst: d.a.addr, Data: data}, {Src: d.b.addr, Data: data},
	} {
		d.sendFrom(rx)
	}
	d.want("")
	require.EqualValues(t, 5, d.a.eng.Counters().DropAddress)
	require.Zero(t, d.a.buf[0])
	d.sendRaw(data)
	d.want("a> ACKNOWLEDGE 0 ACK msn=1")
}

// Rule 11: any ACK of a duplicate lies at or after it, and never beyond a READ
// or atomic that was not answered.
func TestRuleDuplicates(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	write := func(psn int, text string) {
		d.send(ib.RCWriteOnly, psn, []byte(text), reth(d.a.base+uint64(8*psn), d.a.region.RKey(), len(text)))
	}
	add := func(psn int) {
		d.send(ib.RCFetchAdd, psn, nil, func(p *ib.Packet) { p.Atomic.VA, p.Atomic.SwapAdd = d.a.base+1024, 1 })
	}
	d.a.recv(1, 0x4000, 64)
	write(0, "write 0.")
	d.readReq(1, 0x2000, 3000) // PSNs 1 to 3
	add(4)
	d.send(ib.RCSendOnly, 5, []byte("a message"))
	write(6, "write 6.")
	d.want(`
		a> ACKNOWLEDGE 0 ACK msn=1
		a> READ RESPONSE FIRST 1 1024B ACK msn=2
		a> READ RESPONSE MIDDLE 2 1024B
		a> READ RESPONSE LAST 3 952B ACK msn=2
		a> ATOMIC ACKNOWLEDGE 4 ACK msn=3 was 0x0
		a> ACKNOWLEDGE 5 ACK msn=4
		a> ACKNOWLEDGE 6 ACK msn=5`)
	d.a.fill(0x2000, 3000, 5)
	// All again: not executed again, answered again.
	write(0, "rewrite.")
	d.readReq(1, 0x2000, 3000)
	add(4)
	d.send(ib.RCSendOnly, 5, []byte("A MESSAGE"))
	write(6, "rewrite.")
	require.Equal(t, "write 0.", string(d.a.buf[:8]))
	require.Equal(t, "write 6.", string(d.a.buf[48:56]))
	require.EqualValues(t, 1, d.a.buf[1024])
	require.Equal(t, "a message", string(d.a.buf[0x4000:0x4009]))
	d.a.wantWC("1 success")
	var read []byte
	for _, f := range d.log {
		k := &f.pkt
		if k.Opcode.Info().Op == ib.OpReadResponse {
			read = append(read, k.Payload...)
		}
	}
	require.Equal(t, d.a.buf[0x2000:0x2000+3000], read, "a READ is executed again")
	d.log = nil
	// A part of the READ: as FIRST or ONLY, even from the last packet.
	d.readReq(2, 0x2000+1024, 1976)
	d.readReq(3, 0x2000+2048, 952)
	d.readReq(2, 0x2000+1024, 1024)
	d.want(`
		a> READ RESPONSE FIRST 2 1024B ACK msn=2
		a> READ RESPONSE LAST 3 952B ACK msn=2
		a> READ RESPONSE ONLY 3 952B ACK msn=2
		a> READ RESPONSE ONLY 2 1024B ACK msn=2`)
	// A duplicate that asks for more than the original did is not served.
	d.readReq(1, 0x2000, 4096)
	d.readReq(1, 0x1000, 3000)
	d.send(ib.RCReadRequest, 1, nil, reth(d.a.base+0x2000, d.a.region.RKey()+1, 3000))
	d.want("")
	write(7, "goes on.")
	d.want("a> ACKNOWLEDGE 7 ACK msn=6")
	require.EqualValues(t, 11, d.a.eng.Counters().DuplicateRequest)
}

// Rule 12: one sequence NAK for a gap, repeated after SeqNAKRearmNs since it
// may have been lost.
func TestRuleSequenceNAKRearm(t *testing.T) {
	d := newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{SeqNAKRearmNs: 3 * ms}}}, linkConfig{})
	write := func(psn int) { d.send(ib.RCWriteOnly, psn, make([]byte, 8)) }
	write(0)
	d.want("a> ACKNOWLEDGE 0 ACK msn=1")
	for psn := 2; psn < 20; psn++ {
		write(psn)
	}
	d.want("a> ACKNOWLEDGE 1 NAK PSN sequence error msn=1")
	d.wait(2 * ms)
	write(20)
	d.want("")
	d.wait(2 * ms)
	write(21)
	d.want("a> ACKNOWLEDGE 1 NAK PSN sequence error msn=1")
	write(1)
	write(2)
	write(4) // another gap: told at once
	d.want(`
		a> ACKNOWLEDGE 1 ACK msn=2
		a> ACKNOWLEDGE 2 ACK msn=3
		a> ACKNOWLEDGE 3 NAK PSN sequence error msn=3`)
}

// Rule 14: after a fatal NAK duplicates of what failed get the same NAK for a
// time, and then nothing.
func TestRuleFatalLinger(t *testing.T) {
	d := newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{FatalLingerNs: 50 * ms}}}, linkConfig{})
	d.a.recv(9, 0, 64)
	bad := func() { d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(d.a.base, d.a.region.RKey()+1, 8)) }
	bad()
	d.want("a> ACKNOWLEDGE 0 NAK remote access error msn=0")
	d.wantState(transport.StateErr)
	d.a.wantWC("9 Work Request Flushed Error")
	d.a.wantEvents(transport.EventQPAccessError)
	for range 4 {
		d.wait(10 * ms)
		bad()
		d.want("a> ACKNOWLEDGE 0 NAK remote access error msn=0")
		d.send(ib.RCSendOnly, 1, []byte("later request"))
		d.want("")
	}
	d.wait(20 * ms)
	bad()
	d.want("")
	require.Zero(t, d.a.buf[0])
}

// Rule 15 and IBTA 9.7.5.2.4: which NAK for which mistake.
func TestRuleNAKClasses(t *testing.T) {
	readOnly := func(d *puppet) *mem.Region {
		r, err := d.a.mem.Register(d.a.pd, mem.RegionAttr{Bytes: make([]byte, 4096), Access: mem.RemoteRead})
		require.NoError(t, err)
		return r
	}
	foreign := func(d *puppet) *mem.Region {
		pd, err := d.a.mem.AllocPD()
		require.NoError(t, err)
		r, err := d.a.mem.Register(pd, mem.RegionAttr{Bytes: make([]byte, 4096), Access: allAccess})
		require.NoError(t, err)
		return r
	}
	writeTo := func(r func(*puppet) *mem.Region, off uint64, n int) func(d *puppet) {
		return func(d *puppet) {
			reg := r(d)
			d.send(ib.RCWriteOnly, 0, make([]byte, n), reth(reg.IOVA()+off, reg.RKey(), n))
		}
	}
	own := func(d *puppet) *mem.Region { return d.a.region }
	atomic := func(off uint64, op ib.Opcode) func(d *puppet) {
		return func(d *puppet) { d.send(op, 0, nil, func(p *ib.Packet) { p.Atomic.VA += off }) }
	}
	const (
		invalid = "a> ACKNOWLEDGE 0 NAK invalid request msn=0"
		access  = "a> ACKNOWLEDGE 0 NAK remote access error msn=0"
	)
	for _, tc := range []struct {
		name string
		do   func(d *puppet)
		want string
		ev   transport.EventType
	}{
		{"MIDDLE without FIRST", func(d *puppet) { d.send(ib.RCSendMiddle, 0, make([]byte, 1024)) }, invalid, transport.EventQPRequestError},
		{"LAST without FIRST", func(d *puppet) { d.send(ib.RCWriteLast, 0, make([]byte, 8)) }, invalid, transport.EventQPRequestError},
		{"ONLY above the MTU", func(d *puppet) { d.send(ib.RCWriteOnly, 0, make([]byte, 1028)) }, invalid, transport.EventQPRequestError},
		{"ONLY shorter than its RETH", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(d.a.base, d.a.region.RKey(), 9))
		}, invalid, transport.EventQPRequestError},
		{"ONLY longer than its RETH", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(d.a.base, d.a.region.RKey(), 7))
		}, invalid, transport.EventQPRequestError},
		{"RETH above 2^31", func(d *puppet) {
			d.send(ib.RCWriteFirst, 0, make([]byte, 1024), reth(d.a.base, d.a.region.RKey(), 1<<31+1))
		}, invalid, transport.EventQPRequestError},
		{"READ above 2^31", func(d *puppet) { d.readReq(0, 0, 1<<31+1) }, invalid, transport.EventQPRequestError},
		{"READ with a payload", func(d *puppet) {
			d.send(ib.RCReadRequest, 0, make([]byte, 4), reth(d.a.base, d.a.region.RKey(), 4))
		}, invalid, transport.EventQPRequestError},
		{"misaligned atomic", atomic(4, ib.RCFetchAdd), invalid, transport.EventQPRequestError},
		{"misaligned ATOMIC WRITE", func(d *puppet) {
			d.send(ib.RCAtomicWrite, 0, make([]byte, 8), reth(d.a.base+4, d.a.region.RKey(), 8))
		}, invalid, transport.EventQPRequestError},
		{"ATOMIC WRITE of 4 bytes", func(d *puppet) {
			d.send(ib.RCAtomicWrite, 0, make([]byte, 4), reth(d.a.base, d.a.region.RKey(), 4))
		}, invalid, transport.EventQPRequestError},
		{"no such key", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(d.a.base, 0x1234, 8))
		}, access, transport.EventQPAccessError},
		{"right not granted", writeTo(readOnly, 0, 8), access, transport.EventQPAccessError},
		{"another PD", writeTo(foreign, 0, 8), access, transport.EventQPAccessError},
		{"past the end", writeTo(own, bufBytes-4, 8), access, transport.EventQPAccessError},
		{"before the start", writeTo(own, ^uint64(0), 8), access, transport.EventQPAccessError},
		{"address wraps", func(d *puppet) {
			d.readReq(0, 0, 8, reth(^uint64(3), d.a.region.RKey(), 8))
		}, access, transport.EventQPAccessError},
		{"length wraps", func(d *puppet) {
			d.readReq(0, 0, 8, reth(^uint64(0)-1<<30, d.a.region.RKey(), 1<<31))
		}, access, transport.EventQPAccessError},
		{"atomic past the end", atomic(bufBytes, ib.RCCompareSwap), access, transport.EventQPAccessError},
		{"payload with RETH length 0", func(d *puppet) {
			d.send(ib.RCWriteOnly, 0, make([]byte, 8), reth(0, 0, 0))
		}, invalid, transport.EventQPRequestError},
		{"FLUSH to persistence, which the QP lacks", func(d *puppet) {
			d.send(ib.RCFlush, 0, nil, reth(d.a.base, d.a.region.RKey(), 8), func(p *ib.Packet) { p.FETH = ib.FlushPersistence })
		}, invalid, transport.EventQPRequestError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newPuppet(t, pairConfig{}, linkConfig{})
			d.a.recv(1, 0, 64)
			tc.do(d)
			d.want(tc.want)
			d.wantState(transport.StateErr)
			require.NotEqual(t, transport.WCSuccess, d.a.poll()[0].Status)
			d.a.wantEvents(tc.ev)
			require.True(t, bytes.Equal(d.a.buf, make([]byte, bufBytes)), "nothing was written")
		})
	}
}

// Operations that the QP does not allow are invalid requests (wire notes 5.3).
func TestRuleQPAccess(t *testing.T) {
	for _, tc := range []struct {
		name   string
		access mem.Access
		op     ib.Opcode
		data   int
	}{
		{"READ", allAccess &^ (mem.MWBind | mem.RemoteRead), ib.RCReadRequest, 0},
		{"WRITE", allAccess &^ (mem.MWBind | mem.RemoteWrite), ib.RCWriteOnly, 8},
		{"ATOMIC WRITE", allAccess &^ (mem.MWBind | mem.RemoteWrite), ib.RCAtomicWrite, 8},
		{"FETCH ADD", allAccess &^ (mem.MWBind | mem.RemoteAtomic), ib.RCFetchAdd, 0},
		{"COMPARE SWAP", allAccess &^ (mem.MWBind | mem.RemoteAtomic), ib.RCCompareSwap, 0},
		{"FLUSH", allAccess &^ (mem.MWBind | mem.FlushGlobal), ib.RCFlush, 0},
	} {
		d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.Access = tc.access }})
		d.send(tc.op, 0, make([]byte, tc.data), reth(d.a.base, d.a.region.RKey(), 8), func(p *ib.Packet) { p.FETH = ib.FlushGlobalVisibility })
		require.Len(t, d.log, 1, tc.name)
		require.Equal(t, ib.NAKInvalidRequest, d.log[0].pkt.AETH.Syndrome, tc.name)
		d.wantState(transport.StateErr)
	}
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.MaxDestRdAtomic = 0 }})
	d.readReq(0, 0, 8)
	d.want("a> ACKNOWLEDGE 0 NAK invalid request msn=0")
}

// Retry counts: with retry_cnt n the (n+1)th timeout fails the request, and
// an answer starts the count anew (IBTA 9.9.2.1.1, C9-140).
func TestRetryCounts(t *testing.T) {
	for n := range uint8(8) {
		d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.RetryCnt = n }})
		d.a.post(d.a.write(0, 0, 8))
		d.wait(second)
		d.a.wantWC("1 transport retry counter exceeded")
		require.Len(t, d.log, int(n)+1)
		for i := 1; i < len(d.log); i++ {
			require.GreaterOrEqual(t, d.log[i].sent-d.log[i-1].sent, ib.TimeoutCode(8).Ns())
		}
	}
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.RetryCnt = 1 }})
	for range 5 {
		d.a.post(d.a.write(0, 0, 8))
	}
	d.pump()
	for i := range 5 {
		d.wait(3 * ms / 2) // one timeout each
		d.send(ib.RCAcknowledge, i, nil)
	}
	require.Len(t, d.a.poll(), 5)
}

func TestRNRRetryCounts(t *testing.T) {
	for n := range uint8(8) {
		d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.RNRRetry = n }})
		d.a.post(d.a.send(0, 8))
		tries := 0
		for range 50 {
			d.pump()
			d.drain()
			if len(d.log) == 0 {
				break
			}
			d.log = nil
			tries++
			d.send(ib.RCAcknowledge, 0, nil, syndrome(ib.RNRNAK(1)))
			d.wait(20 * us)
		}
		if n == transport.RNRRetryForever {
			require.Equal(t, 50, tries)
			require.Empty(t, d.a.poll())
			continue
		}
		require.Equal(t, int(n)+1, tries)
		d.a.wantWC("1 RNR retry counter exceeded")
		require.EqualValues(t, 1, d.a.eng.Counters().RetryRNRExceededErr)
	}
}

// Timeout 0 is no timer at all.
func TestTimeoutZero(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.Timeout = 0 }})
	d.a.post(d.a.write(0, 0, 8))
	d.wait(1000 * second)
	require.Len(t, d.log, 1)
	require.Empty(t, d.a.poll())
}

// SQD: what was begun is finished, nothing new starts (IBTA 10.3.1.6).
func TestSQDrain(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{attr: func(l *link, a *transport.QPAttr) { a.MaxUnackedPackets = 2 }})
	d.a.post(d.a.write(0, 0, 4096))
	d.a.post(d.a.write(0, 0, 8))
	d.want(`
		a> WRITE FIRST 0 1024B +0x0/4096 A
		a> WRITE MIDDLE 1 1024B A`)
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateSQD, EnSQDAsyncNotify: true},
		transport.AttrState|transport.AttrEnSQDNotify))
	d.a.post(d.a.write(0, 0, 8))
	at, _ := d.a.qp.Query()
	require.True(t, at.SQDraining)
	d.send(ib.RCAcknowledge, 1, nil)
	d.want(`
		a> WRITE MIDDLE 2 1024B A
		a> WRITE LAST 3 1024B A`)
	d.a.wantEvents()
	d.send(ib.RCAcknowledge, 3, nil)
	d.want("")
	d.a.wantEvents(transport.EventSQDrained)
	d.a.wantWC("1 success")
	// As responder it goes on.
	d.send(ib.RCWriteOnly, 0, make([]byte, 8))
	d.want("a> ACKNOWLEDGE 0 ACK msn=1")
	d.a.wantEvents()
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateRTS}, transport.AttrState))
	d.want(`
		a> WRITE ONLY 4 8B +0x0/8 A
		a> WRITE ONLY 5 8B +0x0/8 A`)
	d.send(ib.RCAcknowledge, 5, nil)
	d.a.wantWC("2 success", "3 success")
}

// Modify to ERR flushes both queues, each in its order, whatever their state.
func TestModifyToErrFlushesInOrder(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for i := range 5 {
		d.a.recv(uint64(100+i), 2048*i, 2048)
	}
	d.send(ib.RCSendFirst, 0, make([]byte, 1024))
	d.a.post(d.a.write(0, 0, 8))
	d.a.post(d.a.read(0, 0, 4000))
	d.pump()
	wr := d.a.write(0, 0, 8)
	wr.ID = 44
	require.NoError(t, d.a.qp.PostSend(d.now, &wr), "not signaled")
	d.pump()
	d.drain()
	d.log = nil
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateErr}, transport.AttrState))
	const flushed = " Work Request Flushed Error"
	d.a.wantWC("1"+flushed, "2"+flushed, "44"+flushed,
		"100"+flushed, "101"+flushed, "102"+flushed, "103"+flushed, "104"+flushed)
	d.a.post(d.a.write(0, 0, 8))
	d.a.recv(105, 0, 8)
	d.a.wantWC("3"+flushed, "105"+flushed)
	d.send(ib.RCSendMiddle, 1, make([]byte, 1024))
	d.wait(second)
	d.want("")
	d.a.wantEvents()
	// RESET, and the QP can be used anew.
	require.NoError(t, d.a.qp.Modify(d.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState))
	d.a.bringUp(transport.StateRTS)
	d.a.recv(106, 0, 8)
	d.send(ib.RCSendOnly, 0, []byte("again"))
	d.want("a> ACKNOWLEDGE 0 ACK msn=1")
	d.a.post(d.a.write(0, 0, 8))
	d.want("a> WRITE ONLY 0 8B +0x0/8 A")
	d.a.wantWC("106 success")
}
