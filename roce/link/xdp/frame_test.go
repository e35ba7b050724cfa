package xdp_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// rawSend sends frames that the link would never send, from the namespace.
func rawSend(t *testing.T, ns *linktest.Namespace, frames ...[]byte) {
	t.Helper()
	ns.Do(func() {
		ifi, err := net.InterfaceByName(linktest.Device)
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		for _, f := range frames {
			require.NoError(t, unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: ifi.Index}))
		}
	})
}

// frameOptions say in what a frame differs from a good one. The zero value is
// a good one.
type frameOptions struct {
	ip6            bool
	vlan           int // -1: priority tag only
	options        []layers.IPv4Option
	src, dst       netip.Addr
	dport          uint16
	payload        int
	id             uint16
	icrcXor        uint32
	noDF           bool
	fragment, more bool
	mac            string
	spoil          func(b []byte) // the finished frame
}

// frame makes a frame from A to B.
func frame(t *testing.T, n *linktest.Net, o frameOptions) []byte {
	t.Helper()
	if o.dport == 0 {
		o.dport = ib.UDPPort
	}
	a, b := n.A4, n.B4
	if o.ip6 {
		a, b = n.A6, n.B6
	}
	if !o.src.IsValid() {
		o.src = a
	}
	if !o.dst.IsValid() {
		o.dst = b
	}
	if o.mac == "" {
		o.mac = n.MACB
	}
	src, _ := net.ParseMAC(n.MACA)
	dst, _ := net.ParseMAC(o.mac)
	eth := &layers.Ethernet{SrcMAC: src, DstMAC: dst, EthernetType: layers.EthernetTypeIPv4}
	udp := &layers.UDP{SrcPort: 0xC001, DstPort: layers.UDPPort(o.dport)}
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	}
	if o.ip6 {
		eth.EthernetType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: o.src.AsSlice(), DstIP: o.dst.AsSlice()}
	} else {
		ip4 := &layers.IPv4{Version: 4, TTL: 64, Id: o.id, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP,
			SrcIP: o.src.AsSlice(), DstIP: o.dst.AsSlice(), Options: o.options}
		if o.noDF {
			ip4.Flags = 0
		}
		if o.more {
			ip4.Flags = layers.IPv4MoreFragments
		}
		if o.fragment {
			ip4.Flags, ip4.FragOffset = 0, 10
		}
		ip = ip4
	}
	body := make([]byte, ib.BTHBytes+o.payload+ib.ICRCBytes)
	body[0] = byte(ib.RCSendOnly)
	c := ib.NewICRC(ib.Flow{Src: o.src, Dst: o.dst, SrcPort: 0xC001, DstPort: o.dport})
	if o.noDF {
		c = c.WithoutDF()
	}
	ib.PutICRC(body[len(body)-4:], c.Checksum(o.id, body[:len(body)-4])^o.icrcXor)
	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
	stack := []gopacket.SerializableLayer{eth}
	if o.vlan != 0 {
		tag := &layers.Dot1Q{Type: eth.EthernetType, Priority: 3}
		if o.vlan > 0 {
			tag.VLANIdentifier = uint16(o.vlan)
		}
		eth.EthernetType = layers.EthernetTypeDot1Q
		stack = append(stack, tag)
	}
	require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		append(stack, ip, udp, gopacket.Payload(body))...))
	out := buf.Bytes()
	if o.spoil != nil {
		o.spoil(out)
	}
	return out
}

// roceFrames are those of the frames that are UDP to the port of RoCE.
func roceFrames(all []gopacket.Packet) (out []gopacket.Packet) {
	for _, p := range all {
		if u, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && u.DstPort == ib.UDPPort {
			out = append(out, p)
		}
	}
	return out
}
