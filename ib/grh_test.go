package ib_test

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
)

// TestGRHAgainstCaptures: the GRH of a datagram is its IP header. rdma_rxe
// copies the header that came; the fields rebuild the same bytes.
func TestGRHAgainstCaptures(t *testing.T) {
	for _, f := range append(captures(t), vectors[6].frame(t), vectors[0].frame(t)) {
		var want [ib.GRHBytes]byte
		g := ib.GRH{Src: f.flow.Src, Dst: f.flow.Dst, Ident: f.id, PayloadBytes: ib.UDPHeaderBytes + len(f.udp)}
		if f.flow.Src.Is4() {
			copy(want[20:], f.ip)
			g.TrafficClass, g.HopLimit = f.ip[1], f.ip[8]
		} else {
			copy(want[:], f.ip)
			g.TrafficClass, g.HopLimit = f.ip[0]<<4|f.ip[1]>>4, f.ip[7]
			g.FlowLabel = uint32(f.ip[1]&15)<<16 | uint32(f.ip[2])<<8 | uint32(f.ip[3])
		}
		got := [ib.GRHBytes]byte{0: 0xFF, 39: 0xFF}
		if g.Put(&got); got != want {
			t.Fatalf("%v: GRH\n%x, want\n%x", f, got, want)
		}
		var back ib.GRH
		if !back.Decode(&want) || back != g {
			t.Fatalf("%v: decoded %+v, want %+v", f, back, g)
		}
	}
}

func TestGRHMapped(t *testing.T) {
	g := ib.GRH{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		TrafficClass: 0xAA, HopLimit: 64, PayloadBytes: 100}
	mapped := g
	mapped.Src, mapped.Dst = netip.AddrFrom16(g.Src.As16()), netip.AddrFrom16(g.Dst.As16())
	var a, b [ib.GRHBytes]byte
	g.Put(&a)
	mapped.Put(&b)
	if a != b {
		t.Errorf("IPv4-mapped addresses give\n%x, want\n%x", b, a)
	}
}

func TestGRHRefused(t *testing.T) {
	var good [ib.GRHBytes]byte
	g := ib.GRH{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), HopLimit: 64,
		PayloadBytes: 100}
	g.Put(&good)
	for bit := 8 * 20; bit < 8*ib.GRHBytes; bit++ {
		bad := good
		bad[bit/8] ^= 1 << (bit % 8)
		if new(ib.GRH).Decode(&bad) {
			t.Errorf("bit %d of the IPv4 header flipped: accepted", bit-8*20)
		}
	}
	if new(ib.GRH).Decode(new([ib.GRHBytes]byte)) {
		t.Error("40 zero bytes accepted")
	}
}

// FuzzGRH: what decodes encodes to the same header.
func FuzzGRH(f *testing.F) {
	for _, v := range vectors {
		x := v.frame(f)
		b := make([]byte, ib.GRHBytes)
		if x.flow.Src.Is4() {
			copy(b[20:], x.ip)
		} else {
			copy(b, x.ip)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var b, out [ib.GRHBytes]byte
		copy(b[:], in)
		var g, again ib.GRH
		if !g.Decode(&b) {
			return
		}
		g.Put(&out)
		if !again.Decode(&out) || again.PayloadBytes != g.PayloadBytes || again.HopLimit != g.HopLimit ||
			again.TrafficClass != g.TrafficClass || again.Src.Unmap() != g.Src.Unmap() ||
			again.Dst.Unmap() != g.Dst.Unmap() {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, g, out)
		}
	})
}
