package xdp_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/stretchr/testify/require"
)

// opener opens a link on an address.
type opener func(a netip.Addr) (link.Link, error)

func openXDP(changes ...func(*xdp.Options)) opener {
	return func(a netip.Addr) (link.Link, error) {
		o := xdp.Options{Addrs: []netip.Addr{a}}
		for _, change := range changes {
			if change != nil {
				change(&o)
			}
		}
		return xdp.Open(o)
	}
}

func openPacket(a netip.Addr) (link.Link, error) {
	return packet.Open(packet.Options{Addrs: []netip.Addr{a}})
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

// The suite runs over veth pairs, between xdp links in
// several modes, and to and from the other links.
func TestVeth(t *testing.T) {
	generic := func(o *xdp.Options) { o.DisableNative = true }
	single := func(o *xdp.Options) { o.DisableMultiBuffer = true }
	tagged := func(o *xdp.Options) { o.VLAN = 77 }
	spinning := func(o *xdp.Options) { o.Spin = 20 * time.Microsecond }
	small := func(o *xdp.Options) { o.RxFrames, o.TxFrames = 256, 8 }
	for _, c := range []struct {
		name string
		a, b opener
		dev  []string // ethtool features that are switched off on both sides
		mtu  int
	}{
		{name: "xdp-xdp", a: openXDP(nil), b: openXDP(nil), mtu: 9000},
		{name: "xdp-xdp, mtu 1500", a: openXDP(nil), b: openXDP(nil), mtu: 1500},
		{name: "xdp-xdp, generic", a: openXDP(generic), b: openXDP(generic), mtu: 9000},
		{name: "xdp-xdp, one buffer a frame", a: openXDP(single), b: openXDP(single), mtu: 3400},
		{name: "xdp-xdp, few frames, VLAN, spinning", a: openXDP(small, tagged, spinning), b: openXDP(small, tagged, spinning), mtu: 4200},
		{name: "xdp-udp", a: openXDP(nil), b: openUDP(udp.Options{}), mtu: 4200},
		{name: "udp-xdp", a: openUDP(udp.Options{}), b: openXDP(nil), mtu: 4200},
		{name: "udp-xdp, generic", a: openUDP(udp.Options{}), b: openXDP(generic), mtu: 4200},
		{name: "packet-xdp", a: openPacket, b: openXDP(nil), mtu: 4200},
		{name: "xdp-packet", a: openXDP(nil), b: openPacket, mtu: 4200},
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
					if p.A.Capabilities().Name != "udp" {
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
