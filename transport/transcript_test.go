package transport_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Transcripts: one operation each, every packet on the wire, every completion
// and every byte. Path MTU 1024; PSNs are relative to the first one, which is
// 0xFFFFFE, so that all but the shortest wrap.

func TestTranscriptSend(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		change func(*transport.SendWR)
		wire   string
	}{
		{"zero", 0, nil, `
			a> SEND ONLY 0 0B A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"one byte", 1, nil, `
			a> SEND ONLY 0 1B A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"exactly one MTU", 1024, nil, `
			a> SEND ONLY 0 1024B A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"a byte more", 1025, nil, `
			a> SEND FIRST 0 1024B
			a> SEND LAST 1 1B A
			b> ACKNOWLEDGE 1 ACK msn=1`},
		{"four packets", 4000, nil, `
			a> SEND FIRST 0 1024B
			a> SEND MIDDLE 1 1024B
			a> SEND MIDDLE 2 1024B
			a> SEND LAST 3 928B A
			b> ACKNOWLEDGE 3 ACK msn=1`},
		{"immediate", 3, func(wr *transport.SendWR) { wr.Opcode, wr.Imm = transport.WRSendImm, 0xDEADBEEF }, `
			a> SEND ONLY IMM 0 3B imm=0xdeadbeef A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"immediate, long, solicited", 2000, func(wr *transport.SendWR) {
			wr.Opcode, wr.Imm = transport.WRSendImm, 7
			wr.Flags |= transport.SendSolicited
		}, `
			a> SEND FIRST 0 1024B
			a> SEND LAST IMM 1 976B imm=0x7 A S
			b> ACKNOWLEDGE 1 ACK msn=1`},
		{"solicited", 9, func(wr *transport.SendWR) { wr.Flags |= transport.SendSolicited }, `
			a> SEND ONLY 0 9B A S
			b> ACKNOWLEDGE 0 ACK msn=1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPair(t, pairConfig{})
			a, b := p.connect(linkConfig{})
			want := bytes.Clone(a.fill(0, tc.size, 1))
			b.recv(77, 5000, tc.size)
			wr := a.send(0, tc.size)
			if tc.change != nil {
				tc.change(&wr)
			}
			a.post(wr)
			p.run()
			p.wantWire(tc.wire)
			require.Equal(t, want, b.buf[5000:5000+tc.size])
			sent := transport.WC{ID: 1, QPN: a.qp.Number(), Opcode: transport.WCSend, ByteLen: uint32(tc.size)}
			require.Equal(t, []transport.WC{sent}, a.poll())
			got := transport.WC{ID: 77, QPN: b.qp.Number(), Opcode: transport.WCRecv, ByteLen: uint32(tc.size)}
			if wr.Opcode == transport.WRSendImm {
				got.Flags, got.Imm = transport.WCWithImm, wr.Imm
			}
			require.Equal(t, []transport.WC{got}, b.poll())
			a.wantEvents()
			b.wantEvents()
		})
	}
}

func TestTranscriptSendInvalidate(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	w, err := b.mem.AllocMW(b.pd, mem.Type2B)
	require.NoError(t, err)
	key := mem.NextRKey(w.RKey())
	b.post(transport.SendWR{Opcode: transport.WRBindMW, Bind: transport.BindMW{
		MW: w, Region: b.region, NewRKey: key, Addr: b.base, Length: 64, Access: mem.RemoteWrite}})
	p.run()
	require.Equal(t, transport.WCBindMW, b.wantWC("1 success")[0].Opcode)
	p.wantWire("")
	b.recv(5, 0, 16)
	a.post(with(a.send(0, 16), func(wr *transport.SendWR) {
		wr.Opcode, wr.InvalidateKey = transport.WRSendInv, key
	}))
	p.run()
	p.wantWire(`
		a> SEND ONLY INV 0 16B inv A
		b> ACKNOWLEDGE 0 ACK msn=1`)
	a.wantWC("1 success")
	require.Equal(t, []transport.WC{{ID: 5, QPN: b.qp.Number(), Opcode: transport.WCRecv, ByteLen: 16,
		Flags: transport.WCWithInv, InvKey: key}}, b.poll())
	require.False(t, w.Bound())
	a.post(with(a.write(0, 0, 8), func(wr *transport.SendWR) { wr.RKey = key }))
	p.advance(10 * ms)
	a.wantWC("2 remote access error")
}

func TestTranscriptWrite(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		change func(*transport.SendWR)
		wire   string
	}{
		{"zero", 0, nil, `
			a> WRITE ONLY 0 0B +0x2000/0 A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"short", 17, nil, `
			a> WRITE ONLY 0 17B +0x2000/17 A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"four packets", 3073, nil, `
			a> WRITE FIRST 0 1024B +0x2000/3073
			a> WRITE MIDDLE 1 1024B
			a> WRITE MIDDLE 2 1024B
			a> WRITE LAST 3 1B A
			b> ACKNOWLEDGE 3 ACK msn=1`},
		{"immediate", 1024, func(wr *transport.SendWR) { wr.Opcode, wr.Imm = transport.WRWriteImm, 3 }, `
			a> WRITE ONLY IMM 0 1024B +0x2000/1024 imm=0x3 A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"immediate without data", 0, func(wr *transport.SendWR) { wr.Opcode, wr.Imm = transport.WRWriteImm, 4 }, `
			a> WRITE ONLY IMM 0 0B +0x2000/0 imm=0x4 A
			b> ACKNOWLEDGE 0 ACK msn=1`},
		{"immediate, long, solicited", 1500, func(wr *transport.SendWR) {
			wr.Opcode, wr.Imm = transport.WRWriteImm, 5
			wr.Flags |= transport.SendSolicited
		}, `
			a> WRITE FIRST 0 1024B +0x2000/1500
			a> WRITE LAST IMM 1 476B imm=0x5 A S
			b> ACKNOWLEDGE 1 ACK msn=1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPair(t, pairConfig{})
			a, b := p.connect(linkConfig{})
			want := bytes.Clone(a.fill(0, tc.size, 1))
			wr := a.write(0, 0x2000, tc.size)
			if tc.change != nil {
				tc.change(&wr)
				b.recv(77, 0, 0)
			}
			a.post(wr)
			p.run()
			p.wantWire(tc.wire)
			require.Equal(t, want, b.buf[0x2000:0x2000+tc.size])
			require.Equal(t, []transport.WC{
				{ID: 1, QPN: a.qp.Number(), Opcode: transport.WCWrite, ByteLen: uint32(tc.size)},
			}, a.poll())
			if wr.Opcode == transport.WRWriteImm {
				require.Equal(t, []transport.WC{{ID: 77, QPN: b.qp.Number(), Opcode: transport.WCRecvWriteImm,
					ByteLen: uint32(tc.size), Flags: transport.WCWithImm, Imm: wr.Imm}}, b.poll())
			} else {
				require.Empty(t, b.poll())
			}
		})
	}
}

func TestTranscriptRead(t *testing.T) {
	for _, tc := range []struct {
		name string
		size int
		wire string
	}{
		{"zero", 0, `
			a> READ REQUEST 0 +0x3000/0 A
			b> READ RESPONSE ONLY 0 0B ACK msn=1`},
		{"one packet", 1024, `
			a> READ REQUEST 0 +0x3000/1024 A
			b> READ RESPONSE ONLY 0 1024B ACK msn=1`},
		{"two packets", 1025, `
			a> READ REQUEST 0 +0x3000/1025 A
			b> READ RESPONSE FIRST 0 1024B ACK msn=1
			b> READ RESPONSE LAST 1 1B ACK msn=1`},
		{"four packets", 4096, `
			a> READ REQUEST 0 +0x3000/4096 A
			b> READ RESPONSE FIRST 0 1024B ACK msn=1
			b> READ RESPONSE MIDDLE 1 1024B
			b> READ RESPONSE MIDDLE 2 1024B
			b> READ RESPONSE LAST 3 1024B ACK msn=1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPair(t, pairConfig{})
			a, b := p.connect(linkConfig{})
			want := bytes.Clone(b.fill(0x3000, tc.size, 2))
			a.post(a.read(8, 0x3000, tc.size))
			p.run()
			p.wantWire(tc.wire)
			require.Equal(t, want, a.buf[8:8+tc.size])
			require.Equal(t, []transport.WC{
				{ID: 1, QPN: a.qp.Number(), Opcode: transport.WCRead, ByteLen: uint32(tc.size)},
			}, a.poll())
			require.Empty(t, b.poll())
		})
	}
}

func TestTranscriptAtomics(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	word := func(e *end, off int) uint64 { return binary.NativeEndian.Uint64(e.buf[off:]) }
	binary.NativeEndian.PutUint64(b.buf[64:], 100)

	a.post(a.fetchAdd(0, 64, 11))
	p.run()
	p.wantWire(`
		a> FETCH ADD 0 +0x40 0x0,0xb A
		b> ATOMIC ACKNOWLEDGE 0 ACK msn=1 was 0x64`)
	require.Equal(t, uint64(100), word(a.end, 0))
	require.Equal(t, uint64(111), word(b.end, 64))
	require.Equal(t, []transport.WC{{ID: 1, QPN: a.qp.Number(), Opcode: transport.WCFetchAdd, ByteLen: 8}}, a.poll())

	a.post(a.compareSwap(8, 64, 111, 5))
	a.post(a.compareSwap(16, 64, 111, 6))
	p.run()
	p.wantWire(`
		a> COMPARE SWAP 1 +0x40 0x6f,0x5 A
		a> COMPARE SWAP 2 +0x40 0x6f,0x6 A
		b> ATOMIC ACKNOWLEDGE 1 ACK msn=2 was 0x6f
		b> ATOMIC ACKNOWLEDGE 2 ACK msn=3 was 0x5`)
	require.Equal(t, uint64(111), word(a.end, 8))
	require.Equal(t, uint64(5), word(a.end, 16), "the second one did not match")
	require.Equal(t, uint64(5), word(b.end, 64))
	for _, wc := range a.wantWC("2 success", "3 success") {
		require.Equal(t, transport.WCCompareSwap, wc.Opcode)
	}

	a.post(a.fetchAdd(0, 64, ^uint64(0)))
	p.run()
	require.Equal(t, uint64(4), word(b.end, 64), "the sum wraps")
}

func TestTranscriptAtomicWriteAndFlush(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	copy(a.buf, "12345678")
	a.post(with(a.write(0, 128, 8), func(wr *transport.SendWR) { wr.Opcode = transport.WRAtomicWrite }))
	a.post(with(a.write(0, 136, 8), func(wr *transport.SendWR) {
		wr.Opcode, wr.SGList, wr.AtomicWriteVal = transport.WRAtomicWrite, nil,
			[8]byte{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}
	}))
	a.post(with(a.write(0, 128, 0), func(wr *transport.SendWR) {
		wr.Opcode, wr.SGList, wr.FlushLength, wr.FlushType = transport.WRFlush, nil, 16,
			ib.FlushGlobalVisibility|ib.FlushRange
	}))
	a.post(with(a.write(0, 0, 0), func(wr *transport.SendWR) {
		wr.Opcode, wr.SGList, wr.FlushType = transport.WRFlush, nil, ib.FlushGlobalVisibility|ib.FlushMR
	}))
	p.run()
	p.wantWire(`
		a> ATOMIC WRITE 0 8B +0x80/8 A
		a> ATOMIC WRITE 1 8B +0x88/8 A
		a> FLUSH 2 +0x80/16 feth=0x1 A
		a> FLUSH 3 +0x0/0 feth=0x11 A
		b> READ RESPONSE ONLY 0 0B ACK msn=1
		b> READ RESPONSE ONLY 1 0B ACK msn=2
		b> READ RESPONSE ONLY 2 0B ACK msn=3
		b> READ RESPONSE ONLY 3 0B ACK msn=4`)
	require.Equal(t, "12345678abcdefgh", string(b.buf[128:144]))
	wcs := a.wantWC("1 success", "2 success", "3 success", "4 success")
	require.Equal(t, transport.WCAtomicWrite, wcs[0].Opcode)
	require.Equal(t, transport.WCFlush, wcs[2].Opcode)
}

// A scatter/gather list on both sides, with empty elements.
func TestTranscriptScatterGather(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	want := append([]byte(nil), a.fill(0, 3000, 3)...)
	wr := transport.RecvWR{ID: 9,
		SGList: []transport.SGE{b.sge(10, 1), b.sge(0, 0), b.sge(100, 1500), b.sge(4000, 2000)}}
	require.NoError(t, b.qp.PostRecv(&wr))
	a.post(transport.SendWR{Opcode: transport.WRSend, SGList: []transport.SGE{
		a.sge(0, 500), a.sge(7, 0), a.sge(500, 24), a.sge(524, 2476),
	}})
	p.run()
	p.wantWire(`
		a> SEND FIRST 0 1024B
		a> SEND MIDDLE 1 1024B
		a> SEND LAST 2 952B A
		b> ACKNOWLEDGE 2 ACK msn=1`)
	got := append([]byte(nil), b.buf[10])
	got = append(got, b.buf[100:1600]...)
	got = append(got, b.buf[4000:5499]...)
	require.Equal(t, want, got)
	require.Zero(t, b.buf[5499])
	require.EqualValues(t, 3000, b.wantWC("9 success")[0].ByteLen)

	// The same, scattered by a READ.
	a.wantWC("1 success")
	b.fill(0x8000, 2100, 4)
	a.post(with(a.read(0, 0x8000, 0), func(wr *transport.SendWR) {
		wr.SGList = []transport.SGE{a.sge(0x1000, 1030), a.sge(0x9000, 1), a.sge(0x7000, 1069)}
	}))
	p.run()
	got = append([]byte(nil), a.buf[0x1000:0x1000+1030]...)
	got = append(got, a.buf[0x9000])
	got = append(got, a.buf[0x7000:0x7000+1069]...)
	require.Equal(t, b.buf[0x8000:0x8000+2100], got)
	a.wantWC("2 success")
}

func TestTranscriptInline(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	b.recv(1, 0, 100)
	b.recv(2, 100, 100)
	data := []byte("inline data")
	a.post(transport.SendWR{Opcode: transport.WRSend, Flags: transport.SendInline, Inline: data})
	copy(data, "overwritten")
	copy(a.buf, "registered")
	a.post(with(a.send(0, 10), func(wr *transport.SendWR) { wr.Flags |= transport.SendInline }))
	copy(a.buf, "overwritten")
	p.run()
	require.Equal(t, "inline data", string(b.buf[:11]))
	require.Equal(t, "registered", string(b.buf[100:110]))
	a.wantWC("1 success", "2 success")
}

// Unsignalled work requests complete without a CQE, and one signalled at the
// end shows that all are done.
func TestTranscriptUnsignaled(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	for i := range 5 {
		wr := a.write(0, i*8, 8)
		wr.ID = uint64(i)
		if i == 4 {
			wr.Flags = transport.SendSignaled
		}
		copy(a.buf, "12345678")
		require.NoError(t, a.qp.PostSend(0, &wr))
	}
	p.run()
	a.wantWC("4 success")
	require.Equal(t, "12345678", string(b.buf[32:40]))
}

// One acknowledgement covers all requests that were handled since the last
// time the responder could send.
func TestTranscriptCoalescedAck(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	for i := range 3 {
		a.post(a.write(0, i*8, 8))
	}
	p.transmit(a.end)
	for _, f := range p.flying {
		p.deliver(f)
	}
	p.flying = nil
	p.run()
	p.wantWire(`
		a> WRITE ONLY 0 8B +0x0/8 A
		a> WRITE ONLY 1 8B +0x8/8 A
		a> WRITE ONLY 2 8B +0x10/8 A
		b> ACKNOWLEDGE 2 ACK msn=3`)
	a.wantWC("1 success", "2 success", "3 success")
	require.EqualValues(t, 2, b.eng.Counters().CoalescedAcks)
}

// An ACK never jumps over an unanswered READ or atomic; their answers acknowledge what came before.
func TestTranscriptAckDoesNotPassRead(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, _ := p.connect(linkConfig{})
	a.post(a.write(0, 0, 8))
	a.post(a.read(64, 0, 2000))
	a.post(a.write(0, 8, 8))
	a.post(a.fetchAdd(32, 64, 1))
	a.post(a.write(0, 16, 8))
	p.transmit(a.end)
	for _, f := range p.flying {
		p.deliver(f)
	}
	p.flying = nil
	p.run()
	p.wantWire(`
		a> WRITE ONLY 0 8B +0x0/8 A
		a> READ REQUEST 1 +0x0/2000 A
		a> WRITE ONLY 3 8B +0x8/8 A
		a> FETCH ADD 4 +0x40 0x0,0x1 A
		a> WRITE ONLY 5 8B +0x10/8 A
		b> READ RESPONSE FIRST 1 1024B ACK msn=2
		b> READ RESPONSE LAST 2 976B ACK msn=2
		b> ATOMIC ACKNOWLEDGE 4 ACK msn=4 was 0x0
		b> ACKNOWLEDGE 5 ACK msn=5`)
	a.wantWC("1 success", "2 success", "3 success", "4 success", "5 success")
}

func TestTranscriptFence(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, _ := p.connect(linkConfig{})
	a.post(a.read(64, 0, 8))
	a.post(with(a.write(0, 0, 8), func(wr *transport.SendWR) { wr.Flags |= transport.SendFence }))
	a.post(with(a.write(0, 0, 8), func(wr *transport.SendWR) { wr.Flags |= transport.SendFence }))
	p.run()
	p.wantWire(`
		a> READ REQUEST 0 +0x0/8 A
		b> READ RESPONSE ONLY 0 8B ACK msn=1
		a> WRITE ONLY 1 8B +0x0/8 A
		a> WRITE ONLY 2 8B +0x0/8 A
		b> ACKNOWLEDGE 1 ACK msn=2
		b> ACKNOWLEDGE 2 ACK msn=3`)
	a.wantWC("1 success", "2 success", "3 success")
}

// No more READs and atomics are outstanding than max_rd_atomic says.
func TestTranscriptInitiatorDepth(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, _ := p.connect(linkConfig{attr: func(l *link, at *transport.QPAttr) { at.MaxRdAtomic = 2 }})
	a.post(a.read(64, 0, 8))
	a.post(a.fetchAdd(64, 0, 8))
	a.post(a.read(64, 0, 8))
	a.post(a.write(0, 0, 8))
	p.run()
	p.wantWire(`
		a> READ REQUEST 0 +0x0/8 A
		a> FETCH ADD 1 +0x0 0x0,0x8 A
		b> READ RESPONSE ONLY 0 8B ACK msn=1
		b> ATOMIC ACKNOWLEDGE 1 ACK msn=2 was 0x0
		a> READ REQUEST 2 +0x0/8 A
		a> WRITE ONLY 3 8B +0x0/8 A
		b> READ RESPONSE ONLY 2 8B ACK msn=3
		b> ACKNOWLEDGE 3 ACK msn=4`)
	a.wantWC("1 success", "2 success", "3 success", "4 success")
}

func TestTranscriptLocalInvalidate(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	w, err := b.mem.AllocMW(b.pd, mem.Type2B)
	require.NoError(t, err)
	key := mem.NextRKey(w.RKey())
	b.post(transport.SendWR{Opcode: transport.WRBindMW, Bind: transport.BindMW{
		MW: w, Region: b.region, NewRKey: key, Addr: b.base + 64, Length: 64, Access: mem.RemoteWrite}})
	p.run()
	copy(a.buf, "12345678")
	throughWindow := func(off, n int) transport.SendWR {
		return with(a.write(0, off, n), func(wr *transport.SendWR) { wr.RKey = key })
	}
	a.post(throughWindow(64, 8))
	p.run()
	require.Equal(t, "12345678", string(b.buf[64:72]))
	b.post(transport.SendWR{Opcode: transport.WRLocalInv, InvalidateKey: key})
	p.run()
	require.Equal(t, transport.WCLocalInv, b.wantWC("1 success", "2 success")[1].Opcode)
	a.post(throughWindow(64, 8))
	p.run()
	a.wantWC("1 success", "2 remote access error")
}

func TestTranscriptUC(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{typ: ib.UC})
	want := append([]byte(nil), a.fill(0, 3000, 1)...)
	b.recv(1, 5000, 3000)
	b.recv(2, 0, 0)
	a.post(a.send(0, 3000))
	a.post(with(a.write(0, 0x2000, 1500), func(wr *transport.SendWR) { wr.Opcode, wr.Imm = transport.WRWriteImm, 8 }))
	a.post(a.write(0, 0x4000, 10))
	p.run()
	p.wantWire(`
		a> SEND FIRST 0 1024B
		a> SEND MIDDLE 1 1024B
		a> SEND LAST 2 952B
		a> WRITE FIRST 3 1024B +0x2000/1500
		a> WRITE LAST IMM 4 476B imm=0x8
		a> WRITE ONLY 5 10B +0x4000/10`)
	require.Equal(t, want, b.buf[5000:8000])
	require.Equal(t, want[:1500], b.buf[0x2000:0x2000+1500])
	require.Equal(t, want[:10], b.buf[0x4000:0x4000+10])
	a.wantWC("1 success", "2 success", "3 success")
	wcs := b.wantWC("1 success", "2 success")
	require.EqualValues(t, 3000, wcs[0].ByteLen)
	require.Equal(t, transport.WCRecvWriteImm, wcs[1].Opcode)
	require.EqualValues(t, 1500, wcs[1].ByteLen)
}

func TestTranscriptUD(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := newPair(t, pairConfig{v6: v6})
		a, b := p.connect(linkConfig{typ: ib.UD})
		ah, err := a.eng.CreateAH(a.pd, transport.AddressVector{DGID: ib.GIDFromAddr(b.addr), TrafficClass: 0x20})
		require.NoError(t, err)
		a.fill(0, 1024, 1)
		for i, n := range []int{0, 5, 1024} {
			b.recv(uint64(i), 4096*i, 40+n)
			a.post(with(a.send(0, n), func(wr *transport.SendWR) {
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.Number(), 0x11111111
				if i == 1 {
					wr.Opcode, wr.Imm = transport.WRSendImm, 99
				}
			}))
		}
		p.run()
		p.wantWire(`
			a> SEND ONLY 0 0B qkey=0x11111111
			a> SEND ONLY IMM 1 5B qkey=0x11111111 imm=0x63
			a> SEND ONLY 2 1024B qkey=0x11111111`)
		a.wantWC("1 success", "2 success", "3 success")
		for i, wc := range b.wantWC("0 success", "1 success", "2 success") {
			n := []int{0, 5, 1024}[i]
			require.EqualValues(t, 40+n, wc.ByteLen)
			require.Equal(t, a.qp.Number(), wc.SrcQP)
			require.NotZero(t, wc.Flags&transport.WCWithGRH)
			require.Equal(t, a.buf[:n], b.buf[4096*i+40:4096*i+40+n])
			grh := b.buf[4096*i : 4096*i+40]
			src, dst := ib.GIDFromAddr(a.addr), ib.GIDFromAddr(b.addr)
			if v6 {
				require.Equal(t, src[:], grh[8:24])
				require.Equal(t, dst[:], grh[24:40])
			} else {
				require.Equal(t, make([]byte, 20), grh[:20], "an IPv4 header is in the second half")
				require.Equal(t, byte(0x45), grh[20])
				require.Equal(t, src[12:], grh[32:36])
				require.Equal(t, dst[12:], grh[36:40])
			}
		}
		require.NoError(t, ah.Destroy())
	}
}

// Both directions at once, and IPv6.
func TestTranscriptBothWays(t *testing.T) {
	p := newPair(t, pairConfig{v6: true})
	a, b := p.connect(linkConfig{})
	a.fill(0, 5000, 1)
	b.fill(0, 5000, 2)
	a.post(a.write(0, 0x10000, 5000))
	b.post(b.write(0, 0x10000, 5000))
	a.post(a.read(0x20000, 0, 5000))
	b.post(b.read(0x20000, 0, 5000))
	p.run()
	for _, l := range []*link{a, b} {
		l.wantWC("1 success", "2 success")
		require.Equal(t, l.peer().buf[:5000], l.buf[0x10000:0x10000+5000])
		require.Equal(t, l.peer().buf[:5000], l.buf[0x20000:0x20000+5000])
	}
}
