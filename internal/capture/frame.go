package capture

import (
	"net"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
)

// Frame is an Ethernet frame with a UDP packet, to be built.
type Frame struct {
	SrcMAC, DstMAC net.HardwareAddr
	Tagged         bool // has an 802.1Q tag
	VLAN           uint16
	Priority       uint8 // of the tag

	Flow     ib.Flow // IPv4 or IPv6, by its addresses
	HopLimit uint8
	Payload  []byte

	// For IPv4:
	Ident     uint16
	DF, More  bool
	FragUnits uint16 // offset of the fragment in units of 8 bytes
	Options   []IPv4Option
}

// IPv4Option is an option of an IPv4 header. Types 0 and 1 have no data.
type IPv4Option struct {
	Type uint8
	Data []byte
}

// Build makes the frame, with right lengths and checksums.
func (f *Frame) Build() ([]byte, error) {
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	}
	proto := layers.EthernetTypeIPv4
	if f.Flow.Dst.Is6() {
		proto = layers.EthernetTypeIPv6
		ip = &layers.IPv6{
			Version: 6, HopLimit: f.HopLimit, NextHeader: layers.IPProtocolUDP,
			SrcIP: f.Flow.Src.AsSlice(), DstIP: f.Flow.Dst.AsSlice(),
		}
	} else {
		ip = f.ipv4()
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(f.Flow.SrcPort), DstPort: layers.UDPPort(f.Flow.DstPort)}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	eth := &layers.Ethernet{SrcMAC: f.SrcMAC, DstMAC: f.DstMAC, EthernetType: proto}
	stack := []gopacket.SerializableLayer{eth}
	if f.Tagged {
		eth.EthernetType = layers.EthernetTypeDot1Q
		stack = append(stack, &layers.Dot1Q{Type: proto, Priority: f.Priority, VLANIdentifier: f.VLAN})
	}
	buf := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		append(stack, ip, udp, gopacket.Payload(f.Payload))...)
	return buf.Bytes(), err
}

func (f *Frame) ipv4() *layers.IPv4 {
	ip := &layers.IPv4{
		Version: 4, TTL: f.HopLimit, Id: f.Ident, Protocol: layers.IPProtocolUDP, FragOffset: f.FragUnits,
		SrcIP: f.Flow.Src.AsSlice(), DstIP: f.Flow.Dst.AsSlice(),
	}
	if f.DF {
		ip.Flags |= layers.IPv4DontFragment
	}
	if f.More {
		ip.Flags |= layers.IPv4MoreFragments
	}
	for _, o := range f.Options {
		ip.Options = append(ip.Options,
			layers.IPv4Option{OptionType: o.Type, OptionLength: uint8(len(o.Data) + 2), OptionData: o.Data})
	}
	return ip
}
