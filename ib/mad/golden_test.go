package mad_test

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// data builds the bytes of a message from (offset, hex) pairs; the rest is 0.
func data(t testing.TB, parts ...any) *mad.Data {
	t.Helper()
	d := new(mad.Data)
	for i := 0; i < len(parts); i += 2 {
		b, err := hex.DecodeString(strings.ReplaceAll(parts[i+1].(string), " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		copy(d[parts[i].(int):], b)
	}
	return d
}

func gid(s string) ib.GID { return ib.GIDFromAddr(netip.MustParseAddr(s)) }

// full returns a slice of n bytes that starts with b.
func full(n int, b ...byte) []byte { return append(b, make([]byte, n-len(b))...) }

// TestGolden decodes and encodes one message of each kind. The first five are
// those of rping between two kernels; the others were written out from the
// tables of the specification, with a value of its own in each field.
func TestGolden(t *testing.T) {
	info := full(72, 0xE1, 0xE2)
	for _, c := range []struct {
		name string
		wire *mad.Data
		want message
	}{
		{
			"REQ, rping",
			data(t, 0, "430d1f47 00000000 0000000001061c06 505400fffe000002 00000000 00000000",
				32, "00001101 00000001 000000a0 ca0a7aa7 ffff57f0 ffffffff",
				66, "ffff0a4d0002", 82, "ffff0a4d0003", 88, "286cf000 00400088",
				140, "00409817", 156, "0a4d0002", 172, "0a4d0003"),
			&mad.REQ{
				LocalCommID: 0x430D1F47, ServiceID: mad.NewServiceID(mad.PortSpaceTCP, 7174),
				CAGUID: 0x505400FFFE000002, QPN: 0x11, ResponderResources: 1, InitiatorDepth: 1,
				RemoteCMTimeout: 20, StartingPSN: 0xCA0A7A, LocalCMTimeout: 20,
				RetryCount: 7, PKey: 0xFFFF, MTU: ib.MTU4096, RNRRetryCount: 7, MaxCMRetries: 15,
				Primary: mad.Path{
					LocalLID: mad.LIDPermissive, RemoteLID: mad.LIDPermissive, LocalGID: gid("10.77.0.2"),
					RemoteGID: gid("10.77.0.3"), FlowLabel: 0x286CF, HopLimit: 64, AckTimeout: 17,
				},
				Private: data(t, 0, "00409817", 16, "0a4d0002", 32, "0a4d0003")[:92],
			},
		},
		{
			"REP, rping",
			data(t, 0, "6665b005 430d1f47 00000000 00001100 00000000 dea35100 010178e0 505400fffe000003"),
			&mad.REP{
				LocalCommID: 0x6665B005, RemoteCommID: 0x430D1F47, QPN: 0x11, StartingPSN: 0xDEA351,
				ResponderResources: 1, InitiatorDepth: 1, TargetAckDelay: 15, RNRRetryCount: 7,
				CAGUID: 0x505400FFFE000003, Private: full(196),
			},
		},
		{
			"RTU, rping", data(t, 0, "430d1f47 6665b005"),
			&mad.RTU{LocalCommID: 0x430D1F47, RemoteCommID: 0x6665B005, Private: full(224)},
		},
		{
			"DREQ, rping", data(t, 0, "430d1f47 6665b005 000011 00"),
			&mad.DREQ{LocalCommID: 0x430D1F47, RemoteCommID: 0x6665B005, RemoteQPN: 0x11, Private: full(220)},
		},
		{
			"DREP, rping", data(t, 0, "6665b005 430d1f47"),
			&mad.DREP{LocalCommID: 0x6665B005, RemoteCommID: 0x430D1F47, Private: full(224)},
		},
		{
			"REQ, every field",
			data(t, 0, "01020304 00050607 08090a0b0c0d0e0f 1011121314151617", 28, "1c1d1e1f 202122 23 242526 27 28292a",
				43, "ab" /* 21, RC 1, fc */, 44, "2c2d2e", 47, "b5" /* 22, 5 */, 48, "3031", 50,
				"3e" /* 3, RDC, 6 */, 51, "99", /* 9, SRQ, 1 */
				52, "3435 3637", 56, "38393a3b3c3d3e3f4041424344454647", 72, "48494a4b4c4d4e4f5051525354555657",
				88, "89abc0", 91, "2a", 92, "5c", 93, "5d", 94, "e8", 95, "78",
				96, "6061 6263", 100, "6465666768696a6b6c6d6e6f70717273", 116, "7475767778797a7b7c7d7e7f80818283",
				132, "fedcb0", 135, "15", 136, "88", 137, "89", 138, "70", 139, "c8", 140, "8c8d"),
			&mad.REQ{
				LocalCommID: 0x01020304, VendorID: 0x050607, ServiceID: 0x08090A0B0C0D0E0F,
				CAGUID: 0x1011121314151617, QKey: 0x1C1D1E1F, QPN: 0x202122, ResponderResources: 0x23,
				LocalEECN: 0x242526, InitiatorDepth: 0x27, RemoteEECN: 0x28292A,
				RemoteCMTimeout: 21, Transport: mad.TransportUC, FlowControl: true, StartingPSN: 0x2C2D2E,
				LocalCMTimeout: 22, RetryCount: 5, PKey: 0x3031, MTU: ib.MTU1024, RDCExists: true,
				RNRRetryCount: 6, MaxCMRetries: 9, SRQ: true, ExtendedTransport: 1,
				Primary: mad.Path{
					LocalLID: 0x3435, RemoteLID: 0x3637, LocalGID: gid("3839:3a3b:3c3d:3e3f:4041:4243:4445:4647"),
					RemoteGID: gid("4849:4a4b:4c4d:4e4f:5051:5253:5455:5657"), FlowLabel: 0x89ABC,
					PacketRate: 0x2A, TrafficClass: 0x5C, HopLimit: 0x5D, SL: 14, SubnetLocal: true, AckTimeout: 15,
				},
				Alternate: mad.Path{
					LocalLID: 0x6061, RemoteLID: 0x6263, LocalGID: gid("6465:6667:6869:6a6b:6c6d:6e6f:7071:7273"),
					RemoteGID: gid("7475:7677:7879:7a7b:7c7d:7e7f:8081:8283"), FlowLabel: 0xFEDCB,
					PacketRate: 0x15, TrafficClass: 0x88, HopLimit: 0x89, SL: 7, AckTimeout: 25,
				},
				Private: full(92, 0x8C, 0x8D),
			},
		},
		{
			"REP, every field",
			data(t, 0, "01020304 05060708 090a0b0c 0d0e0f a1 111213 a2 151617 a3 18 19", 26,
				"d5" /* 26, 2, fc */, 27, "b0", /* 5, SRQ */
				28, "1c1d1e1f20212223", 36, "2425"),
			&mad.REP{
				LocalCommID: 0x01020304, RemoteCommID: 0x05060708, QKey: 0x090A0B0C, QPN: 0x0D0E0F,
				VendorID: 0xA1A2A3, EECN: 0x111213, StartingPSN: 0x151617, ResponderResources: 0x18,
				InitiatorDepth: 0x19, TargetAckDelay: 26, Failover: 2, FlowControl: true,
				RNRRetryCount: 5, SRQ: true, CAGUID: 0x1C1D1E1F20212223, Private: full(196, 0x24, 0x25),
			},
		},
		{
			"MRA", data(t, 0, "01020304 05060708 40 c0 0a0b"),
			&mad.MRA{LocalCommID: 0x01020304, RemoteCommID: 0x05060708, Acknowledged: mad.SubjectREP,
				ServiceTimeout: 24, Private: full(222, 10, 11)},
		},
		{
			"REJ", data(t, 0, "01020304 05060708 80 04 001c", 12, "e1e2", 84, "5455"),
			&mad.REJ{
				LocalCommID: 0x01020304, RemoteCommID: 0x05060708, Rejected: mad.SubjectOther, InfoLen: 2,
				Reason: mad.RejectConsumer, Info: info, Private: full(148, 0x54, 0x55),
			},
		},
		{
			"SIDR_REQ", data(t, 0, "01020304 8005 0000 0000000001111c06 1011"),
			&mad.SIDRReq{RequestID: 0x01020304, PKey: 0x8005,
				ServiceID: mad.NewServiceID(mad.PortSpaceUDP, 7174), Private: full(216, 0x10, 0x11)},
		},
		{
			"SIDR_REP", data(t, 0, "01020304 03 02 a1a2 08090a a3 0c0d0e0f10111213 14151617 e1e2", 96, "6061"),
			&mad.SIDRRep{
				RequestID: 0x01020304, Status: mad.SIDRNoQP, InfoLen: 2, VendorID: 0xA1A2A3, QPN: 0x08090A,
				ServiceID: 0x0C0D0E0F10111213, QKey: 0x14151617, Info: info, Private: full(136, 0x60, 0x61),
			},
		},
		{
			"LAP", data(t, 0, "01020304 05060708", 12, "0c0d0e 98", 20, "1415 1617 18191a1b1c1d1e1f2021222324252627",
				40, "28292a2b2c2d2e2f3031323334353637 98765 0 3b 3c 2d 98 a8 4041"),
			&mad.LAP{
				LocalCommID: 0x01020304, RemoteCommID: 0x05060708, RemoteQPN: 0x0C0D0E, RemoteCMTimeout: 19,
				Alternate: mad.Path{
					LocalLID: 0x1415, RemoteLID: 0x1617, LocalGID: gid("1819:1a1b:1c1d:1e1f:2021:2223:2425:2627"),
					RemoteGID: gid("2829:2a2b:2c2d:2e2f:3031:3233:3435:3637"), FlowLabel: 0x98765,
					TrafficClass: 0x3B, HopLimit: 0x3C, PacketRate: 0x2D, SL: 9, SubnetLocal: true, AckTimeout: 21,
				},
				Private: full(168, 0x40, 0x41),
			},
		},
		{
			"APR", data(t, 0, "01020304 05060708 02 06", 12, "e1e2", 84, "5455"),
			&mad.APR{
				LocalCommID: 0x01020304, RemoteCommID: 0x05060708, InfoLen: 2, Status: mad.PathQPNMismatch, Info: info,
				Private: full(148, 0x54, 0x55),
			},
		},
	} {
		got := reflect.New(reflect.TypeOf(c.want).Elem()).Interface().(message)
		got.Decode(c.wire)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s decodes to\n%+v, want\n%+v", c.name, got, c.want)
		}
		out := dirty()
		d := (*mad.Data)(out[mad.HeaderBytes:])
		if err := c.want.Put(d); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if *d != *c.wire {
			t.Errorf("%s encodes to\n%x, want\n%x", c.name, *d, *c.wire)
		}
	}
}

// TestTruncations: a datagram of another length is none.
func TestTruncations(t *testing.T) {
	all := datagrams(t)
	for _, d := range all {
		var h mad.Header
		for n := range d.b {
			if _, err := mad.Parse(d.b[:n:n], &h); err != mad.ErrLength {
				t.Fatalf("%v cut to %d bytes: %v", d, n, err)
			}
		}
		if _, err := mad.Parse(append(d.b[:mad.Bytes:mad.Bytes], 0), &h); err != mad.ErrLength {
			t.Fatalf("%v with a byte more: %v", d, err)
		}
	}
	bad := append([]byte(nil), all[0].b...)
	bad[0] = 2
	if _, err := mad.Parse(bad, new(mad.Header)); err != mad.ErrBaseVersion {
		t.Errorf("base version 2: %v", err)
	}
}

// TestCMAHeader reads and writes the headers in the captured REQs.
func TestCMAHeader(t *testing.T) {
	v6 := 0
	for _, d := range datagrams(t) {
		var h mad.Header
		b, _ := mad.Parse(d.b, &h)
		if h.Attribute != mad.AttrREQ {
			continue
		}
		var req mad.REQ
		req.Decode(b)
		var cma mad.CMAHeader
		if !cma.Decode(req.Private) {
			t.Fatalf("%v: no CMA header in %x", d, req.Private)
		}
		if ib.GIDFromAddr(cma.Src) != req.Primary.LocalGID || ib.GIDFromAddr(cma.Dst) != req.Primary.RemoteGID {
			t.Errorf("%v: %+v is not the path %v to %v", d, cma, req.Primary.LocalGID, req.Primary.RemoteGID)
		}
		if cma.Src.Is6() {
			v6++
		}
		space, port, ok := req.ServiceID.Split()
		if space != mad.PortSpaceTCP || !ok || port == 0 {
			t.Errorf("%v: service %v", d, req.ServiceID)
		}
		if want := ib.FlowLabelFromPorts(cma.SrcPort, port); req.Primary.FlowLabel != want {
			t.Errorf("%v: flow label %05x, want %05x", d, req.Primary.FlowLabel, want)
		}
		out := full(92, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)
		if err := cma.Put(out); err != nil ||
			string(out[:mad.CMAHeaderBytes]) != string(req.Private[:mad.CMAHeaderBytes]) {
			t.Errorf("%v: %v, encodes to\n%x, want\n%x", d, err, out, req.Private)
		}
		for n := range mad.CMAHeaderBytes {
			if cma.Decode(req.Private[:n]) {
				t.Errorf("%v: CMA header of %d bytes", d, n)
			}
			if err := cma.Put(make([]byte, n)); err != mad.ErrCMAShort {
				t.Errorf("%v: CMA header put into %d bytes: %v", d, n, err)
			}
		}
		for i, x := range []byte{1, 0x50} { // version 1, IP version 5
			bad := append([]byte(nil), req.Private...)
			bad[i] = x
			if cma.Decode(bad) {
				t.Errorf("%v: byte %d is %02x: accepted", d, i, x)
			}
		}
	}
	if v6 == 0 {
		t.Error("no IPv6 among the REQs")
	}
	a4, a6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for _, bad := range []mad.CMAHeader{{}, {Src: a4}, {Src: a4, Dst: a6}, {Src: a6, Dst: a4}} {
		if err := bad.Put(make([]byte, 36)); err != mad.ErrCMAFamily {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestServiceID(t *testing.T) {
	if s := mad.NewServiceID(mad.PortSpaceTCP, 7174); s != 0x1061C06 || s.String() != "TCP/7174" {
		t.Errorf("TCP port 7174 is %#x, %v", uint64(s), s)
	}
	for s, want := range map[mad.ServiceID]string{
		0x01111C06: "UDP/7174", 0x013F0001: "IB/1", 0x00020001: "IPoIB/1", 0x09991C06: "0x0000000009991c06",
		1 << 40: "0x0000010000000000",
	} {
		if s.String() != want {
			t.Errorf("%#x is %v, want %s", uint64(s), s, want)
		}
	}
	if _, _, ok := mad.ServiceID(1 << 32).Split(); ok {
		t.Error("a service ID of more than 32 bits has a port")
	}
}

// TestNames: reasons, statuses and attributes print as words, each its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for r := mad.RejectReason(1); r <= 36; r++ {
		s := r.String()
		known := r != 34 && r != 36
		if strings.HasPrefix(s, "reject reason") == known || seen[s] {
			t.Errorf("reason %d is %q", uint16(r), s)
		}
		seen[s] = true
	}
	for s := mad.SIDRStatus(0); s <= 6; s++ {
		if strings.HasPrefix(s.String(), "SIDR status") != (s == 6) {
			t.Errorf("SIDR status %d is %q", uint8(s), s)
		}
	}
	for a := mad.AttrREQ; a <= mad.AttrAPR; a++ {
		if newMessage(a) == nil || strings.HasPrefix(a.String(), "attribute") {
			t.Errorf("attribute %#x is %v", uint16(a), a)
		}
	}
	if s := mad.Attribute(0x0F).String(); s != "attribute 0x000f" {
		t.Errorf("attribute 15 is %s", s)
	}
	for m, want := range map[mad.Method]bool{mad.MethodGet: false, mad.MethodSend: false,
		mad.MethodGetResp: true, mad.MethodReportResp: true, mad.MethodTrapRepress: true} {
		if m.Response() != want {
			t.Errorf("method %02x is a response: %v", uint8(m), !want)
		}
	}
	if f := (mad.StatusBadMethodAttr | mad.StatusBusy).InvalidField(); f != mad.StatusBadMethodAttr {
		t.Errorf("invalid field %d", f)
	}
	if mad.ErrLength.Error() == mad.ErrBaseVersion.Error() || mad.ErrCMAShort.Error() == mad.ErrCMAFamily.Error() {
		t.Error("two errors have one text")
	}
}

func TestNoAllocs(t *testing.T) {
	for _, d := range datagrams(t) {
		var h mad.Header
		b, _ := mad.Parse(d.b, &h)
		m := newMessage(h.Attribute)
		out := new([mad.Bytes]byte)
		var cma mad.CMAHeader
		if n := testing.AllocsPerRun(50, func() {
			mad.Parse(d.b, &h)
			m.Decode(b)
			if err := m.Put(h.Put(out)); err != nil {
				t.Error(err)
			}
			if cma.Decode(b[140:]) {
				cma.Put(out[140:])
			}
		}); n != 0 {
			t.Errorf("%v, %v: %v allocations", d, h.Attribute, n)
		}
	}
}

// TestHeader pins the offsets of the common header.
func TestHeader(t *testing.T) {
	h := mad.Header{
		BaseVersion: 1, Class: 2, ClassVersion: 3, Method: 4, Status: 0x0506, ClassSpecific: 0x0708,
		TID: 0x090A0B0C0D0E0F10, Attribute: 0x1112, Reserved: 0x1314, Modifier: 0x15161718,
	}
	var b [mad.Bytes]byte
	d := h.Put(&b)
	for i := range mad.HeaderBytes {
		if want := byte(i + 1); b[i] != want {
			t.Errorf("byte %d is %#x, want %#x", i, b[i], want)
		}
	}
	binary.BigEndian.PutUint16(d[:], 0xABCD)
	if b[mad.HeaderBytes] != 0xAB {
		t.Error("the data is not where the header ends")
	}
	var back mad.Header
	if d2, err := mad.Parse(b[:], &back); err != mad.OK || back != h || d2 != d {
		t.Errorf("%+v comes back as %+v, %v", h, back, err)
	}
}
