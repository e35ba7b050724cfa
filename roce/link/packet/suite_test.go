package packet_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
)

func openPacket(change func(*packet.Options)) linktest.Opener {
	return func(a netip.Addr) (link.Link, error) {
		o := packet.Options{Addrs: []netip.Addr{a}}
		if change != nil {
			change(&o)
		}
		return packet.Open(o)
	}
}

func openUDP(o udp.Options) linktest.Opener {
	return func(a netip.Addr) (link.Link, error) { return udp.Open([]netip.Addr{a}, o) }
}

// The suite runs over veth pairs, between packet links and to and from udp
// links, with and without offloads on either side.
func TestVeth(t *testing.T) {
	noGSO := func(o *packet.Options) { o.DisableGSO = true }
	tagged := func(o *packet.Options) { o.VLAN = 77 }
	queue := func(o *packet.Options) { o.DisableRing = true }
	cases := []linktest.Veth{
		{Name: "packet-packet, queue", A: openPacket(queue), B: openPacket(queue), MTU: 9000},
		{Name: "udp-packet, queue, no GSO", A: openUDP(udp.Options{DisableGSO: true}), B: openPacket(queue), MTU: 4200},
		{Name: "packet-packet", A: openPacket(nil), B: openPacket(nil), MTU: 9000},
		{Name: "packet-packet, mtu 1500", A: openPacket(nil), B: openPacket(nil), MTU: 1500},
		{Name: "packet-packet, no GSO", A: openPacket(noGSO), B: openPacket(noGSO), MTU: 4200},
		{Name: "packet-packet, cut up by the kernel", A: openPacket(nil), B: openPacket(nil),
			Off: []string{"tx-udp-segmentation"}, MTU: 4200},
		{Name: "packet-packet, no checksum offload", A: openPacket(nil), B: openPacket(nil),
			Off: []string{"tx"}, MTU: 4200},
		{Name: "packet-packet, VLAN", A: openPacket(tagged), B: openPacket(tagged), MTU: 4200},
		{Name: "packet-udp", A: openPacket(nil), B: openUDP(udp.Options{}), MTU: 4200},
		{Name: "udp-packet", A: openUDP(udp.Options{}), B: openPacket(nil), MTU: 4200},
		{Name: "packet-udp, no GRO, cut up by the kernel", A: openPacket(nil),
			B: openUDP(udp.Options{DisableGRO: true}), Off: []string{"tx-udp-segmentation"}, MTU: 4200},
		{Name: "udp-packet, no GSO", A: openUDP(udp.Options{DisableGSO: true}), B: openPacket(nil), MTU: 4200},
		{Name: "udp-packet, cut up by the kernel", A: openUDP(udp.Options{}), B: openPacket(nil),
			Off: []string{"tx-udp-segmentation"}, MTU: 4200},
		{Name: "udp-udp", A: openUDP(udp.Options{}), B: openUDP(udp.Options{}), MTU: 4200},
	}
	if linktest.Before(t, 6, 2) {
		t.Log("before Linux 6.2 runs of a udp link are lost on the way to a packet link: not tested")
		cases = slices.DeleteFunc(cases, func(c linktest.Veth) bool { return c.Name == "udp-packet" })
	}
	linktest.RunVeth(t, cases)
}

func TestFilter(t *testing.T)     { linktest.RunFilter(t, openPacket(nil)) }
func TestFilterIPv6(t *testing.T) { linktest.RunFilterIPv6(t, openPacket(nil)) }
func TestMTU(t *testing.T)        { linktest.RunMTU(t, openPacket(nil)) }
func TestLeaks(t *testing.T)      { seeds.Slow(t); linktest.RunLeaks(t, openPacket(nil)) }
func TestNetwork(t *testing.T)    { linktest.RunNetwork(t, openPacket(nil)) }
func TestReturned(t *testing.T)   { linktest.RunReturned(t, openPacket(nil), false) }
func TestHostile(t *testing.T)    { linktest.RunHostile(t, openPacket(nil), nil) }
func TestHostileQueue(t *testing.T) {
	seeds.Slow(t)
	linktest.RunHostile(t, openPacket(func(o *packet.Options) { o.DisableRing = true }), nil)
}
func TestRecreated(t *testing.T) { linktest.RunRecreated(t, openPacket(nil)) }
func TestRecreatedVLAN(t *testing.T) {
	seeds.Slow(t)
	linktest.RunRecreated(t, openPacket(func(o *packet.Options) { o.VLAN = 77 }))
}

// Two links on the loopback interface. (Kernel sockets there do not take
// frames that were not routed.)
func TestLoopback(t *testing.T) {
	ns := linktest.NewNamespace(t)
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		return linktest.Pair{
			A: openPacket(nil).In(t, ns, netip.MustParseAddr("127.0.0.1")),
			B: openPacket(nil).In(t, ns, netip.MustParseAddr("127.0.0.2")),
		}
	})
}

// The room that the link tells is there.
func TestRoom(t *testing.T) {
	for _, ring := range []bool{true, false} {
		n := linktest.NewNet(t, 1500)
		small := openPacket(func(o *packet.Options) { o.DisableRing, o.SocketBufferBytes = !ring, 1<<20 })
		linktest.RunRoom(t, linktest.Pair{A: small.In(t, n.A, n.A4), B: small.In(t, n.B, n.B4)})
	}
}
