package ib_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	pcap "github.com/goroce/goroce/internal/capture"
)

// TestAgainstGopacket holds the tests' own reading of the captures, Ethernet to UDP, against
// gopacket's: what the other tests check is what was on the wire.
func TestAgainstGopacket(t *testing.T) {
	own := map[string][]frame{}
	for _, f := range captures(t) {
		own[f.capture] = append(own[f.capture], f)
	}
	for name, frames := range own {
		file, err := os.Open(filepath.Join("testdata", "captures", name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r, err := pcap.NewReader(file)
		if err != nil {
			t.Fatal(name, err)
		}
		for index := 1; ; index++ {
			pkt, _, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(name, err)
			}
			if !pkt.RoCE() {
				continue
			}
			if len(frames) == 0 || frames[0].index != index {
				t.Fatalf("%s: frame %d is RoCE v2 for gopacket only", name, index)
			}
			f := frames[0]
			frames = frames[1:]
			if f.flow.Src.Is4() && (pkt.Ident != f.id || pkt.DF == f.noDF) {
				t.Errorf("%v: identification %d DF=%v for gopacket, %d noDF=%v here", f, pkt.Ident,
					pkt.DF, f.id, f.noDF)
			}
			if pkt.Flow != f.flow {
				t.Errorf("%v: flow %+v for gopacket, %+v here", f, pkt.Flow, f.flow)
			}
			if string(pkt.Payload) != string(f.udp) {
				t.Errorf("%v: UDP payload\n%x for gopacket\n%x here", f, pkt.Payload, f.udp)
			}
		}
		if len(frames) != 0 {
			t.Errorf("%s: %d frames are RoCE v2 here only", name, len(frames))
		}
	}
}
