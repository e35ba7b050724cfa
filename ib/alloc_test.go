package ib_test

import (
	"testing"

	"github.com/goroce/goroce/ib"
)

// TestNoAllocs holds what the data path calls to zero allocations.
func TestNoAllocs(t *testing.T) {
	frames := append(oneOfEach(t), vectors[6].frame(t), vectors[7].frame(t))
	var (
		grh  [ib.GRHBytes]byte
		p    ib.Packet
		head [ib.MaxHeaderBytes]byte
		sum  uint32
		buf  = make([]byte, 0, ib.MaxPacketBytes)
	)
	for _, f := range frames {
		icrc := f.icrc()
		for name, fn := range map[string]func(){
			"Decode":     func() { p.Decode(f.udp) },
			"Decode cut": func() { p.Decode(f.udp[:10]) },
			"PutHeaders": func() { p.Decode(f.udp); p.PutHeaders(head[:]) },
			"Append":     func() { p.Decode(f.udp); buf = p.Append(buf[:0], icrc, f.id) },
			"GRH": func() {
				g := ib.GRH{Src: f.flow.Src, Dst: f.flow.Dst, PayloadBytes: len(f.udp)}
				g.Put(&grh)
				g.Decode(&grh)
			},
			"NewICRC":        func() { c := ib.NewICRC(f.flow); sum += c.Head(100, 1, head[:12]) },
			"Checksum":       func() { sum += icrc.Checksum(f.id, f.udp) },
			"Verify":         func() { icrc.Verify(f.id+1, f.udp) },
			"VerifyFlushRxe": func() { icrc.VerifyFlushRxe(f.id+1, f.udp) },
			"FlushRxe":       func() { sum += icrc.ChecksumFlushRxe(f.id, f.udp) },
			"Extend":         func() { sum = ib.Extend(sum, f.udp) },
		} {
			if n := testing.AllocsPerRun(100, fn); n != 0 {
				t.Errorf("%v: %s allocates %v times", f, name, n)
			}
		}
	}
}
