package capture

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
)

// Packet is what an independent decoder reads in a packet. What the packet does not have
// is the zero value.
type Packet struct {
	Data []byte // all of it
	Err  error  // why the decoder went no further

	SrcMAC, DstMAC net.HardwareAddr
	Tagged         bool // there is an 802.1Q tag
	VLAN           uint16
	Priority       uint8 // of the tag

	// Flow is the addresses and, of a UDP packet, the ports.
	Flow         ib.Flow
	TrafficClass uint8
	HopLimit     uint8
	FlowLabel    uint32 // IPv6
	Ident        uint16 // IPv4
	DF, More     bool   // IPv4: the flags "don't fragment" and "more fragments"
	IPBytes      int    // length of the IP packet as its header says

	UDP         bool
	UDPBytes    int // length of the UDP packet as its header says
	UDPChecksum uint16
	Payload     []byte // of UDP, or of ICMPv4

	ICMPv4 bool

	decoded gopacket.Packet
}

// Parse takes an Ethernet frame apart.
func Parse(b []byte) *Packet { return parse(b, layers.LayerTypeEthernet) }

// ParseIP takes an IP packet apart.
func ParseIP(b []byte) *Packet { return parse(b, layers.LinkTypeRaw) }

func parse(b []byte, first gopacket.Decoder) *Packet {
	d := gopacket.NewPacket(b, first, gopacket.Default)
	p := &Packet{Data: d.Data(), decoded: d}
	if e := d.ErrorLayer(); e != nil {
		p.Err = e.Error()
	}
	for _, l := range d.Layers() {
		switch l := l.(type) {
		case *layers.Ethernet:
			p.SrcMAC, p.DstMAC = l.SrcMAC, l.DstMAC
		case *layers.Dot1Q:
			p.Tagged, p.VLAN, p.Priority = true, l.VLANIdentifier, l.Priority
		case *layers.IPv4:
			p.Flow.Src, p.Flow.Dst = addr(l.SrcIP), addr(l.DstIP)
			p.TrafficClass, p.HopLimit, p.Ident, p.IPBytes = l.TOS, l.TTL, l.Id, int(l.Length)
			p.DF, p.More = l.Flags&layers.IPv4DontFragment != 0, l.Flags&layers.IPv4MoreFragments != 0
		case *layers.IPv6:
			p.Flow.Src, p.Flow.Dst = addr(l.SrcIP), addr(l.DstIP)
			p.TrafficClass, p.HopLimit, p.FlowLabel = l.TrafficClass, l.HopLimit, l.FlowLabel
			p.IPBytes = ib.IPv6HeaderBytes + int(l.Length)
		case *layers.UDP:
			p.UDP, p.UDPBytes, p.UDPChecksum, p.Payload = true, int(l.Length), l.Checksum, l.Payload
			p.Flow.SrcPort, p.Flow.DstPort = uint16(l.SrcPort), uint16(l.DstPort)
		case *layers.ICMPv4:
			p.ICMPv4, p.Payload = true, l.Payload
		}
	}
	return p
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a
}

// RoCE reports whether it is UDP to the port of RoCE v2.
func (p *Packet) RoCE() bool { return p.UDP && p.Flow.DstPort == ib.UDPPort }

// CheckIPv4Header returns an error if the IPv4 header is not the one, checksum included,
// that the decoder would write itself.
func (p *Packet) CheckIPv4Header() error {
	ip, ok := p.decoded.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	if !ok {
		return fmt.Errorf("no IPv4 header")
	}
	buf, again := gopacket.NewSerializeBuffer(), *ip
	if err := again.SerializeTo(buf, gopacket.SerializeOptions{ComputeChecksums: true}); err != nil {
		return err
	}
	if !bytes.Equal(buf.Bytes(), ip.Contents) {
		return fmt.Errorf("IPv4 header %x, want %x", ip.Contents, buf.Bytes())
	}
	return nil
}

// WantUDPChecksum returns the checksum that the UDP packet should have.
func (p *Packet) WantUDPChecksum() (uint16, error) {
	udp, ok := p.decoded.TransportLayer().(*layers.UDP)
	if !ok {
		return 0, fmt.Errorf("no UDP header")
	}
	again := *udp
	if err := again.SetNetworkLayerForChecksum(p.decoded.NetworkLayer()); err != nil {
		return 0, err
	}
	err := gopacket.SerializeLayers(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{ComputeChecksums: true},
		&again, gopacket.Payload(udp.Payload))
	return again.Checksum, err
}

// Guessed reports whether tshark, by its field frame.protocols, took what InfiniBand
// carries for another protocol: random bytes look like anything. What it then calls
// malformed is its guess, and says nothing of the packet.
func Guessed(protocols string) bool {
	_, payload, _ := strings.Cut(protocols, ":infiniband")
	return payload != "" && payload != ":data"
}
