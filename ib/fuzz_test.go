package ib_test

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
)

// addPackets seeds a fuzz target with the vectors, one packet of every opcode,
// and the first packet of each opcode and length in the captures.
func addPackets(f *testing.F) {
	f.Helper()
	for _, v := range vectors {
		f.Add(v.frame(f).udp)
	}
	for _, x := range oneOfEach(f) {
		f.Add(x.udp)
	}
	seen := map[[2]int]bool{}
	for _, x := range captures(f) {
		if k := [2]int{int(x.udp[0]), len(x.udp)}; !seen[k] {
			seen[k] = true
			f.Add(x.udp)
		}
	}
	f.Add([]byte{})
}

// FuzzDecode feeds any bytes to the decoder. What it accepts must add up, and
// must encode to the same bytes; what it refuses must be refused for a reason.
func FuzzDecode(f *testing.F) {
	addPackets(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p ib.Packet
		err := p.Decode(b)
		if want := slowVerdict(b); err != want {
			t.Fatalf("verdict %v, want %v", err, want)
		}
		if err != ib.DecodeOK {
			return
		}
		if p.HeaderLen+len(p.Payload)+int(p.Pad)+ib.ICRCBytes != len(b) {
			t.Fatalf("parts %d+%d+%d do not add up to %d", p.HeaderLen, len(p.Payload), p.Pad, len(b))
		}
		if len(p.Payload) > 0 && &p.Payload[0] != &b[p.HeaderLen] {
			t.Fatal("the payload is not where the headers end")
		}
		if cap(p.Payload) != len(p.Payload) {
			t.Fatal("appending to the payload would overwrite padding and ICRC")
		}
		var head [ib.MaxHeaderBytes]byte
		if n := p.PutHeaders(head[:]); string(head[:n]) != string(b[:p.HeaderLen]) {
			t.Fatalf("encodes to\n%x, not\n%x", head[:n], b[:p.HeaderLen])
		}
		// A Packet may be used again without being cleared.
		q := distinctPacket(ib.RCCompareSwap)
		q.Decode(b)
		var again [ib.MaxHeaderBytes]byte
		if n := q.PutHeaders(again[:]); string(again[:n]) != string(b[:q.HeaderLen]) {
			t.Fatal("what a Packet held before shows through")
		}
	})
}

// slowVerdict is the decoder's verdict, written out from the rules.
func slowVerdict(b []byte) ib.DecodeError {
	if len(b) < 12 {
		return ib.ErrShortBTH
	}
	o := ib.Opcode(b[0])
	if !o.Known() {
		return ib.ErrUnknownOpcode
	}
	if len(b) < int(o.Info().HeaderLen)+int(b[1]>>4&3)+4 {
		return ib.ErrShortHeaders
	}
	if b[1]&0x0F != 0 {
		return ib.ErrTransportVersion
	}
	return ib.DecodeOK
}

// FuzzRoundTrip builds a packet from fields, and decodes it again.
func FuzzRoundTrip(f *testing.F) {
	f.Add(byte(0x0A), byte(0xC0), uint16(0xFFFF), uint32(0x40000011), uint32(0x80000001), uint64(1),
		uint64(2), uint64(3), uint32(4), []byte("abc"), true)
	for o := range 256 {
		if ib.Opcode(o).Known() {
			f.Add(byte(o), byte(0x80), uint16(0x7FFF), uint32(0xFFFFFFFF), uint32(0xFFFFFFFF), ^uint64(0),
				^uint64(1), ^uint64(2), ^uint32(3), []byte{1}, false)
		}
	}
	f.Fuzz(func(t *testing.T, op, flags byte, pkey uint16, w1, w2 uint32, x, y, z uint64, v uint32,
		payload []byte, v6 bool) {
		if len(payload) > ib.MaxMTUBytes {
			payload = payload[:ib.MaxMTUBytes]
		}
		p := ib.Packet{
			BTH: ib.BTH{
				Opcode: ib.Opcode(op), Solicited: flags&0x80 != 0, MigReq: flags&0x40 != 0,
				Pad: uint8(ib.PadFor(len(payload))), FECN: w1>>31 != 0, BECN: w1>>30&1 != 0,
				Resv6: uint8(w1 >> 24 & 63), DestQP: ib.QPN(w1) & ib.QPNMask,
				AckReq: w2>>31 != 0, Resv7: uint8(w2 >> 24 & 127), PSN: ib.PSN(w2 & ib.PSNMask), PKey: ib.PKey(pkey),
			},
			Payload: payload,
		}
		if !p.Opcode.Known() {
			if p.PutHeaders(nil) != 0 || len(p.Append(nil, nil, 0)) != 0 {
				t.Fatal("an unknown opcode wrote something")
			}
			return
		}
		// Only the fields of the opcode's own headers, so that the packets compare equal.
		if p.Opcode.Has(ib.HasDETH) {
			p.DETH = ib.DETH{QKey: ib.QKey(v), Resv8: uint8(x >> 24), SrcQP: ib.QPN(x) & ib.QPNMask}
		}
		if p.Opcode.Has(ib.HasFETH) {
			p.FETH = ib.FETH(y)
		}
		if p.Opcode.Has(ib.HasRETH) {
			p.RETH = ib.RETH{VA: x, RKey: ib.RKey(v), Len: uint32(z)}
		}
		if p.Opcode.Has(ib.HasAtomicETH) {
			p.Atomic = ib.AtomicETH{VA: x, RKey: ib.RKey(v), SwapAdd: y, Compare: z}
		}
		if p.Opcode.Has(ib.HasAETH) {
			p.AETH = ib.AETH{Syndrome: ib.Syndrome(x >> 24), MSN: ib.MSN(x & ib.PSNMask)}
		}
		if p.Opcode.Has(ib.HasAtomicAckETH) {
			p.AtomicAck = y
		}
		if p.Opcode.Has(ib.HasImmDt) {
			p.ImmDt = uint32(z)
		}
		if p.Opcode.Has(ib.HasIETH) {
			p.IETH = ib.RKey(v)
		}
		flow := ib.Flow{Src: netip.AddrFrom4([4]byte{10, byte(x), 0, 1}),
			Dst: netip.AddrFrom4([4]byte{10, 0, byte(y), 2}), SrcPort: pkey, DstPort: ib.UDPPort}
		if v6 {
			flow.Src, flow.Dst = netip.AddrFrom16([16]byte{0xFD, byte(x), 15: 1}),
				netip.AddrFrom16([16]byte{0xFD, byte(y), 15: 2})
		}
		icrc := ib.NewICRC(flow)
		b := p.Append([]byte("prefix"), &icrc, pkey)[len("prefix"):]
		var q ib.Packet
		if err := q.Decode(b); err != ib.DecodeOK {
			t.Fatalf("%x: %v", b, err)
		}
		p.HeaderLen = q.HeaderLen
		if !equalPacket(p, q) || string(p.Payload) != string(q.Payload) {
			t.Fatalf("encoded %+v, decoded %+v", p, q)
		}
		if icrc.Checksum(pkey, b[:len(b)-ib.ICRCBytes]) != ib.TrailingICRC(b) {
			t.Fatal("the ICRC is wrong")
		}
	})
}
