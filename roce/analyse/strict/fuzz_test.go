package strict_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/strict"
	"github.com/goroce/goroce/roce/pcap"
)

// FuzzRead checks any bytes as a capture file: nothing panics, and what is counted is what there
// is.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"rping.pcap", "uc_pingpong.pcap", "atomic_fa.pcap"} {
		b, err := os.ReadFile(root + "/ib/testdata/captures/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 8<<10)], byte(0))
		f.Add(b[:min(len(b), 8<<10)], byte(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, o byte) {
		rep, err := strict.Read(bytes.NewReader(b), strict.Options{Complete: o&1 != 0, Lossless: o&2 != 0})
		if rep == nil {
			if err == nil {
				t.Fatal("neither a report nor an error")
			}
			return
		}
		consistent(t, rep)
	})
}

// FuzzPackets draws packets of one connection from bytes: near to right ones, so that the automaton
// goes far. Each has six bytes: opcode, two of PSN, flags, length, and syndrome or a field.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{0x06, 0, 0, 0, 4, 0, 0x08, 0, 1, 0, 1, 0, 0x11, 0, 1, 1, 0, 0x1f}, byte(0))
	f.Add([]byte{0x0c, 0, 0, 0, 16, 0, 0x0d, 0, 0, 1, 4, 0x1f, 0x0f, 0, 3, 1, 4, 0x1f, 0x0c, 0, 2, 0, 8, 0,
		0x11, 0, 2, 1, 0, 0x60}, byte(3))
	f.Add([]byte{0x04, 0, 0, 0, 1, 0, 0x11, 0, 0, 1, 0, 0x2c, 0x04, 0, 1, 0, 1, 0, 0x11, 0, 0, 1, 0, 0x62}, byte(3))
	f.Fuzz(func(t *testing.T, b []byte, o byte) {
		w := newWire()
		for ; len(b) >= 6 && len(w.all) < 500; b = b[6:] {
			pk := bth(ib.Opcode(b[0]), int(b[1])<<12|int(b[2]))
			if b[3]&0x40 != 0 {
				pk.PSN = ib.PSN(0xffff00) + ib.PSN(b[2])
			}
			n := int(b[4]) * 64
			i := pk.Opcode.Info()
			if i.HeaderLen == 0 || n > 4096 || i.Payload == ib.PayloadNone {
				n = 0
			}
			pk.RETH = ib.RETH{VA: 0x10000 + uint64(b[5]&0x0f)*256, RKey: 7, Len: uint32(b[4]) * 64}
			pk.AETH = ib.AETH{Syndrome: ib.Syndrome(b[5]), MSN: ib.MSN(b[3] >> 2 & 7)}
			if i.HeaderLen == 0 {
				pk.Opcode = ib.RCSendOnly
				op := b[0]
				w.spoil = func(_ *pcap.Packet, d []byte) []byte { d[0] = op; return d }
			}
			w.wait(int64(b[3]>>4)*1e6).put(int(b[3]&1), pk, n)
			w.spoil = nil
		}
		consistent(t, check(strict.Options{Complete: o&1 != 0, Lossless: o&2 != 0, MaxViolations: 1 << 20}, w.all))
	})
}

// consistent holds a report against itself.
func consistent(t *testing.T, rep *strict.Report) {
	certain, possible := 0, 0
	for _, c := range rep.Broken {
		certain, possible = certain+c.Certain, possible+c.Possible
	}
	shown := 0
	for _, v := range rep.Violations {
		if v.Certain != (len(v.Excuses) == 0) || v.Allowed == "" || v.Came == "" {
			t.Fatalf("%+v", v)
		}
		shown += 1 + v.More
	}
	if shown > certain+possible || rep.Certain() != (certain > 0) || rep.Checked > rep.Packets {
		t.Fatalf("%d are shown, of %d certain and %d possible", shown, certain, possible)
	}
}
