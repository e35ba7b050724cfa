package packet_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// giveUp bounds what would otherwise hang.
const giveUp = 20 * time.Second

func openPair(t *testing.T, mtu int) (n *linktest.Net, a, b link.Link) {
	n = linktest.NewNet(t, mtu)
	a, b = openPacket(nil).in(t, n.A, n.A4), openPacket(nil).in(t, n.B, n.B4)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
	return n, a, b
}

// sendUntil sends packets that need not arrive until cond.
func sendUntil(t *testing.T, l link.Link, p *transport.Path, cond func() bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	batch := []transport.TxPacket{linktest.Packet(r, p, 64)}
	end := time.Now().Add(giveUp)
	for !cond() {
		require.True(t, time.Now().Before(end), "gave up: %+v", l.Stats())
		l.Send(batch)
		require.NoError(t, l.Wait(int64(time.Millisecond)))
	}
}

func drain(t *testing.T, l link.Link) (n int) {
	batch := make([]transport.RxPacket, 64)
	for {
		k, err := l.Recv(batch)
		require.NoError(t, err)
		if k == 0 {
			return n
		}
		n += k
	}
}

func unreachable(l link.Link) uint64 { return l.Stats().TxUnreachable }

// A neighbour that disappears from the table is resolved again, one that
// fails is reported, and one that gets another MAC is followed.
func TestNeighbourChanges(t *testing.T) {
	n, a, b := openPair(t, 1500)
	p := linktest.NewPath(a, b)
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 })
	require.Zero(t, unreachable(a))

	// Removed: no packet is lost, and the kernel has it again.
	n.A.Run("ip", "neigh", "del", n.B4.String(), "dev", linktest.Device)
	sendUntil(t, a, p, func() bool {
		return strings.Contains(n.A.Run("ip", "neigh", "show", n.B4.String()), "REACHABLE")
	})
	require.Zero(t, unreachable(a))

	// Another MAC, as after a failover, with the announcement that a switch of
	// addresses comes with: the table of the kernel is told.
	n.B.Run("ip", "link", "set", linktest.Device, "address", "02:00:00:00:99:33")
	n.A.Run("ip", "neigh", "replace", n.B4.String(), "lladdr", "02:00:00:00:99:33", "dev", linktest.Device, "nud", "reachable")
	drain(t, b)
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 })

	// Nobody there any more: failed after the probes, and counted.
	n.B.Run("ip", "addr", "del", n.B4.String()+"/24", "dev", linktest.Device)
	n.A.Run("ip", "neigh", "del", n.B4.String(), "dev", linktest.Device)
	sendUntil(t, a, p, func() bool { return unreachable(a) > 0 })
	// Back: the next try finds it.
	n.B.Run("ip", "addr", "add", n.B4.String()+"/24", "dev", linktest.Device)
	drain(t, b)
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 })
}

// A stale entry is confirmed while it is in use.
func TestStaleNeighbour(t *testing.T) {
	n, a, b := openPair(t, 1500)
	n.A.Run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/neigh/"+linktest.Device+"/delay_first_probe_time")
	p := linktest.NewPath(a, b)
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 })
	n.A.Run("ip", "neigh", "change", n.B4.String(), "lladdr", n.MACB, "dev", linktest.Device, "nud", "stale")
	sendUntil(t, a, p, func() bool {
		return strings.Contains(n.A.Run("ip", "neigh", "show", n.B4.String()), "REACHABLE")
	})
	require.Zero(t, unreachable(a))
}

// Routes are followed: over a gateway, to nowhere, and back.
func TestRoutes(t *testing.T) {
	n, a, b := openPair(t, 1500)
	far := netip.MustParseAddr("192.0.2.7")
	n.B.Run("ip", "addr", "add", far.String()+"/32", "dev", "lo")
	n.B.Run("ip", "route", "add", "default", "via", n.A4.String())
	farLink := openPacket(nil).in(t, n.B, far)
	defer farLink.Close()
	p := linktest.NewPath(a, b)
	p.Dst = far
	sendUntil(t, a, p, func() bool { return unreachable(a) > 0 })
	n.A.Run("ip", "route", "add", far.String()+"/32", "via", n.B4.String())
	sendUntil(t, a, p, func() bool { return drain(t, farLink) > 0 })
	n.A.Run("ip", "route", "replace", "unreachable", far.String()+"/32")
	before := unreachable(a)
	sendUntil(t, a, p, func() bool { return unreachable(a) > before })
	n.A.Run("ip", "route", "replace", far.String()+"/32", "via", n.B4.String())
	sendUntil(t, a, p, func() bool { return drain(t, farLink) > 0 })
	// The other way round, over B's default route.
	back := linktest.NewPath(farLink, a)
	n.A.Run("ip", "route", "get", far.String())
	sendUntil(t, farLink, back, func() bool { return drain(t, a) > 0 })
}

// watch returns a channel of the port's states.
func watch(t *testing.T, l link.Link) <-chan link.PortState {
	ch := make(chan link.PortState, 100)
	l.(link.Watcher).Watch(func(s link.PortState) { ch <- s })
	return ch
}

func next(t *testing.T, ch <-chan link.PortState) link.PortState {
	t.Helper()
	select {
	case s := <-ch:
		return s
	case <-time.After(giveUp):
		t.Fatal("no event of the port")
		return link.PortState{}
	}
}

func TestLinkDownAndUp(t *testing.T) {
	n, a, b := openPair(t, 1500)
	states := watch(t, a)
	require.Equal(t, link.PortState{Up: true, MTU: ib.MTU1024}, next(t, states))
	p := linktest.NewPath(a, b)
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 })

	// The carrier goes when the other side is switched off.
	n.B.Run("ip", "link", "set", linktest.Device, "down")
	require.False(t, next(t, states).Up)
	sendUntil(t, a, p, func() bool { return unreachable(a) > 0 })
	n.B.Run("ip", "link", "set", linktest.Device, "up")
	require.True(t, next(t, states).Up)
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 })

	// Its own side.
	n.A.Run("ip", "link", "set", linktest.Device, "down")
	require.False(t, next(t, states).Up)
	before := unreachable(a)
	sendUntil(t, a, p, func() bool { return unreachable(a) > before })
	n.A.Run("ip", "link", "set", linktest.Device, "up")
	require.True(t, next(t, states).Up)
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 })

	n.A.Run("ip", "link", "del", linktest.Device)
	require.False(t, next(t, states).Up)
	before = unreachable(a)
	sendUntil(t, a, p, func() bool { return unreachable(a) > before })
	_, err := a.Recv(make([]transport.RxPacket, 1))
	require.NoError(t, err, "the link lives on without interface")
}

// Packets that no longer fit are dropped, single or in a run, never
// fragmented.
func TestMTUChange(t *testing.T) {
	n, a, b := openPair(t, 4200)
	states := watch(t, a)
	require.Equal(t, ib.MTU4096, next(t, states).MTU)
	require.Equal(t, ib.MTU4096, a.MTU())
	r := rand.New(rand.NewPCG(2, 2))
	p := linktest.NewPath(a, b)
	big := []transport.TxPacket{linktest.Packet(r, p, 4096), linktest.Packet(r, p, 4096)}
	small := []transport.TxPacket{linktest.Packet(r, p, 1024), linktest.Packet(r, p, 1024)}
	a.Send(big)
	linktest.Drive(t, a, func() bool { return a.Stats().TxPackets == 2 })
	linktest.Receive(t, b, 2)

	n.A.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
	n.B.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
	require.Equal(t, ib.MTU1024, next(t, states).MTU)
	require.Equal(t, ib.MTU1024, a.MTU())
	// The hop follows the same event, on another goroutine.
	end := time.Now().Add(giveUp)
	for a.Stats().TxDropped == 0 {
		require.True(t, time.Now().Before(end))
		a.Send(big[:1])
		drain(t, b)
	}
	drain(t, b)
	sent := a.Stats().TxPackets
	dropped := a.Stats().TxDropped
	a.Send(big)
	require.Equal(t, dropped+2, a.Stats().TxDropped)
	require.Equal(t, sent, a.Stats().TxPackets)
	drain(t, b)
	a.Send(small)
	linktest.Receive(t, b, 2)

	n.A.Run("ip", "link", "set", linktest.Device, "mtu", "9000")
	n.B.Run("ip", "link", "set", linktest.Device, "mtu", "9000")
	require.Equal(t, ib.MTU4096, next(t, states).MTU)
	sendBig := func() bool { a.Send(big[:1]); return drain(t, b) > 0 }
	for end := time.Now().Add(giveUp); !sendBig(); {
		require.True(t, time.Now().Before(end))
	}
}

// rawSend sends frames that the link would never send.
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
	vlan           int // -1: priority tag only
	options        []layers.IPv4Option
	dst            netip.Addr
	dport          uint16
	payload        int
	id             uint16
	icrcID         *uint16 // identification that the ICRC is made with
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
	if !o.dst.IsValid() {
		o.dst = n.B4
	}
	if o.mac == "" {
		o.mac = n.MACB
	}
	src, _ := net.ParseMAC(n.MACA)
	dst, _ := net.ParseMAC(o.mac)
	eth := &layers.Ethernet{SrcMAC: src, DstMAC: dst, EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, TTL: 64, Id: o.id, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP,
		SrcIP: n.A4.AsSlice(), DstIP: o.dst.AsSlice(), Options: o.options}
	if o.noDF {
		ip.Flags = 0
	}
	if o.more {
		ip.Flags = layers.IPv4MoreFragments
	}
	if o.fragment {
		ip.Flags, ip.FragOffset = 0, 10
	}
	udp := &layers.UDP{SrcPort: 0xC001, DstPort: layers.UDPPort(o.dport)}
	body := make([]byte, ib.BTHBytes+o.payload+ib.ICRCBytes)
	body[0] = byte(ib.RCSendOnly)
	c := ib.NewICRC(ib.Flow{Src: n.A4, Dst: o.dst, SrcPort: 0xC001, DstPort: o.dport})
	if o.noDF {
		c = c.WithoutDF()
	}
	id := o.id
	if o.icrcID != nil {
		id = *o.icrcID
	}
	ib.PutICRC(body[len(body)-4:], c.Checksum(id, body[:len(body)-4]))
	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
	stack := []gopacket.SerializableLayer{eth}
	if o.vlan > 0 {
		eth.EthernetType = layers.EthernetTypeDot1Q
		stack = append(stack, &layers.Dot1Q{VLANIdentifier: uint16(o.vlan), Type: layers.EthernetTypeIPv4})
	} else if o.vlan < 0 { // priority tag
		eth.EthernetType = layers.EthernetTypeDot1Q
		stack = append(stack, &layers.Dot1Q{Priority: 3, Type: layers.EthernetTypeIPv4})
	}
	require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		append(stack, ip, udp, gopacket.Payload(body))...))
	b := buf.Bytes()
	if o.spoil != nil {
		o.spoil(b)
	}
	return b
}

// Only UDP to the port and the addresses of the link is seen at all; frames
// that are ours but wrong are counted. What matters is seen by RxDatagrams.
func TestFilter(t *testing.T) {
	n, _, b := openPair(t, 4200)
	wrong := uint16(9)
	end := frameOptions{payload: 64, id: 77}
	for _, c := range []struct {
		name     string
		o        frameOptions
		seen, up uint64
	}{
		{"plain", frameOptions{}, 1, 1},
		{"any identification", frameOptions{id: 0xBEEF}, 1, 1},
		{"no DF", frameOptions{id: 5, noDF: true}, 1, 1},
		{"identification not covered by the ICRC", frameOptions{id: 5, icrcID: &wrong}, 1, 0},
		{"padded to the least length of a frame", frameOptions{spoil: nil, payload: 0}, 1, 1},
		{"priority tag", frameOptions{vlan: -1}, 1, 1},
		{"another VLAN", frameOptions{vlan: 5}, 0, 0},
		{"another port", frameOptions{dport: 4790}, 0, 0},
		{"another address", frameOptions{dst: netip.MustParseAddr("10.99.0.9")}, 0, 0},
		{"loopback address from outside", frameOptions{dst: netip.MustParseAddr("127.0.0.1")}, 0, 0},
		{"another machine's MAC", frameOptions{mac: "02:00:00:00:00:77"}, 0, 0},
		{"multicast not joined", frameOptions{dst: netip.MustParseAddr("224.0.0.1"), mac: "01:00:5e:00:00:01"}, 0, 0},
		{"IP options", frameOptions{options: []layers.IPv4Option{{OptionType: 1}}}, 0, 0},
		{"first fragment", frameOptions{more: true}, 0, 0},
		{"later fragment", frameOptions{fragment: true}, 0, 0},
		{"TCP", frameOptions{spoil: func(b []byte) { b[23] = 6 }}, 0, 0},
		{"source 127.0.0.1", frameOptions{spoil: func(b []byte) { copy(b[26:], []byte{127, 0, 0, 1}) }}, 0, 0},
		{"UDP length", frameOptions{spoil: func(b []byte) { b[39]++ }}, 1, 0},
		{"IP length beyond the frame", frameOptions{spoil: func(b []byte) { b[16] = 0x20 }}, 1, 0},
		{"multicast source", frameOptions{spoil: func(b []byte) { b[26] = 224 }}, 1, 0},
		{"bit error", frameOptions{payload: 8, spoil: func(b []byte) { b[60] ^= 4 }}, 1, 0},
		{"UDP checksum wrong", frameOptions{spoil: func(b []byte) { b[40] ^= 4 }}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := b.Stats()
			rawSend(t, n.A, frame(t, n, c.o), frame(t, n, end))
			got := linktest.Receive(t, b, int(c.up)+1)
			last := got[len(got)-1].Data
			require.Len(t, last, ib.BTHBytes+64+ib.ICRCBytes, "the last frame ends the test")
			after := b.Stats()
			require.Equal(t, c.seen+1, after.RxDatagrams-before.RxDatagrams, "seen")
			require.Equal(t, c.up+1, after.RxPackets-before.RxPackets, "handed up")
			bad := after.RxICRC + after.RxMalformed - before.RxICRC - before.RxMalformed
			require.Equal(t, c.seen-c.up, bad)
		})
	}
}

// The port is held: the kernel answers packets of the link with nothing, and
// nobody else gets the port. Without the link it does answer.
func TestPortHeld(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	a := openPacket(nil).in(t, n.A, n.A4)
	defer a.Close()
	for _, held := range []bool{false, true} {
		var b link.Link
		if held {
			b = openPacket(nil).in(t, n.B, n.B4)
			_, err := func() (l link.Link, err error) {
				n.B.Do(func() { l, err = packet.Open(packet.Options{Addrs: []netip.Addr{n.B4}}) })
				return
			}()
			require.ErrorIs(t, err, unix.EADDRINUSE)
		}
		p := &transport.Path{Src: n.A4, Dst: n.B4, SrcPort: 0xC001, HopLimit: 64}
		r := rand.New(rand.NewPCG(3, 3))
		frames := n.A.Capture(t, func() {
			for range 3 {
				a.Send([]transport.TxPacket{linktest.Packet(r, p, 100)})
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
			if l := pkt.Layer(layers.LayerTypeICMPv4); l != nil {
				inner := l.LayerPayload()
				if binary.BigEndian.Uint16(inner[22:]) == ib.UDPPort {
					icmp++
				}
			}
		}
		if held {
			require.Zero(t, icmp)
			require.NoError(t, b.Close())
		} else {
			require.NotZero(t, icmp, "the kernel answers where nobody holds the port")
		}
	}
}

// roceFrames picks those to the port of RoCE.
func roceFrames(frames []gopacket.Packet) (out []gopacket.Packet) {
	for _, p := range frames {
		if u, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && u.DstPort == ib.UDPPort {
			out = append(out, p)
		}
	}
	return out
}

// On the wire, cut up by the kernel: each segment is a whole RoCE packet with
// its own identification and ICRC, checksums are right, and tshark finds nothing
// malformed.
func TestWire(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	for _, ip6 := range []bool{false, true} {
		n := linktest.NewNet(t, 4200)
		n.A.Run("ethtool", "-K", linktest.Device, "tx", "off") // checksums and segmentation by the kernel
		src, dst := n.A4, n.B4
		if ip6 {
			src, dst = n.A6, n.B6
		}
		a, b := openPacket(nil).in(t, n.A, src), openPacket(nil).in(t, n.B, dst)
		p := linktest.NewPath(a, b)
		p.TrafficClass, p.FlowLabel = 26<<2|transport.ECT0, 0x12345
		r := rand.New(rand.NewPCG(4, 4))
		sendUntil(t, a, p, func() bool { return drain(t, b) > 0 }) // resolve the neighbour
		drain(t, b)
		const count = 20
		frames := n.A.Capture(t, func() {
			batch := make([]transport.TxPacket, count)
			for i := range batch {
				batch[i] = linktest.Packet(r, p, 1000)
			}
			a.Send(batch)
			a.Send(batch[:1]) // single
			linktest.Receive(t, b, count+1)
		})
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		c := ib.NewICRC(ib.Flow{Src: src, Dst: dst, SrcPort: p.SrcPort, DstPort: ib.UDPPort})
		all := roceFrames(frames)
		file := linktest.WriteCapture(t, all)
		require.Len(t, all, count+1)
		for i, pkt := range all {
			udp := pkt.Layer(layers.LayerTypeUDP).(*layers.UDP)
			id := uint16(0)
			if ip6 {
				ip := pkt.NetworkLayer().(*layers.IPv6)
				require.EqualValues(t, p.TrafficClass, ip.TrafficClass)
				require.EqualValues(t, p.HopLimit, ip.HopLimit)
				require.EqualValues(t, 0x12345, ip.FlowLabel)
			} else {
				ip := pkt.NetworkLayer().(*layers.IPv4)
				require.EqualValues(t, p.TrafficClass, ip.TOS)
				require.EqualValues(t, p.HopLimit, ip.TTL)
				require.Equal(t, layers.IPv4DontFragment, ip.Flags)
				require.EqualValues(t, i%count, ip.Id, "segments are numbered")
				id = ip.Id
			}
			require.EqualValues(t, p.SrcPort, udp.SrcPort)
			require.Equal(t, ib.TrailingICRC(udp.Payload), c.Checksum(id, udp.Payload[:len(udp.Payload)-4]))
			require.Equal(t, i == count, udp.Checksum == 0, "only single packets have no checksum")
		}
		out, err := exec.Command(tshark, "-r", file, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
			"-Y", "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0").Output()
		require.NoError(t, err)
		require.Empty(t, string(out))
		out, err = exec.Command(tshark, "-r", file, "-Y", "infiniband.bth.opcode == 7").Output()
		require.NoError(t, err)
		require.Equal(t, count+1, strings.Count(string(out), "\n"))
	}
}

// Tagged frames carry the VLAN and the priority of the DSCP.
func TestVLANOnTheWire(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	tagged := func(o *packet.Options) { o.VLAN = 123 }
	a, b := openPacket(tagged).in(t, n.A, n.A4), openPacket(tagged).in(t, n.B, n.B4)
	defer a.Close()
	defer b.Close()
	p := linktest.NewPath(a, b)
	p.TrafficClass = 26 << 2                                   // DSCP 26 is in class 3
	sendUntil(t, a, p, func() bool { return drain(t, b) > 0 }) // resolve the neighbour
	r := rand.New(rand.NewPCG(5, 5))
	frames := n.A.Capture(t, func() {
		a.Send([]transport.TxPacket{linktest.Packet(r, p, 100), linktest.Packet(r, p, 100), linktest.Packet(r, p, 40)})
		linktest.Receive(t, b, 3)
	})
	for _, pkt := range roceFrames(frames) {
		tag := pkt.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q)
		require.EqualValues(t, 123, tag.VLANIdentifier)
		require.EqualValues(t, 3, tag.Priority)
	}
	// Without the tag it is not for this link.
	before := b.Stats().RxDatagrams
	rawSend(t, n.A, frame(t, n, frameOptions{}), frame(t, n, frameOptions{vlan: 124}), frame(t, n, frameOptions{vlan: 123}))
	linktest.Receive(t, b, 1)
	require.Equal(t, before+1, b.Stats().RxDatagrams)
}

func TestOpenErrors(t *testing.T) {
	ns := linktest.NewNamespace(t)
	for want, o := range map[string]packet.Options{
		"no local address given": {},
		"not a unicast address":  {Addrs: []netip.Addr{netip.MustParseAddr("0.0.0.0")}},
		"given twice":            {Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.1")}},
		"no interface here has":  {Addrs: []netip.Addr{netip.MustParseAddr("203.0.113.5")}},
		"between 1 and 4094":     {Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, VLAN: 4095},
	} {
		ns.Do(func() {
			_, err := packet.Open(o)
			var oe *packet.OpenError
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

// With CAP_NET_RAW alone the kernel's table cannot be told to probe; a datagram
// makes it.
func TestWithoutNetAdmin(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	b := openPacket(nil).in(t, n.B, n.B4)
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
	sendUntil(t, a, linktest.NewPath(a, b), func() bool { return drain(t, b) > 0 })
}
