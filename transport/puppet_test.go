package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// A puppet is a pair whose second end the test plays packet by packet: a peer
// that is hostile, broken, or rdma_rxe. The log shows what the engine sent.
type puppet struct {
	*pair
	a *link // the engine under test
	b *end  // the memory that the puppet claims to have
	l *link // the puppet's attributes
}

func newPuppet(t testing.TB, pc pairConfig, lc linkConfig) *puppet {
	t.Helper()
	pc.puppet = true
	p := newPair(t, pc)
	a, b := p.connect(lc)
	p.conns[connKey{1, puppetQPN}] = &conn{rqPSN: b.attr.RQPSN, sqPSN: b.attr.SQPSN, seen: map[sending]int{}}
	return &puppet{p, a, b.end, b}
}

// packet makes a packet of the puppet; psn is relative to the first PSN of its
// direction. The changes see the packet before it is encoded.
func (d *puppet) packet(op ib.Opcode, psn int, payload []byte, changes ...func(*ib.Packet)) []byte {
	pk := ib.Packet{BTH: ib.BTH{
		Opcode: op, PKey: ib.PKeyDefault, DestQP: d.a.qp.Number(), PSN: d.l.attr.SQPSN.Add(psn),
		Pad: uint8(ib.PadFor(len(payload))),
	}}
	info := op.Info()
	if info.Response {
		pk.PSN = d.a.attr.SQPSN.Add(psn)
	} else if info.Transport == ib.RC {
		pk.AckReq = info.Pos&ib.Last != 0
	}
	pk.AETH.Syndrome = ib.ACKNoCredits
	pk.RETH = ib.RETH{VA: d.a.base, RKey: d.a.region.RKey(), Len: uint32(len(payload))}
	pk.Atomic = ib.AtomicETH{VA: d.a.base, RKey: d.a.region.RKey()}
	pk.DETH = ib.DETH{QKey: 0x11111111, SrcQP: puppetQPN}
	for _, c := range changes {
		c(&pk)
	}
	b := make([]byte, ib.MaxHeaderBytes, ib.MaxHeaderBytes+len(payload)+8)
	b = append(b[:pk.PutHeaders(b)], payload...)
	b = append(b, make([]byte, int(pk.Pad)+ib.ICRCBytes)...)
	return b
}

// send delivers a packet to the engine now, and lets the engine answer.
func (d *puppet) send(op ib.Opcode, psn int, payload []byte, changes ...func(*ib.Packet)) {
	d.t.Helper()
	d.sendRaw(d.packet(op, psn, payload, changes...))
}

// sendRaw delivers bytes.
func (d *puppet) sendRaw(data []byte) {
	d.sendFrom(transport.RxPacket{Src: d.b.addr, Dst: d.a.addr, HopLimit: 64, Data: data})
}

func (d *puppet) sendFrom(rx transport.RxPacket) {
	d.a.eng.HandlePacket(d.now, &rx)
	d.pump()
	d.drain()
}

// drain takes what the engine sent off the wire; the log has it.
func (d *puppet) drain() { d.flying = nil }

// wait lets the engine's timers run for ns.
func (d *puppet) wait(ns int64) {
	d.advance(ns)
	d.pump()
	d.drain()
}

// want compares what the engine sent since the last look.
func (d *puppet) want(wire string) {
	d.t.Helper()
	d.pump()
	d.drain()
	d.wantWire(wire)
}

// Changes for packet and send.

func syndrome(s ib.Syndrome) func(*ib.Packet) { return func(p *ib.Packet) { p.AETH.Syndrome = s } }
func msn(n ib.MSN) func(*ib.Packet)           { return func(p *ib.Packet) { p.AETH.MSN = n } }
func reth(va uint64, rkey ib.RKey, n uint32) func(*ib.Packet) {
	return func(p *ib.Packet) { p.RETH = ib.RETH{VA: va, RKey: rkey, Len: n} }
}

// readReq is a READ REQUEST of n bytes at off of the engine's memory.
func (d *puppet) readReq(psn, off int, n uint32, changes ...func(*ib.Packet)) {
	d.t.Helper()
	d.send(ib.RCReadRequest, psn, nil,
		append([]func(*ib.Packet){reth(d.a.base+uint64(off), d.a.region.RKey(), n)}, changes...)...)
}

// wantStatus checks that the engine's QP ended, or did not, as said.
func (d *puppet) wantState(s transport.QPState) {
	d.t.Helper()
	require.Equal(d.t, s, d.a.qp.State())
}
