package ib_test

import (
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/goroce/goroce/ib"
)

// TestAgainstGopacket holds the tests' own reading of the captures, Ethernet
// to UDP, against gopacket's: what the other tests check is what was on the
// wire.
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
		r, err := pcapgo.NewReader(file)
		if err != nil {
			t.Fatal(name, err)
		}
		for index := 1; ; index++ {
			data, _, err := r.ReadPacketData()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(name, err)
			}
			pkt := gopacket.NewPacket(data, r.LinkType(), gopacket.Default)
			udp, _ := pkt.Layer(layers.LayerTypeUDP).(*layers.UDP)
			if udp == nil || udp.DstPort != ib.UDPPort {
				continue
			}
			if len(frames) == 0 || frames[0].index != index {
				t.Fatalf("%s: frame %d is RoCE v2 for gopacket only", name, index)
			}
			f := frames[0]
			frames = frames[1:]
			flow := ib.Flow{SrcPort: uint16(udp.SrcPort), DstPort: uint16(udp.DstPort)}
			switch ip := pkt.NetworkLayer().(type) {
			case *layers.IPv4:
				flow.Src, _ = netip.AddrFromSlice(ip.SrcIP)
				flow.Dst, _ = netip.AddrFromSlice(ip.DstIP)
				if ip.Id != f.id || ip.Flags&layers.IPv4DontFragment == 0 != f.noDF {
					t.Errorf("%v: identification %d flags %v for gopacket, %d noDF=%v here", f, ip.Id, ip.Flags, f.id, f.noDF)
				}
			case *layers.IPv6:
				flow.Src, _ = netip.AddrFromSlice(ip.SrcIP)
				flow.Dst, _ = netip.AddrFromSlice(ip.DstIP)
			default:
				t.Fatalf("%v: network layer %T", f, ip)
			}
			if flow != f.flow {
				t.Errorf("%v: flow %+v for gopacket, %+v here", f, flow, f.flow)
			}
			if string(udp.Payload) != string(f.udp) {
				t.Errorf("%v: UDP payload\n%x for gopacket\n%x here", f, udp.Payload, f.udp)
			}
		}
		if len(frames) != 0 {
			t.Errorf("%s: %d frames are RoCE v2 here only", name, len(frames))
		}
	}
}
