package linktest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// SendFrames sends frames that a link would never send, from the namespace.
func SendFrames(t testing.TB, ns *Namespace, frames ...[]byte) {
	t.Helper()
	ns.Do(func() {
		ifi, err := net.InterfaceByName(Device)
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		for _, f := range frames {
			require.NoError(t, unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: ifi.Index}))
		}
	})
}

// Frame says in what a frame differs from a good one. The zero value is
// a good one.
type Frame struct {
	IP6            bool
	VLAN           int // -1: priority tag only
	Options        []layers.IPv4Option
	Src, Dst       netip.Addr
	DstPort        uint16
	Payload        int // bytes
	Ident          uint16
	ICRCIdent      uint16 // what the ICRC is made with differs from Ident by so much
	ICRCXor        uint32
	NoDF           bool
	Fragment, More bool
	MAC            string
	Spoil          func(b []byte) // the finished frame
}

// MakeFrame makes a frame from A to B.
func MakeFrame(t testing.TB, n *Net, o Frame) []byte {
	t.Helper()
	if o.DstPort == 0 {
		o.DstPort = ib.UDPPort
	}
	a, b := n.A4, n.B4
	if o.IP6 {
		a, b = n.A6, n.B6
	}
	if !o.Src.IsValid() {
		o.Src = a
	}
	if !o.Dst.IsValid() {
		o.Dst = b
	}
	if o.MAC == "" {
		o.MAC = n.MACB
	}
	src, _ := net.ParseMAC(n.MACA)
	dst, _ := net.ParseMAC(o.MAC)
	eth := &layers.Ethernet{SrcMAC: src, DstMAC: dst, EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: 0xC001, DstPort: layers.UDPPort(o.DstPort)}
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	}
	if o.IP6 {
		eth.EthernetType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: o.Src.AsSlice(), DstIP: o.Dst.AsSlice()}
	} else {
		ip4 := &layers.IPv4{Version: 4, TTL: 64, Id: o.Ident, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP,
			SrcIP: o.Src.AsSlice(), DstIP: o.Dst.AsSlice(), Options: o.Options}
		if o.NoDF {
			ip4.Flags = 0
		}
		if o.More {
			ip4.Flags = layers.IPv4MoreFragments
		}
		if o.Fragment {
			ip4.Flags, ip4.FragOffset = 0, 10
		}
		ip = ip4
	}
	body := make([]byte, ib.BTHBytes+o.Payload+ib.ICRCBytes)
	body[0] = byte(ib.RCSendOnly)
	c := ib.NewICRC(ib.Flow{Src: o.Src, Dst: o.Dst, SrcPort: 0xC001, DstPort: o.DstPort})
	if o.NoDF {
		c = c.WithoutDF()
	}
	ib.PutICRC(body[len(body)-4:], c.Checksum(o.Ident+o.ICRCIdent, body[:len(body)-4])^o.ICRCXor)
	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
	stack := []gopacket.SerializableLayer{eth}
	if o.VLAN != 0 {
		tag := &layers.Dot1Q{Type: eth.EthernetType, Priority: 3}
		if o.VLAN > 0 {
			tag.VLANIdentifier = uint16(o.VLAN)
		}
		eth.EthernetType = layers.EthernetTypeDot1Q
		stack = append(stack, tag)
	}
	require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		append(stack, ip, udp, gopacket.Payload(body))...))
	out := buf.Bytes()
	if o.Spoil != nil {
		o.Spoil(out)
	}
	return out
}
