package ether

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// goldenSend is an RC SEND ONLY of rxe 6.12 with 16 bytes of payload, from the IP header
// to the ICRC.
const goldenSend = "4500003ca7c1400040117e510a4d00020a4d0003c6c512b7002800000400ffff0000001180dea351000055c0359bf37000000550000000405c961a92"

var (
	macA = [6]byte{2, 0, 0, 0, 0, 1}
	macB = [6]byte{2, 0, 0, 0, 0, 2}
)

// frame makes an Ethernet frame of the golden packet with another PSN.
func frame(t *testing.T, psn uint32) []byte {
	t.Helper()
	ip, err := hex.DecodeString(goldenSend)
	if err != nil {
		t.Fatal(err)
	}
	f := slices.Concat(macB[:], macA[:], []byte{8, 0}, ip)
	p, ok := Decode(f)
	if !ok {
		t.Fatal("the golden packet does not decode")
	}
	if psn != p.PSN {
		b := p.BTH()
		b[9], b[10], b[11] = byte(psn>>16), byte(psn>>8), byte(psn)
		p.Seal()
	}
	return f
}

// device is a port's device: what the test sends comes out of Read, what the switch
// writes goes to got.
type device struct {
	in   chan []byte
	got  chan []byte
	gone chan struct{}
	once sync.Once
}

func newDevice() *device {
	return &device{in: make(chan []byte), got: make(chan []byte, 64), gone: make(chan struct{})}
}

func (d *device) Read(b []byte) (int, error) {
	select {
	case f := <-d.in:
		return copy(b, f), nil
	case <-d.gone:
		return 0, io.EOF
	}
}

func (d *device) Write(b []byte) (int, error) { d.got <- slices.Clone(b); return len(b), nil }
func (d *device) Close() error                { d.once.Do(func() { close(d.gone) }); return nil }

// bench is a switch with two devices.
func bench(t *testing.T) (s *Switch, a, b *device) {
	t.Helper()
	s, a, b = New(), newDevice(), newDevice()
	for _, x := range []struct {
		name string
		d    *device
	}{{"a", a}, {"b", b}} {
		if _, err := s.Attach(x.name, x.d); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.Close)
	return s, a, b
}

// psns takes n packets from a device.
func psns(t *testing.T, d *device, n int) []uint32 {
	t.Helper()
	var out []uint32
	for range n {
		p, ok := Decode(<-d.got)
		if !ok {
			t.Fatal("not a RoCE packet")
		}
		out = append(out, p.PSN)
	}
	return out
}

func TestDecodeGolden(t *testing.T) {
	f := frame(t, 0xdea351)
	p, ok := Decode(append(f, 0, 0, 0)) // Ethernet padding
	if !ok || len(p.Frame) != len(f) {
		t.Fatal("padding was not cut off")
	}
	if p.Opcode != OpSendOnly || p.QPN != 0x11 || p.PSN != 0xdea351 || !p.AckReq || p.MigReq ||
		p.PKey != 0xffff || p.SrcPort != 0xc6c5 ||
		p.Src != netip.MustParseAddr("10.77.0.2") || p.Dst != netip.MustParseAddr("10.77.0.3") || len(p.Body()) != 16 {
		t.Fatalf("%+v", p)
	}
	if !p.ICRCValid() || p.ICRC() != 0x921a965c {
		t.Fatalf("ICRC %#x", p.ICRC())
	}
	for n := range f {
		if _, ok := Decode(f[:n]); ok {
			t.Errorf("%d bytes of %d decode", n, len(f))
		}
	}
}

func TestMarkCEKeepsICRC(t *testing.T) {
	p, _ := Decode(frame(t, 1))
	p.MarkCE()
	q, ok := Decode(p.Frame)
	if !ok || q.ECN != 3 || !q.ICRCValid() {
		t.Fatalf("%+v", q)
	}
	var sum uint32
	for i := 0; i < ip4Len; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(q.Frame[ethLen+i:]))
	}
	if sum>>16+sum&0xffff != 0xffff {
		t.Fatal("IP header checksum")
	}
}

func TestRules(t *testing.T) {
	tests := []struct {
		name string
		rule *Rule
		send []uint32
		want []uint32
	}{
		{"none", &Rule{Match: Match{PSN: 99}, Kind: Drop}, []uint32{1, 2, 3}, []uint32{1, 2, 3}},
		{"drop once", &Rule{Match: Match{PSN: 2}, Kind: Drop}, []uint32{1, 2, 3, 2}, []uint32{1, 3, 2}},
		{"drop the second", &Rule{Match: Match{PSN: 2}, Nth: 2, Kind: Drop}, []uint32{2, 2, 2}, []uint32{2, 2}},
		{"drop twice", &Rule{Match: Match{PSN: 2}, Times: 2, Kind: Drop}, []uint32{2, 2, 2, 4}, []uint32{2, 4}},
		{"drop always", &Rule{Match: Match{PSN: 2}, Times: -1, Kind: Drop}, []uint32{2, 2, 2, 4}, []uint32{4}},
		{"any PSN", &Rule{Match: Match{AnyPSN: true}, Kind: Drop}, []uint32{7, 8}, []uint32{8}},
		{"other port", &Rule{Match: Match{PSN: 2, From: "b"}, Kind: Drop}, []uint32{2}, []uint32{2}},
		{"other QP", &Rule{Match: Match{PSN: 2, QPN: 0x12}, Kind: Drop}, []uint32{2}, []uint32{2}},
		{"this QP", &Rule{Match: Match{PSN: 2, QPN: 0x11}, Kind: Drop}, []uint32{2, 3}, []uint32{3}},
		{"other opcode", &Rule{Match: Match{PSN: 2, Opcodes: []uint8{OpAcknowledge}}, Kind: Drop},
			[]uint32{2}, []uint32{2}},
		{"duplicate", &Rule{Match: Match{PSN: 2}, Kind: Duplicate, Copies: 2}, []uint32{1, 2, 3},
			[]uint32{1, 2, 2, 2, 3}},
		{"hold", &Rule{Match: Match{PSN: 2}, Kind: Hold, Behind: 2, MaxHold: time.Hour},
			[]uint32{1, 2, 3, 4, 5}, []uint32{1, 3, 4, 2, 5}},
		{"hold the last", &Rule{Match: Match{PSN: 2}, Kind: Hold}, []uint32{1, 2}, []uint32{1, 2}},
		{"observe", &Rule{Match: Match{AnyPSN: true}, Times: -1, Kind: Observe}, []uint32{1, 2}, []uint32{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, a, b := bench(t)
			tt.rule.Match.Dst = netip.MustParseAddr("10.77.0.3")
			s.Add(tt.rule)
			for _, psn := range tt.send {
				a.in <- frame(t, psn)
			}
			if got := psns(t, b, len(tt.want)); !slices.Equal(got, tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			if len(b.got) != 0 {
				t.Fatalf("%d packets too many", len(b.got))
			}
		})
	}
}

func TestCorruptAndRewrite(t *testing.T) {
	s, a, b := bench(t)
	bad := &Rule{Match: Match{PSN: 1}, Kind: Corrupt, Offset: -5}
	new := &Rule{Match: Match{PSN: 2}, Kind: Rewrite, Edit: func(p *Packet) { p.BTH()[0] = OpSendMiddle }}
	s.Add(bad, new)
	tr := s.Trace(nil)
	a.in <- frame(t, 1)
	a.in <- frame(t, 2)
	p, _ := Decode(<-b.got)
	if p.ICRCValid() || p.PSN != 1 {
		t.Fatal("corrupt: the ICRC is right")
	}
	p, _ = Decode(<-b.got)
	if !p.ICRCValid() || p.Opcode != OpSendMiddle {
		t.Fatal("rewrite: the ICRC is wrong")
	}
	if bad.Hits() != 1 || new.Hits() != 1 {
		t.Fatal("hits")
	}
	ev := tr.Events()
	if len(ev) != 2 || ev[0].Fate != "corrupt" || ev[1].Fate != "rewrite" || ev[0].From != "a" || ev[1].At < ev[0].At {
		t.Fatalf("%v", ev)
	}
}

func TestLearning(t *testing.T) {
	s, a, b := bench(t)
	c := newDevice()
	if _, err := s.Attach("c", c); err != nil {
		t.Fatal(err)
	}
	a.in <- frame(t, 1) // B is unknown: flooded
	<-b.got
	<-c.got
	back := slices.Concat(macA[:], macB[:], []byte{0x88, 0xb5}, make([]byte, 46))
	b.in <- back // A is known
	<-a.got
	a.in <- frame(t, 2) // and now B is
	<-b.got
	if len(c.got) != 0 {
		t.Fatal("a frame for B went to C")
	}
	s.Port("b").Detach()
	a.in <- frame(t, 3) // B is gone: flooded again
	<-c.got
	if s.Port("b") != nil {
		t.Fatal("the port is still there")
	}
}

func TestInjectAndCapture(t *testing.T) {
	s, _, b := bench(t)
	path := filepath.Join(t.TempDir(), "x.pcap")
	c, err := s.Capture(path, func(p *Packet) bool { return p.PSN == 7 })
	if err != nil {
		t.Fatal(err)
	}
	s.Port("b").Inject(frame(t, 6))
	s.Port("b").Inject(frame(t, 7))
	if got := psns(t, b, 2); !slices.Equal(got, []uint32{6, 7}) {
		t.Fatal(got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := c.Opcodes(); len(got) != 1 || got[OpSendOnly] != 1 {
		t.Fatalf("opcodes %v, want one SEND ONLY", got)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := 24 + 16 + len(frame(t, 7)); len(raw) != want {
		t.Fatalf("%d bytes, want %d", len(raw), want)
	}
	if p, ok := Decode(raw[40:]); !ok || p.PSN != 7 {
		t.Fatal("the record is not the packet")
	}
}

func TestCloseEndsHeldPackets(t *testing.T) {
	s, a, _ := bench(t)
	s.Add(&Rule{Match: Match{PSN: 1}, Kind: Hold, Behind: 100, MaxHold: time.Hour})
	tr := s.Trace(nil)
	a.in <- frame(t, 1)
	for len(tr.Events()) == 0 {
		runtime.Gosched()
	}
	s.Close() // within the hour
}
