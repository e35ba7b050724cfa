package packet_test

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/stretchr/testify/require"
)

// opener opens a link on an address.
type opener func(a netip.Addr) (link.Link, error)

func openPacket(change func(*packet.Options)) opener {
	return func(a netip.Addr) (link.Link, error) {
		o := packet.Options{Addrs: []netip.Addr{a}}
		if change != nil {
			change(&o)
		}
		return packet.Open(o)
	}
}

func openUDP(o udp.Options) opener {
	return func(a netip.Addr) (link.Link, error) { return udp.Open([]netip.Addr{a}, o) }
}

// in opens a link in a namespace.
func (f opener) in(t testing.TB, ns *linktest.Namespace, a netip.Addr) link.Link {
	t.Helper()
	var l link.Link
	var err error
	ns.Do(func() { l, err = f(a) })
	require.NoError(t, err)
	return l
}

// The suite runs over veth pairs, between packet links and to and from udp
// links, with and without offloads on either side.
func TestVeth(t *testing.T) {
	noGSO := func(o *packet.Options) { o.DisableGSO = true }
	tagged := func(o *packet.Options) { o.VLAN = 77 }
	for _, c := range []struct {
		name string
		a, b opener
		dev  []string // ethtool features that are switched off on both sides
		mtu  int
	}{
		{name: "packet-packet", a: openPacket(nil), b: openPacket(nil), mtu: 9000},
		{name: "packet-packet, mtu 1500", a: openPacket(nil), b: openPacket(nil), mtu: 1500},
		{name: "packet-packet, no GSO", a: openPacket(noGSO), b: openPacket(noGSO), mtu: 4200},
		{name: "packet-packet, cut up by the kernel", a: openPacket(nil), b: openPacket(nil), dev: []string{"tx-udp-segmentation"}, mtu: 4200},
		{name: "packet-packet, no checksum offload", a: openPacket(nil), b: openPacket(nil), dev: []string{"tx"}, mtu: 4200},
		{name: "packet-packet, VLAN", a: openPacket(tagged), b: openPacket(tagged), mtu: 4200},
		{name: "packet-udp", a: openPacket(nil), b: openUDP(udp.Options{}), mtu: 4200},
		{name: "udp-packet", a: openUDP(udp.Options{}), b: openPacket(nil), mtu: 4200},
		{name: "packet-udp, no GRO, cut up by the kernel", a: openPacket(nil), b: openUDP(udp.Options{DisableGRO: true}), dev: []string{"tx-udp-segmentation"}, mtu: 4200},
		{name: "udp-packet, no GSO", a: openUDP(udp.Options{DisableGSO: true}), b: openPacket(nil), mtu: 4200},
		{name: "udp-packet, cut up by the kernel", a: openUDP(udp.Options{}), b: openPacket(nil), dev: []string{"tx-udp-segmentation"}, mtu: 4200},
		{name: "udp-udp", a: openUDP(udp.Options{}), b: openUDP(udp.Options{}), mtu: 4200},
	} {
		for _, ip6 := range []bool{false, true} {
			name := c.name + ", IPv4"
			if ip6 {
				name = c.name + ", IPv6"
			}
			t.Run(name, func(t *testing.T) {
				n := linktest.NewNet(t, c.mtu)
				for _, f := range c.dev {
					n.A.Run("ethtool", "-K", linktest.Device, f, "off")
					n.B.Run("ethtool", "-K", linktest.Device, f, "off")
				}
				linktest.Run(t, func(t *testing.T) linktest.Pair {
					p := linktest.Pair{InB: n.B.Do}
					if ip6 {
						p.A, p.B = c.a.in(t, n.A, n.A6), c.b.in(t, n.B, n.B6)
					} else {
						p.A, p.B = c.a.in(t, n.A, n.A4), c.b.in(t, n.B, n.B4)
					}
					if p.A.Capabilities().Name == "packet" {
						p.NeverResolves = netip.MustParseAddr("10.99.0.77")
						if ip6 {
							p.NeverResolves = netip.MustParseAddr("fd99::77")
						}
					}
					return p
				})
			})
		}
	}
}

// Two links on the loopback interface. (Kernel sockets there do not take
// frames that were not routed.)
func TestLoopback(t *testing.T) {
	ns := linktest.NewNamespace(t)
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		return linktest.Pair{
			A: openPacket(nil).in(t, ns, netip.MustParseAddr("127.0.0.1")),
			B: openPacket(nil).in(t, ns, netip.MustParseAddr("127.0.0.2")),
		}
	})
}
