package transport_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/edge"
)

// Drills for the project's implementation rules (wire notes, part 13) that are the engine's. Rules
// 4, 9 and 10 have more in deviations_test.go, the ICRC and CM rules belong to other packages.

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
		require.True(t, k.Opcode.Info().Payload.Admits(len(k.Payload), 1024), "%v with %d bytes",
			k.Opcode, len(k.Payload))
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
		Src: a.addr, Dst: a.peer().addr, SrcPort: 50885, FlowLabel: 0x286CF, Light: true,
		TrafficClass: 0x68 | transport.ECT0, HopLimit: 7, LinkState: edge.LinkState{Link: "prepared by the link"},
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
		d.send(ib.RCWriteOnly, psn, []byte(text), reth(d.a.base+uint64(8*psn), d.a.region.RKey(), uint32(len(text))))
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
	require.EqualValues(t, 1, binary.NativeEndian.Uint64(d.a.buf[1024:]))
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

// Rule 12: one sequence NAK for a gap, repeated after SeqNAKRearm since it may have been lost.
func TestRuleSequenceNAKRearm(t *testing.T) {
	d := newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{SeqNAKRearm: 3 * ms, GoBackN: true}}}, linkConfig{})
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
	d := newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{FatalLinger: 50 * ms}}}, linkConfig{})
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
