package ib_test

import (
	"testing"

	"github.com/goroce/goroce/ib"
)

// TestSourcePort pins what rdma_rxe was seen to send.
func TestSourcePort(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want uint16
	}{
		{"QP 1", ib.DatagramSourcePort(ib.QPNGSI), 55410},
		{"UD QP 0x13", ib.DatagramSourcePort(0x13), 0xD078},
		{"RDMA-CM 0x9817 to 7174", ib.SourcePort(ib.FlowLabelFromPorts(0x9817, 7174)), 50885},
		{"flow label 0xFFFFF", ib.SourcePort(0xFFFFF), 0xC000 | 0x3FFF ^ 0x3F},
		{"flow label over 20 bits", ib.SourcePort(0x100000), 0xC000},
	} {
		if c.got != c.want {
			t.Errorf("%s: source port %d, want %d", c.what, c.got, c.want)
		}
	}
	if fl := ib.FlowLabelFromPorts(0x9817, 7174); fl != 0x286CF {
		t.Errorf("flow label %#x, want 0x286cf", fl)
	}
}

// TestSourcePortAgainstCaptures derives the source ports of connections made
// without RDMA-CM from the two queue pair numbers seen.
func TestSourcePortAgainstCaptures(t *testing.T) {
	for _, name := range []string{
		"rc_pingpong.pcap", "uc_pingpong.pcap", "rc_pingpong_loss.pcap", "write_bw.pcap",
		"read_bw.pcap", "send_bw.pcap", "write_lat.pcap", "atomic_fa.pcap", "atomic_cs.pcap",
	} {
		frames := capture(t, name)
		qpn := map[string]ib.QPN{} // by destination address
		for _, f := range frames {
			var p ib.Packet
			p.Decode(f.udp)
			qpn[f.flow.Dst.String()] = p.DestQP
		}
		for _, f := range frames {
			a, b := qpn[f.flow.Dst.String()], qpn[f.flow.Src.String()]
			if b == 0 { // nothing came back in this capture
				t.Errorf("%s: only one direction", name)
				break
			}
			if want := ib.SourcePort(ib.FlowLabelFromQPNs(a, b)); f.flow.SrcPort != want {
				t.Errorf("%v: source port %d, want %d", f, f.flow.SrcPort, want)
				break
			}
		}
	}
	for _, f := range capture(t, "ud_pingpong.pcap") {
		var p ib.Packet
		p.Decode(f.udp)
		if want := ib.DatagramSourcePort(p.DETH.SrcQP); f.flow.SrcPort != want {
			t.Errorf("%v: source port %d, want %d", f, f.flow.SrcPort, want)
		}
	}
}

// TestNewCNP rebuilds the CNP of a ConnectX.
func TestNewCNP(t *testing.T) {
	for _, v := range vectors {
		if v.want.Opcode != ib.CNP {
			continue
		}
		f := v.frame(t)
		p := ib.NewCNP(0x118)
		if b := p.Append(nil, f.icrc(), f.id); string(b) != string(f.udp) {
			t.Errorf("CNP\n%x, want\n%x", b, f.udp)
		}
	}
}
