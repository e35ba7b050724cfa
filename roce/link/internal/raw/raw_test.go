package raw

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/rtnl"
	"github.com/stretchr/testify/require"
)

var flows = []Flow{
	{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.255"), SrcPort: 0xC001, DstPort: 4791, TrafficClass: 26<<2 | 2, HopLimit: 9},
	{Src: netip.MustParseAddr("255.254.253.252"), Dst: netip.MustParseAddr("251.250.249.248"), SrcPort: 0xFFFF, DstPort: 4791, TrafficClass: 0xFF, VLAN: 4094},
	{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8:ffff::2"), SrcPort: 0xC001, DstPort: 4791, TrafficClass: 0xA5, HopLimit: 1, FlowLabel: 0xFFFABCDE},
	{Src: netip.MustParseAddr("fe80::1"), Dst: netip.MustParseAddr("fe80::2"), SrcPort: 1, DstPort: 4791, TrafficClass: 26 << 2, VLAN: 1},
}

var macA, macB = rtnl.MAC{2, 0, 0, 0, 0, 1}, rtnl.MAC{2, 0, 0, 0, 0, 2}

func build(f *Flow, payload int) []byte {
	var h Header
	h.Init(f, macA, macB)
	b := make([]byte, h.Len()+payload)
	h.Put(b, payload)
	for i := range payload {
		b[h.Len()+i] = byte(i)
	}
	return b
}

// Headers are what gopacket reads, and what it would write.
func TestHeader(t *testing.T) {
	for _, f := range flows {
		for _, size := range []int{16, 64, 4096 + 60, 65000} {
			b := build(&f, size)
			p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
			require.Nil(t, p.ErrorLayer())
			eth := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
			require.Equal(t, net.HardwareAddr(macA[:]), eth.SrcMAC)
			require.Equal(t, net.HardwareAddr(macB[:]), eth.DstMAC)
			tag, tagged := p.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q)
			require.Equal(t, f.VLAN != 0, tagged)
			if tagged {
				require.Equal(t, f.VLAN, tag.VLANIdentifier)
				require.Equal(t, f.TrafficClass>>5, tag.Priority, "the class of the DSCP")
			}
			udp := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
			require.EqualValues(t, f.SrcPort, udp.SrcPort)
			require.EqualValues(t, f.DstPort, udp.DstPort)
			require.EqualValues(t, size+ib.UDPHeaderBytes, udp.Length)
			require.Zero(t, udp.Checksum)
			ttl := f.HopLimit
			if ttl == 0 {
				ttl = defaultTTL
			}
			if f.Dst.Is4() {
				ip := p.NetworkLayer().(*layers.IPv4)
				require.True(t, ip.SrcIP.Equal(f.Src.AsSlice()) && ip.DstIP.Equal(f.Dst.AsSlice()))
				require.EqualValues(t, f.TrafficClass, ip.TOS)
				require.Equal(t, ttl, ip.TTL)
				require.Zero(t, ip.Id)
				require.Equal(t, layers.IPv4DontFragment, ip.Flags)
				want := gopacket.NewSerializeBuffer()
				require.NoError(t, ip.SerializeTo(want, gopacket.SerializeOptions{ComputeChecksums: true}))
				require.Equal(t, want.Bytes(), ip.Contents, "with its checksum")
			} else {
				ip := p.NetworkLayer().(*layers.IPv6)
				require.True(t, ip.SrcIP.Equal(f.Src.AsSlice()) && ip.DstIP.Equal(f.Dst.AsSlice()))
				require.EqualValues(t, f.TrafficClass, ip.TrafficClass)
				require.Equal(t, ttl, ip.HopLimit)
				require.Equal(t, f.FlowLabel&0xFFFFF, ip.FlowLabel)
				require.EqualValues(t, size+ib.UDPHeaderBytes, ip.Length)
			}
		}
	}
}

// What was built is read back; padding is left out, and no truncation passes.
func TestParse(t *testing.T) {
	for _, f := range flows {
		b := build(&f, 64)
		var d receive.Datagram
		require.True(t, Parse(&d, append(b[:len(b):len(b)], 1, 2, 3), f.DstPort))
		require.Equal(t, b[len(b)-64:], d.Data)
		require.Equal(t, f.Src, d.Source.Src)
		require.Equal(t, f.Dst, d.Source.Dst)
		require.Equal(t, f.SrcPort, d.Source.SrcPort)
		require.Equal(t, f.TrafficClass, d.TrafficClass)
		require.False(t, Parse(&d, b, f.DstPort+1))
		for n := range b {
			require.False(t, Parse(&d, b[:n], f.DstPort), "%d of %d bytes", n, len(b))
		}
	}
}

// Any bytes parse without panic; what passes lies within the frame, and
// gopacket agrees.
func FuzzParse(f *testing.F) {
	for _, flow := range flows {
		f.Add(build(&flow, 20))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d receive.Datagram
		if !Parse(&d, b, 4791) {
			return
		}
		require.LessOrEqual(t, len(d.Data), len(b)-EthernetBytes-ip4Overhead)
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.NoCopy)
		udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		require.True(t, ok)
		require.EqualValues(t, 4791, udp.DstPort)
		require.EqualValues(t, d.Source.SrcPort, udp.SrcPort)
		require.Equal(t, len(d.Data), len(udp.Payload))
	})
}

func TestMulticastMAC(t *testing.T) {
	require.Equal(t, rtnl.MAC{0x01, 0x00, 0x5E, 0x01, 0x02, 0x03}, MulticastMAC(netip.MustParseAddr("239.129.2.3")))
	require.Equal(t, rtnl.MAC{0x33, 0x33, 0, 1, 0, 2}, MulticastMAC(netip.MustParseAddr("ff15::1:2")))
}

func TestHeaderNoAllocation(t *testing.T) {
	var h Header
	h.Init(&flows[0], macA, macB)
	b := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Put(b, 40) }))
}
