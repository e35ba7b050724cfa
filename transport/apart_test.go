package transport_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// Where packets of one length share datagrams a WRITE of several packets leaves as a message for
// each. The program sees one request.
func TestWriteApart(t *testing.T) {
	p := newPair(t, pairConfig{gso: [2]bool{true, false}})
	a, b := p.connect(linkConfig{})
	src := a.fill(0, 3000, 1)
	a.post(a.write(0, 0x100, 3000))
	p.run()
	p.wantWire(`
		a> WRITE ONLY 0 1024B +0x100/1024
		a> WRITE ONLY 1 1024B +0x500/1024
		a> WRITE ONLY 2 952B +0x900/952 A
		b> ACKNOWLEDGE 2 ACK msn=3`)
	require.True(t, bytes.Equal(src, b.buf[0x100:][:3000]))
	wcs := a.poll()
	require.Len(t, wcs, 1)
	require.EqualValues(t, 3000, wcs[0].ByteLen)

	// The other end does not, nor do other operations, nor are WRITEs changed that are
	// one packet or very many.
	b.post(b.write(0, 0x100, 2048))
	a.post(a.write(0, 0x100, 1000))
	wr := a.write(0, 0x100, 2000)
	wr.Opcode, wr.Imm = transport.WRWriteImm, 5
	b.recv(1, 0, 0)
	a.post(wr)
	p.run()
	p.wantWire(`
		a> WRITE ONLY 3 1000B +0x100/1000 A
		a> WRITE FIRST 4 1024B +0x100/2000
		a> WRITE LAST IMM 5 976B imm=0x5 A
		b> WRITE FIRST 0 1024B +0x100/2048
		b> WRITE LAST 1 1024B A
		b> ACKNOWLEDGE 3 ACK msn=4
		b> ACKNOWLEDGE 5 ACK msn=5
		a> ACKNOWLEDGE 1 ACK msn=1`)
	a.post(a.write(0, 0x100, 65*1024))
	p.run()
	require.Equal(t, ib.RCWriteFirst, p.log[0].pkt.Opcode)
}

// Who wants to see messages as the specification divides them gets them so.
func TestWholeMessages(t *testing.T) {
	p := newPair(t, pairConfig{gso: [2]bool{true, true}, tuning: [2]transport.Tuning{{WholeMessages: true}, {}}})
	a, _ := p.connect(linkConfig{})
	a.post(a.write(0, 0x100, 2000))
	p.run()
	p.wantWire(`
		a> WRITE FIRST 0 1024B +0x100/2000
		a> WRITE LAST 1 976B A
		b> ACKNOWLEDGE 1 ACK msn=1`)
}

// A packet that is lost is sent again, with what follows, from the middle of the request.
func TestWriteApartLoss(t *testing.T) {
	p := newPair(t, pairConfig{gso: [2]bool{true, true}, tuning: goBackN})
	a, b := p.connect(linkConfig{})
	p.onSend = func(f *flight) { f.lost = f.is(p.ends[0], ib.RCWriteOnly, 1, 0) }
	src := a.fill(0, 4096, 1)
	a.post(a.write(0, 0, 4096))
	p.run()
	p.wantWire(`
		a> WRITE ONLY 0 1024B +0x0/1024
		a> WRITE ONLY 1 1024B +0x400/1024 (lost)
		a> WRITE ONLY 2 1024B +0x800/1024
		a> WRITE ONLY 3 1024B +0xc00/1024 A
		b> ACKNOWLEDGE 1 NAK PSN sequence error msn=1
		a> WRITE ONLY 1 1024B +0x400/1024
		a> WRITE ONLY 2 1024B +0x800/1024
		a> WRITE ONLY 3 1024B +0xc00/1024 A
		b> ACKNOWLEDGE 3 ACK msn=4`)
	require.True(t, bytes.Equal(src, b.buf[:4096]))
}

// Credits count messages, and a WRITE that is several of them counts for so many: the SENDs behind
// it have no more credits than they were given, and when there are any, WRITEs stay whole.
func TestWriteApartCredits(t *testing.T) {
	credits := transport.Tuning{EndToEndCredits: true}
	p := newPair(t, pairConfig{gso: [2]bool{true, false}, tuning: [2]transport.Tuning{{}, credits}})
	a, b := p.connect(linkConfig{})
	b.recv(1, 0, 64)
	b.recv(2, 0, 64)
	a.post(a.write(0, 0, 4096))
	p.run()
	p.log = p.log[:0]
	a.post(a.write(0, 0, 2048))
	for range 3 {
		a.post(a.send(0, 8))
	}
	p.pump()
	var ops []ib.Opcode
	for _, f := range p.log {
		ops = append(ops, f.pkt.Opcode)
	}
	require.Equal(t, []ib.Opcode{ib.RCWriteFirst, ib.RCWriteLast, ib.RCSendOnly}, ops,
		"two credits, of which the WRITE takes one until it is acknowledged")
	b.recv(3, 0, 64)
	p.run()
	require.Len(t, a.poll(), 5)
	require.Len(t, b.poll(), 3)
	require.Zero(t, a.eng.Counters().RcvdRNRErr)
}

// A READ is asked for packet by packet if responses come in runs, as the last one did, and the
// depth has room for many such.
func TestReadApart(t *testing.T) {
	p := newPair(t, pairConfig{gso: [2]bool{false, true}, tuning: goBackN})
	depth := uint8(16)
	a, b := p.connect(linkConfig{
		attr: func(l *link, at *transport.QPAttr) { at.MaxRdAtomic, at.MaxDestRdAtomic = depth, depth },
	})
	want := b.fill(0, 4096, 1)
	read := func(n int) {
		a.post(a.read(0x1000, 0, n))
		p.run()
		require.True(t, bytes.Equal(want[:n], a.buf[0x1000:][:n]))
		wcs := a.poll()
		require.Len(t, wcs, 1)
		require.EqualValues(t, n, wcs[0].ByteLen)
		clear(a.buf[0x1000:][:n])
	}
	read(2048)
	p.wantWire(`
		a> READ REQUEST 0 +0x0/2048 A
		b> READ RESPONSE FIRST 0 1024B ACK msn=1
		b> READ RESPONSE LAST 1 1024B ACK msn=1`)
	read(2000)
	p.wantWire(`
		a> READ REQUEST 2 +0x0/1024 A
		a> READ REQUEST 3 +0x400/976 A
		b> READ RESPONSE ONLY 2 1024B ACK msn=2
		b> READ RESPONSE ONLY 3 976B ACK msn=3`)
	read(3000)
	p.wantWire(`
		a> READ REQUEST 4 +0x0/3000 A
		b> READ RESPONSE FIRST 4 1024B ACK msn=4
		b> READ RESPONSE MIDDLE 5 1024B
		b> READ RESPONSE LAST 6 952B ACK msn=4`)

	// One that is lost is asked for again, with what follows.
	p.onSend = func(f *flight) { f.lost = f.is(p.ends[1], ib.RCReadRespOnly, 7, 0) }
	read(2048)
	p.wantWire(`
		a> READ REQUEST 7 +0x0/1024 A
		a> READ REQUEST 8 +0x400/1024 A
		b> READ RESPONSE ONLY 7 1024B ACK msn=5 (lost)
		b> READ RESPONSE ONLY 8 1024B ACK msn=6
		a> READ REQUEST 7 +0x0/1024 A
		a> READ REQUEST 8 +0x400/1024 A
		b> READ RESPONSE ONLY 7 1024B ACK msn=5
		b> READ RESPONSE ONLY 8 1024B ACK msn=6`)
}
