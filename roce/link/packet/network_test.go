package packet_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// giveUp bounds what would otherwise hang.
const giveUp = 2 * time.Minute

// The port is reserved: the kernel answers packets of the link with nothing, and
// nobody else gets the port. Without the link it does answer.
func TestPortHeld(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	a := openPacket(nil).In(t, n.A, n.A4)
	defer a.Close()
	for _, reserved := range []bool{false, true} {
		var b link.Link
		if reserved {
			b = openPacket(nil).In(t, n.B, n.B4)
			n.B.Do(func() {
				_, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.B4, ib.UDPPort)))
				require.ErrorIs(t, err, unix.EADDRINUSE)
			})
		}
		p := &edge.Path{Src: n.A4, Dst: n.B4, SrcPort: 0xC001, HopLimit: 64}
		r := rand.New(rand.NewPCG(3, 3))
		frames := n.A.Capture(t, func() {
			for range 3 {
				a.Send([]edge.TxPacket{linktest.Packet(r, p, 100)})
			}
			linktest.Drive(t, a, func() bool { return a.Stats().TxPackets >= 3 })
			// What comes after is answered by the kernel after what came before: the
			// marker's own ICMP error ends the capture.
			var c net.Conn
			var err error
			n.A.Do(func() { c, err = net.Dial("udp", netip.AddrPortFrom(n.B4, 9).String()) })
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Write([]byte("marker"))
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(giveUp)))
			_, err = c.Read(make([]byte, 1))
			require.ErrorIs(t, err, unix.ECONNREFUSED)
		})
		var icmp int
		for _, pkt := range frames {
			if pkt.ICMPv4 && binary.BigEndian.Uint16(pkt.Payload[22:]) == ib.UDPPort {
				icmp++
			}
		}
		if reserved {
			require.Zero(t, icmp)
			require.NoError(t, b.Close())
		} else {
			require.NotZero(t, icmp, "the kernel answers where nobody holds the port")
		}
	}
}

// On the wire, cut up by the kernel: each segment is a whole RoCE packet with its own
// identification and ICRC, checksums are right, and tshark finds nothing malformed.
func TestWire(t *testing.T) {
	t.Parallel()
	for _, ip6 := range []bool{false, true} {
		n := linktest.NewNet(t, 4200)
		n.A.Run("ethtool", "-K", linktest.Device, "tx", "off") // checksums and segmentation by the kernel
		src, dst := n.A4, n.B4
		if ip6 {
			src, dst = n.A6, n.B6
		}
		a, b := openPacket(nil).In(t, n.A, src), openPacket(nil).In(t, n.B, dst)
		p := linktest.NewPath(a, b)
		p.TrafficClass, p.FlowLabel = 26<<2|edge.ECT0, 0x12345
		port := a.SourcePort(p)
		require.EqualValues(t, 0xC000|p.SrcPort%8, port, "one of 8")
		r := rand.New(rand.NewPCG(4, 4))
		linktest.Reaches(t, a, b, p) // resolve the neighbour
		const count = 20
		frames := n.A.Capture(t, func() {
			batch := make([]edge.TxPacket, count)
			for i := range batch {
				batch[i] = linktest.Packet(r, p, 1000)
			}
			a.Send(batch)
			a.Send(batch[:1]) // single
			linktest.Receive(t, b, count+1)
		})
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		c := ib.NewICRC(ib.Flow{Src: src, Dst: dst, SrcPort: port, DstPort: ib.UDPPort})
		runs := !linktest.NoRuns(t, a)
		all := linktest.RoCEFrames(frames)
		require.Len(t, all, count+1)
		for i, pkt := range all {
			require.Equal(t, ip6, pkt.Flow.Src.Is6())
			require.Equal(t, p.TrafficClass, pkt.TrafficClass)
			require.Equal(t, p.HopLimit, pkt.HopLimit)
			if ip6 {
				require.EqualValues(t, 0x12345, pkt.FlowLabel)
			} else {
				require.True(t, pkt.DF && !pkt.More)
				if runs {
					require.EqualValues(t, i%count, pkt.Ident, "segments are numbered")
				} else {
					require.Zero(t, pkt.Ident)
				}
			}
			require.Equal(t, port, pkt.Flow.SrcPort)
			require.Equal(t, ib.TrailingICRC(pkt.Payload), c.Checksum(pkt.Ident, pkt.Payload[:len(pkt.Payload)-4]))
			require.Equal(t, i == count || !runs, pkt.UDPChecksum == 0, "only single packets have no checksum")
		}
		linktest.CheckCapture(t, all, true)
	}
}

// Tagged frames carry the VLAN and the priority of the DSCP.
func TestVLANOnTheWire(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	tagged := func(o *packet.Options) { o.VLAN = 123 }
	a, b := openPacket(tagged).In(t, n.A, n.A4), openPacket(tagged).In(t, n.B, n.B4)
	defer a.Close()
	defer b.Close()
	p := linktest.NewPath(a, b)
	p.TrafficClass = 26 << 2     // DSCP 26 is in class 3
	linktest.Reaches(t, a, b, p) // resolve the neighbour
	r := rand.New(rand.NewPCG(5, 5))
	frames := n.A.Capture(t, func() {
		a.Send([]edge.TxPacket{linktest.Packet(r, p, 100), linktest.Packet(r, p, 100), linktest.Packet(r, p, 40)})
		linktest.Receive(t, b, 3)
	})
	for _, pkt := range linktest.RoCEFrames(frames) {
		require.True(t, pkt.Tagged)
		require.EqualValues(t, 123, pkt.VLAN)
		require.EqualValues(t, 3, pkt.Priority)
	}
	// Without the tag it is not for this link.
	before := b.Stats().RxDatagrams
	linktest.SendFrames(t, n.A, linktest.MakeFrame(t, n, linktest.Frame{}),
		linktest.MakeFrame(t, n, linktest.Frame{VLAN: 124}), linktest.MakeFrame(t, n, linktest.Frame{VLAN: 123}))
	linktest.Receive(t, b, 1)
	require.Equal(t, before+1, b.Stats().RxDatagrams)
}

func TestOpenErrors(t *testing.T) {
	ns := linktest.NewNamespace(t)
	for want, o := range map[string]packet.Options{
		"no local address given": {},
		"not a unicast address":  {Addrs: []netip.Addr{netip.MustParseAddr("0.0.0.0")}},
		"given twice": {Addrs: []netip.Addr{
			netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.1"),
		}},
		"no interface here has": {Addrs: []netip.Addr{netip.MustParseAddr("203.0.113.5")}},
		"between 1 and 4094":    {Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, VLAN: 4095},
	} {
		ns.Do(func() {
			_, err := packet.Open(o)
			var oe *link.OpenError
			require.ErrorAs(t, err, &oe)
			require.ErrorContains(t, err, want)
		})
	}
	// Without the privilege the error says which. Dropped by this thread only.
	ns.Do(func() {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		require.NoError(t, unix.Capset(&hdr, &data[0]))
		_, err := packet.Open(packet.Options{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
		require.ErrorIs(t, err, unix.EPERM)
		require.ErrorContains(t, err, "CAP_NET_RAW")
	})
}

// With CAP_NET_RAW alone the kernel's table cannot be told to probe; a datagram makes it.
func TestWithoutNetAdmin(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	b := openPacket(nil).In(t, n.B, n.B4)
	defer b.Close()
	var a link.Link
	n.A.Do(func() {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		data[0].Effective, data[0].Permitted = 1<<unix.CAP_NET_RAW, 1<<unix.CAP_NET_RAW
		require.NoError(t, unix.Capset(&hdr, &data[0]))
		var err error
		a, err = packet.Open(packet.Options{Addrs: []netip.Addr{n.A4}})
		require.NoError(t, err)
	})
	defer a.Close()
	linktest.Reaches(t, a, b, linktest.NewPath(a, b))
}

// A link whose interface is down, or gone, sleeps when it waits, with a VLAN, too,
// whose sockets are bound to the interface and told of it by an error.
func TestSleepsWhenDown(t *testing.T) {
	t.Parallel()
	for _, ring := range []bool{true, false} {
		for _, how := range []string{"down", "del"} {
			n := linktest.NewNet(t, 1500)
			a := openPacket(func(o *packet.Options) { o.VLAN, o.DisableRing = 5, !ring }).Open(t, n.A, n.A4)
			down := make(chan struct{}, 10)
			a.Watch(func(s link.PortState) {
				if !s.Up {
					down <- struct{}{}
				}
			})
			if how == "del" {
				n.A.Run("ip", "link", "del", linktest.Device)
			} else {
				n.A.Run("ip", "link", "set", linktest.Device, "down")
			}
			<-down
			require.NoError(t, a.Wait(0))
			const waitNs = 20e6
			const most = 50 // of the kernel's messages about what has changed, each of which ends a wait
			for slept, waits := 0, 0; slept < 2; waits++ {
				require.Less(t, waits, most, "ring %v, %s", ring, how)
				require.Zero(t, linktest.Drain(t, a))
				start := a.Now()
				require.NoError(t, a.Wait(waitNs))
				if a.Now()-start > waitNs/2 {
					slept++
				}
			}
		}
	}
}

// The address goes to another interface, as with a failover: the link goes on
// there, with its groups, and what becomes of the interface before is no matter.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	const second = "second"
	n := linktest.NewNet(t, 1500)
	n.A.Run("ip", "link", "add", second, "mtu", "4200", "type", "veth", "peer", "name", second, "mtu", "4200",
		"netns", n.B.Path())
	for _, ns := range []*linktest.Namespace{n.A, n.B} {
		ns.Run("ip", "link", "set", second, "up")
	}
	a, b := openPacket(nil).Open(t, n.A, n.A4), openPacket(nil).Open(t, n.B, n.B4)
	group := netip.MustParseAddr("239.1.2.3")
	require.NoError(t, b.(*packet.Link).Join(group, n.B4))
	p := linktest.NewPath(a, b)
	linktest.Reaches(t, a, b, p)
	states := make(chan link.PortState, 100)
	b.(*packet.Link).Watch(func(s link.PortState) { states <- s })
	require.Equal(t, link.PortState{Up: true, MTU: ib.MTU1024}, <-states)
	for _, side := range []struct {
		ns *linktest.Namespace
		a  netip.Addr
	}{{n.A, n.A4}, {n.B, n.B4}} {
		side.ns.Run("ip", "addr", "add", side.a.String()+"/24", "dev", second) // first on both
		side.ns.Run("ip", "addr", "del", side.a.String()+"/24", "dev", linktest.Device)
	}
	require.Equal(t, link.PortState{Up: true, MTU: ib.MTU4096}, <-states)
	require.Contains(t, n.B.Run("ip", "maddr", "show", "dev", second), group.String())
	require.NotContains(t, n.B.Run("ip", "maddr", "show", "dev", linktest.Device), group.String())
	n.A.Run("ip", "link", "del", linktest.Device)
	linktest.Reaches(t, a, b, p)
	linktest.Reaches(t, b, a, linktest.NewPath(b, a))
	to := linktest.NewPath(a, b)
	to.Dst = group
	linktest.Reaches(t, a, b, to)
	require.Empty(t, states)
}

// Sockets that somebody has closed are an error, not a wait that returns at once for ever.
func TestSocketsLost(t *testing.T) {
	for _, ring := range []bool{true, false} {
		n := linktest.NewNet(t, 1500)
		a := openPacket(func(o *packet.Options) { o.DisableRing = !ring }).In(t, n.A, n.A4)
		a.(*packet.Link).LoseSockets()
		require.ErrorIs(t, a.Wait(-1), unix.EBADF)
		require.ErrorIs(t, a.Close(), unix.EBADF)
	}
}

// What had arrived when the interface went down comes up, and so does what comes
// when it is up again: ring and queue agree on what is where.
func TestReceivedBeforeDown(t *testing.T) {
	t.Parallel()
	tagged := func(o *packet.Options) { o.VLAN = 5 }
	n := linktest.NewNet(t, 4200)
	a, b := openPacket(tagged).Open(t, n.A, n.A4), openPacket(tagged).Open(t, n.B, n.B4)
	p := linktest.NewPath(a, b)
	linktest.Reaches(t, a, b, p)
	r := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{1000, 64} {
		run := make([]edge.TxPacket, 6)
		for i := range run {
			run[i] = linktest.Packet(r, p, size)
		}
		linktest.SendAll(t, a, run)
		n.B.Run("ip", "link", "set", linktest.Device, "down")
		linktest.Await(t, b, run)
		n.B.Run("ip", "link", "set", linktest.Device, "up")
		linktest.Reaches(t, a, b, p)
		for range 3 {
			linktest.SendAll(t, a, run)
			linktest.Await(t, b, run)
			require.Zero(t, linktest.Drain(t, b))
		}
	}
}
