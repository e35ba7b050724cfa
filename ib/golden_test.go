package ib_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/goroce/goroce/ib"
)

// vector is one packet from IP header to ICRC and what it must decode to.
type vector struct {
	name string
	hex  string
	want ib.Packet // Payload and HeaderLen are checked apart
	load string    // payload, hex
}

// vectors are packets of two rdma_rxe kernels, of ConnectX NICs, and one made by hand.
var vectors = []vector{
	{
		name: "RC SEND ONLY, rxe 6.12",
		hex:  "4500003ca7c1400040117e510a4d00020a4d0003c6c512b7002800000400ffff0000001180dea351000055c0359bf37000000550000000405c961a92",
		want: ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PKey: 0xFFFF, DestQP: 0x11, AckReq: true, PSN: 0xDEA351}},
		load: "000055c0359bf3700000055000000040",
	},
	{
		name: "RC ACKNOWLEDGE",
		hex:  "450000309c3b4000401189e30a4d00030a4d0002c6c512b7001c00001100ffff0000001100dea3511f0000019f34db9a",
		want: ib.Packet{
			BTH:  ib.BTH{Opcode: ib.RCAcknowledge, PKey: 0xFFFF, DestQP: 0x11, PSN: 0xDEA351},
			AETH: ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 1},
		},
	},
	{
		name: "RC READ REQUEST",
		hex:  "4500003c9c3c4000401189d60a4d00030a4d0002c6c512b7002800000c00ffff0000001180ca0a7a000055c0359bf3700000055000000040a59f29d4",
		want: ib.Packet{
			BTH:  ib.BTH{Opcode: ib.RCReadRequest, PKey: 0xFFFF, DestQP: 0x11, AckReq: true, PSN: 0xCA0A7A},
			RETH: ib.RETH{VA: 0x55C0359BF370, RKey: 0x550, Len: 64},
		},
	},
	{
		name: "RC CMP & SWAP",
		hex:  "45000048fa30400040112bd60a4d00020a4d0003c31012b7003400001300ffff0000001c804d7dcb000056535cede00000000f0600000000000000000000000000000000287ec949",
		want: ib.Packet{
			BTH:    ib.BTH{Opcode: ib.RCCompareSwap, PKey: 0xFFFF, DestQP: 0x1C, AckReq: true, PSN: 0x4D7DCB},
			Atomic: ib.AtomicETH{VA: 0x56535CEDE000, RKey: 0xF06},
		},
	},
	{
		name: "RC ATOMIC ACKNOWLEDGE",
		hex:  "45000038d5f64000401150200a4d00030a4d0002c31012b7002400001200ffff0000001c004d7dcb1f00000151f9b904fd3c2cce884af090",
		want: ib.Packet{
			BTH:       ib.BTH{Opcode: ib.RCAtomicAck, PKey: 0xFFFF, DestQP: 0x1C, PSN: 0x4D7DCB},
			AETH:      ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 1},
			AtomicAck: 0x51F9B904FD3C2CCE,
		},
	},
	{
		name: "RC WRITE ONLY IMM, rsocket",
		hex:  "45000050d7bf400040114e3f0a4d00020a4d0003d32812b7003c00000b00ffff0000002780d9d3e100007fe1a400301000001f0f000000108000018000009812947f00001622000000000800ad14999f",
		want: ib.Packet{
			BTH:   ib.BTH{Opcode: ib.RCWriteOnlyImm, PKey: 0xFFFF, DestQP: 0x27, AckReq: true, PSN: 0xD9D3E1},
			RETH:  ib.RETH{VA: 0x7FE1A4003010, RKey: 0x1F0F, Len: 16},
			ImmDt: 0x80000180,
		},
		load: "00009812947f00001622000000000800",
	},
	{
		name: "RC ACKNOWLEDGE, IPv6",
		hex:  "60000000001c1140fd770000000000000000000000000003fd770000000000000000000000000002e0b812b7001c00001100ffff0000002400612ca91f00000129d4d553",
		want: ib.Packet{
			BTH:  ib.BTH{Opcode: ib.RCAcknowledge, PKey: 0xFFFF, DestQP: 0x24, PSN: 0x612CA9},
			AETH: ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 1},
		},
	},
	{
		name: "UC SEND ONLY, pad 2, MigReq, ECT(1), ConnectX",
		hex:  "45010040047840004011b4d5c0a80007c0a80007c00012b7002c00002460ffff000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3",
		want: ib.Packet{BTH: ib.BTH{
			Opcode: ib.UCSendOnly, Pad: 2, MigReq: true, PKey: 0xFFFF, DestQP: 0xD3, PSN: 0xCF1710,
		}},
		load: "4630818be28935d90e9a95505401be885e50",
	},
	{
		name: "CNP, ConnectX-4 Lx",
		hex:  "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a",
		want: ib.Packet{BTH: ib.BTH{Opcode: ib.CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118}},
	},
	{
		name: "RC FLUSH, by hand, ICRC of the specification",
		hex:  "4500004000014000401126aa0a0000010a000002c12312b7002c00001c00ffff00000011801234560000000100000000000010000000123400000008cd0625db",
		want: ib.Packet{
			BTH:  ib.BTH{Opcode: ib.RCFlush, PKey: 0xFFFF, DestQP: 0x11, AckReq: true, PSN: 0x123456},
			FETH: ib.FlushGlobalVisibility,
			RETH: ib.RETH{VA: 0x1000, RKey: 0x1234, Len: 8},
		},
	},
}

// flushRxeICRC is the trailer that rxe expects on the FLUSH vector.
const flushRxeICRC = "0f79bc08"

func mustHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (v vector) frame(t testing.TB) frame {
	t.Helper()
	f, err := parseIP(mustHex(t, v.hex))
	if err != nil {
		t.Fatal(v.name, err)
	}
	f.capture = v.name
	return f
}

func TestGoldenVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			f := v.frame(t)
			var got ib.Packet
			if err := got.Decode(f.udp); err != ib.DecodeOK {
				t.Fatal(err)
			}
			if load := hex.EncodeToString(got.Payload); load != v.load {
				t.Errorf("payload %s, want %s", load, v.load)
			}
			if want := len(f.udp) - len(v.load)/2 - int(got.Pad) - ib.ICRCBytes; got.HeaderLen != want {
				t.Errorf("header length %d, want %d", got.HeaderLen, want)
			}
			fields := got
			fields.Payload, fields.HeaderLen = nil, 0
			if !equalPacket(fields, v.want) {
				t.Errorf("decoded\n%+v, want\n%+v", fields, v.want)
			}
			checkRoundTrip(t, f)

			// And from the fields alone, without the decoder.
			build := v.want
			build.Payload = mustHex(t, v.load)
			if b := build.Append(nil, f.icrc(), f.id); hex.EncodeToString(b) != hex.EncodeToString(f.udp) {
				t.Errorf("built\n%x, want\n%x", b, f.udp)
			}
		})
	}
}

// TestFlushRxeICRC pins both ICRCs of the FLUSH vector.
func TestFlushRxeICRC(t *testing.T) {
	for _, v := range vectors {
		if v.want.Opcode != ib.RCFlush {
			continue
		}
		f := v.frame(t)
		body := f.udp[:len(f.udp)-ib.ICRCBytes]
		var got [ib.ICRCBytes]byte
		ib.PutICRC(got[:], f.icrc().ChecksumFlushRxe(f.id, body))
		if s := hex.EncodeToString(got[:]); s != flushRxeICRC {
			t.Errorf("rxe's FLUSH ICRC is %s, want %s", s, flushRxeICRC)
		}
		// The two differ, and FECN, BECN and the reserved bits of byte 4 are
		// masked only once: rxe's value depends on them.
		marked := append([]byte(nil), body...)
		marked[4] |= 0x80
		if f.icrc().Checksum(f.id, marked) != f.icrc().Checksum(f.id, body) {
			t.Error("FECN changed the ICRC of the specification")
		}
		if f.icrc().ChecksumFlushRxe(f.id, marked) == f.icrc().ChecksumFlushRxe(f.id, body) {
			t.Error("FECN did not change rxe's ICRC")
		}
		return
	}
	t.Fatal("no FLUSH among the vectors")
}

// equalPacket compares all fields but Payload.
func equalPacket(a, b ib.Packet) bool {
	return a.BTH == b.BTH && a.DETH == b.DETH && a.FETH == b.FETH && a.RETH == b.RETH && a.Atomic == b.Atomic &&
		a.AETH == b.AETH && a.AtomicAck == b.AtomicAck && a.ImmDt == b.ImmDt && a.IETH == b.IETH &&
		a.CNPReserved == b.CNPReserved && a.HeaderLen == b.HeaderLen
}

// checkRoundTrip checks everything that must hold for a good packet: it decodes, its parts lie
// where they should, it encodes to the same bytes, and its ICRC is the one computed.
func checkRoundTrip(t *testing.T, f frame) {
	t.Helper()
	var p ib.Packet
	if err := p.Decode(f.udp); err != ib.DecodeOK {
		t.Fatalf("%v: %v", f, err)
	}
	var head [ib.MaxHeaderBytes]byte
	n := p.PutHeaders(head[:])
	if n != p.HeaderLen || string(head[:n]) != string(f.udp[:n]) {
		t.Errorf("%v: headers encode to\n%x, want\n%x", f, head[:n], f.udp[:p.HeaderLen])
	}
	if n+len(p.Payload)+int(p.Pad)+ib.ICRCBytes != len(f.udp) {
		t.Errorf("%v: the parts do not add up to %d bytes", f, len(f.udp))
	}
	body := f.udp[:len(f.udp)-ib.ICRCBytes]
	if got, want := f.icrc().Checksum(f.id, body), ib.TrailingICRC(f.udp); got != want {
		t.Errorf("%v: ICRC %08x, want %08x", f, got, want)
	}
	// In pieces, as the send path computes it.
	crc := f.icrc().Head(len(f.udp), f.id, head[:n])
	crc = ib.Extend(ib.Extend(crc, p.Payload), body[n+len(p.Payload):])
	if crc != ib.TrailingICRC(f.udp) {
		t.Errorf("%v: ICRC in pieces %08x, want %08x", f, crc, ib.TrailingICRC(f.udp))
	}
	if whole := p.Append(nil, f.icrc(), f.id); string(whole) != string(f.udp) {
		t.Errorf("%v: appended\n%x, want\n%x", f, whole, f.udp)
	}
}

// TestTruncations cuts every vector after each byte.
func TestTruncations(t *testing.T) {
	for _, v := range vectors {
		checkTruncations(t, v.frame(t))
	}
}

// checkTruncations cuts a good packet after each byte. Cut inside headers, padding or ICRC it must
// be refused by the decoder; cut inside the payload of an opcode that has one, the bytes are a
// well-formed shorter packet, and it is the ICRC that must refuse it.
func checkTruncations(t *testing.T, f frame) {
	t.Helper()
	var full ib.Packet
	if err := full.Decode(f.udp); err != ib.DecodeOK {
		t.Fatalf("%v: %v", f, err)
	}
	other := bytes.Clone(f.udp)
	other[1] |= 1
	if err := new(ib.Packet).Decode(other); err != ib.ErrTransportVersion {
		t.Fatalf("%v of transport version 1: %v", f, err)
	}
	least := full.HeaderLen + int(full.Pad) + ib.ICRCBytes
	for n := range len(f.udp) {
		cut := f.udp[:n:n]
		var p ib.Packet
		err := p.Decode(cut)
		want := ib.DecodeOK
		switch {
		case n < ib.BTHBytes:
			want = ib.ErrShortBTH
		case n < least:
			want = ib.ErrShortHeaders
		}
		if err != want {
			t.Fatalf("%v cut to %d bytes: %v, want %v", f, n, err, want)
		}
		if err == ib.DecodeOK && f.icrc().Checksum(f.id, cut[:n-ib.ICRCBytes]) == ib.TrailingICRC(cut) {
			t.Fatalf("%v cut to %d bytes: ICRC still right", f, n)
		}
	}
}

// TestEveryByteMatters flips each bit of each vector: all but the masked ones must break the ICRC.
func TestEveryByteMatters(t *testing.T) {
	masked := map[int]bool{1: true, 8: true, 10: true, 11: true, 26: true, 27: true, 32: true}
	masked6 := map[int]bool{1: true, 2: true, 3: true, 7: true, 46: true, 47: true, 52: true}
	for _, v := range vectors {
		good := mustHex(t, v.hex)
		for bit := range 8 * len(good) {
			bad := append([]byte(nil), good...)
			bad[bit/8] ^= 1 << (bit % 8)
			f, err := parseIP(bad)
			if err != nil {
				continue // version, protocol or length: not a RoCE packet any more
			}
			want := f.flow.Src.Is4() && masked[bit/8] || f.flow.Src.Is6() && (masked6[bit/8] || bit/8 == 0)
			if f.flow.Src.Is4() && (bit/8 == 6 || bit/8 == 7) {
				continue // flags and fragment offset: the calculator assumes DF
			}
			got := f.icrc().Checksum(f.id, f.udp[:len(f.udp)-ib.ICRCBytes]) == ib.TrailingICRC(f.udp)
			if got != want {
				t.Errorf("%s: bit %d of byte %d flipped: ICRC right is %v, want %v", v.name, bit%8, bit/8, got, want)
			}
		}
	}
}

// TestICRCSeed pins the register after the local route header's eight bytes of
// ones, 0xDEBB20E3, by computing one packet's ICRC bit by bit from it.
func TestICRCSeed(t *testing.T) {
	v := vectors[0]
	b := mustHex(t, v.hex)
	trailer := binary.LittleEndian.Uint32(b[len(b)-ib.ICRCBytes:])
	b = b[:len(b)-ib.ICRCBytes]
	for _, i := range []int{1, 8, 10, 11, 26, 27, 32} {
		b[i] = 0xFF
	}
	reg := uint32(0xDEBB20E3)
	for _, x := range b {
		reg ^= uint32(x)
		for range 8 {
			reg = reg>>1 ^ 0xEDB88320&-(reg&1)
		}
	}
	if ^reg != trailer {
		t.Errorf("bitwise ICRC %08x, want %08x", ^reg, trailer)
	}
}
