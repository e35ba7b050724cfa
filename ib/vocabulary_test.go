package ib_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
)

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		p, q ib.PSN
		diff int
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, 0xFFFFFF, 1},
		{0xFFFFFF, 0, -1},
		{5, 0xFFFFFB, 10},
		{0x7FFFFF, 0, ib.MaxPSNSpan - 1},
		{0x800000, 0, -ib.MaxPSNSpan}, // half way round: "before", by convention
		{0, 0x800000, -ib.MaxPSNSpan},
		{0x123456, 0x923457, ib.MaxPSNSpan - 1},
	} {
		if d := c.p.Diff(c.q); d != c.diff {
			t.Errorf("%06x - %06x = %d, want %d", c.p, c.q, d, c.diff)
		}
		if c.p.Before(c.q) != (c.diff < 0) || c.p.After(c.q) != (c.diff > 0) {
			t.Errorf("%06x, %06x: before %v, after %v", c.p, c.q, c.p.Before(c.q), c.p.After(c.q))
		}
		if c.diff != -ib.MaxPSNSpan && c.q.Diff(c.p) != -c.diff {
			t.Errorf("%06x - %06x = %d, want %d", c.q, c.p, c.q.Diff(c.p), -c.diff)
		}
		if got := c.q.Add(c.diff); got != c.p {
			t.Errorf("%06x + %d = %06x, want %06x", c.q, c.diff, got, c.p)
		}
		if d := ib.MSN(c.p).Diff(ib.MSN(c.q)); d != c.diff {
			t.Errorf("MSN %06x - %06x = %d, want %d", c.p, c.q, d, c.diff)
		}
	}
	if p := ib.PSN(0xFFFFFF).Next(); p != 0 {
		t.Errorf("after ffffff comes %06x", p)
	}
	if p := ib.PSN(0).Prev(); p != 0xFFFFFF {
		t.Errorf("before 0 comes %06x", p)
	}
	if m := ib.MSN(0xFFFFFF).Next(); m != 0 {
		t.Errorf("after MSN ffffff comes %06x", m)
	}
	for _, c := range []struct {
		p, first ib.PSN
		n        int
		in       bool
	}{
		{0xFFFFFE, 0xFFFFFE, 1, true},
		{0xFFFFFE, 0xFFFFFE, 0, false},
		{0xFFFFFD, 0xFFFFFE, 4, false},
		{1, 0xFFFFFE, 4, true},
		{2, 0xFFFFFE, 4, false},
	} {
		if c.p.InRange(c.first, c.n) != c.in {
			t.Errorf("%06x among the %d from %06x: %v", c.p, c.n, c.first, !c.in)
		}
	}
}

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		s    ib.Syndrome
		kind ib.SyndromeKind
		text string
	}{
		{0x00, ib.SyndromeACK, "ACK credits=0"},
		{ib.ACKNoCredits, ib.SyndromeACK, "ACK"},
		{ib.ACKCredit(5), ib.SyndromeACK, "ACK credits=6"},
		{ib.RNRNAK(12), ib.SyndromeRNR, "RNR NAK timer=12"},
		{0x3F, ib.SyndromeRNR, "RNR NAK timer=31"},
		{0x40, ib.SyndromeReserved, "syndrome 0x40"},
		{ib.NAKSequence, ib.SyndromeNAK, "NAK PSN sequence error"},
		{ib.NAKInvalidRequest, ib.SyndromeNAK, "NAK invalid request"},
		{ib.NAKRemoteAccess, ib.SyndromeNAK, "NAK remote access error"},
		{ib.NAKRemoteOperation, ib.SyndromeNAK, "NAK remote operational error"},
		{ib.NAKInvalidRDRequest, ib.SyndromeNAK, "NAK invalid RD request"},
		{0x65, ib.SyndromeNAK, "syndrome 0x65"},
		{0x80, ib.SyndromeReserved, "syndrome 0x80"},
		{0xFF, ib.SyndromeReserved, "syndrome 0xff"},
	} {
		if c.s.Kind() != c.kind || c.s.String() != c.text {
			t.Errorf("%02x is kind %d, %q; want %d, %q", uint8(c.s), c.s.Kind(), c.s, c.kind, c.text)
		}
	}
	// IBTA table 46: powers of two and what lies half way, from 1 on.
	want := []int{0, 1, 2, 3, 4}
	for n := 4; n < 16384; n *= 2 {
		want = append(want, n*3/2, n*2)
	}
	want = append(want, 24576, 32768, -1)
	for c, n := range want {
		code := ib.CreditCode(c)
		if got := code.Credits(); got != n {
			t.Errorf("credit code %d: %d, want %d", c, got, n)
		}
		if n < 0 {
			continue
		}
		if got := ib.CreditCodeFor(n); got != code {
			t.Errorf("credits %d: code %d, want %d", n, got, c)
		}
		if got := ib.ACKCredit(code).CreditCode(); got != code {
			t.Errorf("credit code %d comes back as %d", c, got)
		}
	}
	if c := ib.CreditCodeFor(1 << 20); c.Credits() != 32768 {
		t.Errorf("a million credits: code %d", c)
	}
	if c := ib.CreditCodeFor(-1); c != 0 {
		t.Errorf("credits -1: code %d", c)
	}
	if c := ib.CreditCodeFor(5); c.Credits() != 4 {
		t.Errorf("5 credits promise %d", c.Credits())
	}
}

func TestTimers(t *testing.T) {
	// IBTA table 45, in units of 10 us.
	rnr := []int64{
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
		4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	}
	for c, want := range rnr {
		if code := ib.RNRCode(c); code.Ns() != want*10_000 || !code.Valid() {
			t.Errorf("RNR code %d: %d ns, want %d", c, code.Ns(), want*10_000)
		}
		if got := ib.RNRNAK(ib.RNRCode(c)).RNRCode(); int(got) != c {
			t.Errorf("RNR code %d comes back as %d", c, got)
		}
	}
	for c := range 32 {
		want := int64(4096) << c
		if c == 0 {
			want = 0
		}
		if code := ib.TimeoutCode(c); code.Ns() != want || !code.Valid() {
			t.Errorf("timeout code %d: %d ns, want %d", c, code.Ns(), want)
		}
	}
	if ib.TimeoutCode(32).Valid() || ib.RNRCode(32).Valid() {
		t.Error("six bits are valid")
	}
}

func TestMTU(t *testing.T) {
	for i, bytes := range []int{256, 512, 1024, 2048, 4096} {
		m := ib.MTU(i + 1)
		if !m.Valid() || m.Bytes() != bytes {
			t.Errorf("MTU %d: %d bytes, want %d", i+1, m.Bytes(), bytes)
		}
		if got, ok := ib.MTUFromBytes(bytes); got != m || !ok {
			t.Errorf("%d bytes: MTU %d", bytes, got)
		}
		if _, ok := ib.MTUFromBytes(bytes + 1); ok {
			t.Errorf("%d bytes are an MTU", bytes+1)
		}
	}
	for _, m := range []ib.MTU{0, 6, 255} {
		if m.Valid() || m.Bytes() != 0 || !strings.Contains(m.String(), "MTU(") {
			t.Errorf("MTU %d is valid: %v", uint8(m), m)
		}
	}
	for ifMTU, want := range map[int]int{335: 0, 336: 256, 1500: 1024, 2127: 1024, 2128: 2048, 4175: 2048,
		4200: 4096, 9000: 4096, 65536: 4096, -1: 0} {
		m, ok := ib.MTUForInterface(ifMTU)
		if m.Bytes() != want || ok != (want != 0) {
			t.Errorf("interface MTU %d: %v, want %d", ifMTU, m, want)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		p, q ib.PKey
		ok   bool
	}{
		{0xFFFF, 0xFFFF, true}, {0xFFFF, 0x7FFF, true}, {0x7FFF, 0xFFFF, true}, {0x7FFF, 0x7FFF, false},
		{0xFFFF, 0x8001, false}, {0x8001, 0x0001, true},
	} {
		if c.p.Match(c.q) != c.ok {
			t.Errorf("P_Keys %04x and %04x match: %v", c.p, c.q, !c.ok)
		}
	}
	for n, want := range map[int]int{0: 0, 1: 3, 2: 2, 3: 1, 4: 0, 4095: 1, 4096: 0} {
		if got := ib.PadFor(n); got != want {
			t.Errorf("padding after %d bytes: %d, want %d", n, got, want)
		}
	}
	if s := ib.QPN(0x12).String(); s != "0x000012" {
		t.Errorf("QPN prints as %q", s)
	}
}

func TestGID(t *testing.T) {
	for _, c := range []struct {
		addr, gid string
		multicast bool
	}{
		{"10.77.0.2", "0000:0000:0000:0000:0000:ffff:0a4d:0002", false},
		{"::ffff:10.77.0.2", "0000:0000:0000:0000:0000:ffff:0a4d:0002", false},
		{"fd77::3", "fd77:0000:0000:0000:0000:0000:0000:0003", false},
		{"fe80::1%eth0", "fe80:0000:0000:0000:0000:0000:0000:0001", false},
		{"239.1.2.3", "0000:0000:0000:0000:0000:ffff:ef01:0203", true},
		{"ff0e::1", "ff0e:0000:0000:0000:0000:0000:0000:0001", true},
	} {
		a := netip.MustParseAddr(c.addr)
		g := ib.GIDFromAddr(a)
		if g.String() != c.gid || g.IsMulticast() != c.multicast || g.IsZero() {
			t.Errorf("%s: GID %v, multicast %v", c.addr, g, g.IsMulticast())
		}
		if back := g.Addr(); back != a.Unmap().WithZone("") {
			t.Errorf("%s comes back as %v", c.addr, back)
		}
	}
	if !(ib.GID{}).IsZero() {
		t.Error("the zero GID is not zero")
	}
}

// TestErrors: every decode error has a text of its own.
func TestErrors(t *testing.T) {
	seen := map[string]bool{}
	for e := ib.DecodeOK; e <= ib.ErrTransportVersion+1; e++ {
		s := e.Error()
		if !strings.HasPrefix(s, "ib: ") || seen[s] {
			t.Errorf("error %d: %q", uint8(e), s)
		}
		seen[s] = true
	}
	for tr, want := range map[ib.Transport]string{ib.RC: "RC", ib.UC: "UC", ib.UD: "UD",
		ib.TransportCNP: "CNP", ib.TransportInvalid: "invalid", 9: "Transport(9)"} {
		if tr.String() != want {
			t.Errorf("transport %d is %q, want %q", uint8(tr), tr, want)
		}
	}
}
