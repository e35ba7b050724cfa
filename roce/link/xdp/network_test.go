package xdp_test

import (
	"bufio"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// giveUp bounds what would otherwise hang.
const giveUp = 20 * time.Second

func openPair(t *testing.T, mtu int, changes ...func(*xdp.Options)) (n *linktest.Net, a, b link.Link) {
	n = linktest.NewNet(t, mtu)
	a, b = openXDP(changes...).in(t, n.A, n.A4), openXDP(changes...).in(t, n.B, n.B4)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
	return n, a, b
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

// until sends packets that need not arrive until cond.
func until(t *testing.T, l link.Link, p *transport.Path, cond func() bool) {
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

// The MTU follows from the interface and from what frames the mode takes.
func TestModeAndMTU(t *testing.T) {
	n := linktest.NewNet(t, 9000)
	for _, c := range []struct {
		mode string
		mtu  ib.MTU
		f    func(o *xdp.Options)
	}{
		{"native copy multi-buffer", ib.MTU4096, nil},
		{"generic copy multi-buffer", ib.MTU4096, func(o *xdp.Options) { o.DisableNative = true }},
		// A veth of this MTU takes no program for one buffer in the driver.
		{"generic copy", ib.MTU2048, func(o *xdp.Options) { o.DisableMultiBuffer = true }},
		{"native copy multi-buffer", ib.MTU1024, func(o *xdp.Options) { o.MTU = ib.MTU1024 }},
	} {
		l := openXDP(c.f).in(t, n.A, n.A4)
		require.Equal(t, c.mode, l.Capabilities().Mode)
		require.Equal(t, c.mtu, l.MTU())
		w, _ := link.As[link.Watcher](l)
		var state link.PortState
		w.Watch(func(s link.PortState) { state = s })
		require.Equal(t, link.PortState{Up: true, MTU: c.mtu}, state)
		require.NoError(t, l.Close())
	}
}

// Only UDP to the port and the addresses of the link is redirected; frames
// that are ours but wrong are counted. What is redirected is seen by RxDatagrams.
func TestFilter(t *testing.T) {
	for _, native := range []bool{true, false} {
		n, _, b := openPair(t, 4200, func(o *xdp.Options) { o.DisableNative = !native })
		end := frameOptions{payload: 64, id: 77}
		six := func(f func(b []byte)) frameOptions { return frameOptions{ip6: true, dst: n.B6, spoil: f} }
		for _, c := range []struct {
			name     string
			o        frameOptions
			seen, up uint64
		}{
			{"plain", frameOptions{}, 1, 1},
			{"any identification", frameOptions{id: 0xBEEF}, 1, 1},
			{"no DF", frameOptions{id: 5, noDF: true}, 1, 1},
			{"ICRC", frameOptions{id: 5, icrcXor: 1 << 31}, 1, 0},
			{"priority tag", frameOptions{vlan: -1}, 1, 1},
			{"another VLAN", frameOptions{vlan: 5}, 0, 0},
			{"another port", frameOptions{dport: 4790}, 0, 0},
			{"another address", frameOptions{dst: netip.MustParseAddr("10.99.0.9")}, 0, 0},
			{"no address of the link", six(nil), 0, 0},
			{"loopback address from outside", frameOptions{dst: netip.MustParseAddr("127.0.0.1")}, 0, 0},
			{"another machine's MAC", frameOptions{mac: "02:00:00:00:00:77"}, 0, 0},
			{"broadcast MAC", frameOptions{mac: "ff:ff:ff:ff:ff:ff"}, 1, 1},
			{"multicast not joined", frameOptions{dst: netip.MustParseAddr("224.0.0.1"), mac: "01:00:5e:00:00:01"}, 0, 0},
			{"IP options", frameOptions{options: []layers.IPv4Option{{OptionType: 1}}}, 0, 0},
			{"first fragment", frameOptions{more: true}, 0, 0},
			{"later fragment", frameOptions{fragment: true}, 0, 0},
			{"TCP", frameOptions{spoil: func(b []byte) { b[23] = 6 }}, 0, 0},
			{"source 127.0.0.1", frameOptions{src: netip.MustParseAddr("127.0.0.1")}, 0, 0},
			{"ARP", frameOptions{spoil: func(b []byte) { b[13] = 6 }}, 0, 0},
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
}

func TestFilterIPv6(t *testing.T) {
	n := linktest.NewNet(t, 4200)
	b := openXDP().in(t, n.B, n.B6)
	defer func() { require.NoError(t, b.Close()) }()
	for _, c := range []struct {
		name     string
		o        frameOptions
		seen, up uint64
	}{
		{"plain", frameOptions{}, 1, 1},
		{"priority tag", frameOptions{vlan: -1}, 1, 1},
		{"another VLAN", frameOptions{vlan: 5}, 0, 0},
		{"another port", frameOptions{dport: 4790}, 0, 0},
		{"another address", frameOptions{dst: netip.MustParseAddr("fd99::1:2")}, 0, 0},
		{"source ::1", frameOptions{src: netip.IPv6Loopback()}, 0, 0},
		{"source ::1:1", frameOptions{src: netip.MustParseAddr("::1:1")}, 1, 1},
		{"extension header", frameOptions{spoil: func(b []byte) { b[20] = 60 }}, 0, 0},
		{"version 4", frameOptions{spoil: func(b []byte) { b[14] = 0x45 }}, 0, 0},
		{"length beyond the frame", frameOptions{spoil: func(b []byte) { b[18] = 2 }}, 1, 0},
		{"bit error", frameOptions{payload: 8, spoil: func(b []byte) { b[75] ^= 4 }}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.ip6 = true
			before := b.Stats()
			rawSend(t, n.A, frame(t, n, c.o), frame(t, n, frameOptions{ip6: true, payload: 64}))
			got := linktest.Receive(t, b, int(c.up)+1)
			require.Len(t, got[len(got)-1].Data, ib.BTHBytes+64+ib.ICRCBytes)
			after := b.Stats()
			require.Equal(t, c.seen+1, after.RxDatagrams-before.RxDatagrams, "seen")
			require.Equal(t, c.seen-c.up, after.RxICRC+after.RxMalformed-before.RxICRC-before.RxMalformed)
		})
	}
}

// Everything else goes on as if the link were not there: TCP, UDP to other
// ports, neighbour discovery; and the port is held against others and ICMP.
func TestOtherTraffic(t *testing.T) {
	n, a, b := openPair(t, 9000)
	for _, ab := range [][2]netip.Addr{{n.A4, n.B4}, {n.A6, n.B6}} {
		var ln net.Listener
		var err error
		n.B.Do(func() { ln, err = net.Listen("tcp", netip.AddrPortFrom(ab[1], 4791).String()) })
		require.NoError(t, err)
		done := make(chan int)
		go func() {
			defer close(done)
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			k, _ := bufio.NewReaderSize(c, 1<<20).Discard(1 << 20)
			done <- k
		}()
		var c net.Conn
		n.A.Do(func() { c, err = net.DialTimeout("tcp", ln.Addr().String(), giveUp) })
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(giveUp)))
		_, err = c.Write(make([]byte, 1<<20))
		require.NoError(t, err)
		require.Equal(t, 1<<20, <-done)
		require.NoError(t, c.Close())
		require.NoError(t, ln.Close())
		// A UDP port that nobody has is refused: ICMP goes both ways.
		var u net.Conn
		n.A.Do(func() { u, err = net.Dial("udp", netip.AddrPortFrom(ab[1], 9).String()) })
		require.NoError(t, err)
		_, err = u.Write([]byte("anybody?"))
		require.NoError(t, err)
		require.NoError(t, u.SetReadDeadline(time.Now().Add(giveUp)))
		_, err = u.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNREFUSED)
		require.NoError(t, u.Close())
	}
	require.Zero(t, a.Stats().RxDatagrams+b.Stats().RxDatagrams)
	var err error
	n.B.Do(func() { _, err = net.ListenPacket("udp", netip.AddrPortFrom(n.B4, ib.UDPPort).String()) })
	require.ErrorIs(t, err, unix.EADDRINUSE)
}

const holderEnv = "GOROCE_TEST_XDP_HOLD"

// TestMain is the process that TestDeath kills, if it is asked to.
func TestMain(m *testing.M) {
	if a := os.Getenv(holderEnv); a != "" {
		_, err := xdp.Open(xdp.Options{Addrs: []netip.Addr{netip.MustParseAddr(a)}})
		if err != nil {
			println(err.Error())
			os.Exit(1)
		}
		println("open")
		select {}
	}
	os.Exit(m.Run())
}

// A process that is killed leaves nothing on the interface, and another can
// have it.
func TestDeath(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderEnv+"="+n.B4.String())
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	n.B.Start(cmd)
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "open\n", line)
	show := func() string { return n.B.Run("ip", "-details", "link", "show", linktest.Device) }
	require.Contains(t, show(), "xdp")

	// Meanwhile it is taken, and the error says so.
	n.B.Do(func() { _, err = xdp.Open(xdp.Options{Addrs: []netip.Addr{n.B6}}) })
	require.ErrorIs(t, err, unix.EBUSY)
	require.ErrorContains(t, err, "ip link show "+linktest.Device)

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.NotContains(t, show(), "prog/xdp")
	a, b := openXDP().in(t, n.A, n.A4), openXDP().in(t, n.B, n.B4)
	until(t, a, linktest.NewPath(a, b), func() bool { return drain(t, b) > 0 })
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.NotContains(t, show(), "prog/xdp")
}

// Without the privileges the error says which. Dropped by this thread only.
func TestOpenErrors(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	for want, o := range map[string]xdp.Options{
		"no local address given": {},
		"not a unicast address":  {Addrs: []netip.Addr{netip.MustParseAddr("0.0.0.0")}},
		"given twice":            {Addrs: []netip.Addr{n.A4, n.A4}},
		"no interface here has":  {Addrs: []netip.Addr{netip.MustParseAddr("203.0.113.5")}},
		"between 1 and 4094":     {Addrs: []netip.Addr{n.A4}, VLAN: 4095},
		"power of two":           {Addrs: []netip.Addr{n.A4}, RxFrames: 1000},
		"negative number":        {Addrs: []netip.Addr{n.A4}, Queues: -1},
	} {
		n.A.Do(func() {
			_, err := xdp.Open(o)
			var oe *xdp.OpenError
			require.ErrorAs(t, err, &oe)
			require.ErrorContains(t, err, want)
		})
	}
	for _, keep := range []uint32{0, 1 << unix.CAP_NET_RAW, 1<<unix.CAP_NET_RAW | 1<<unix.CAP_NET_ADMIN} {
		n.A.Do(func() {
			hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var data [2]unix.CapUserData
			data[0].Effective, data[0].Permitted = keep, keep
			require.NoError(t, unix.Capset(&hdr, &data[0]))
			_, err := xdp.Open(xdp.Options{Addrs: []netip.Addr{n.A4}})
			require.ErrorIs(t, err, unix.EPERM)
			require.ErrorContains(t, err, "CAP_BPF")
		})
	}
}

// Tagged frames carry the VLAN; frames without tag
// and of other VLANs are not for the link.
func TestVLAN(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	a := openXDP(func(o *xdp.Options) { o.VLAN = 123 }).in(t, n.A, n.A4)
	defer func() { require.NoError(t, a.Close()) }()
	// The packet link takes what the kernel thinks is of this VLAN. The priority
	// is a matter of package raw.
	peer := opener(func(addr netip.Addr) (link.Link, error) {
		return packet.Open(packet.Options{Addrs: []netip.Addr{addr}, VLAN: 123})
	}).in(t, n.B, n.B4)
	p := linktest.NewPath(a, peer)
	r := rand.New(rand.NewPCG(5, 5))
	a.Send([]transport.TxPacket{linktest.Packet(r, p, 100), linktest.Packet(r, p, 40)})
	linktest.Drive(t, a, func() bool { return a.Stats().TxPackets == 2 })
	linktest.Receive(t, peer, 2)
	require.NoError(t, peer.Close())
	b := openXDP(func(o *xdp.Options) { o.VLAN = 123 }).in(t, n.B, n.B4)
	defer func() { require.NoError(t, b.Close()) }()
	before := b.Stats().RxDatagrams
	rawSend(t, n.A, frame(t, n, frameOptions{}), frame(t, n, frameOptions{vlan: -1}),
		frame(t, n, frameOptions{vlan: 124}), frame(t, n, frameOptions{vlan: 123}))
	linktest.Receive(t, b, 1)
	require.Equal(t, before+1, b.Stats().RxDatagrams)
}

// Interface and neighbour changes: MAC, link down and up, MTU.
func TestChanges(t *testing.T) {
	n, a, b := openPair(t, 9000)
	w, _ := link.As[link.Watcher](a)
	states := make(chan link.PortState, 100)
	w.Watch(func(s link.PortState) { states <- s })
	next := func(want link.PortState) {
		t.Helper()
		for s := range states {
			if s == want {
				return
			}
		}
	}
	p := linktest.NewPath(a, b)
	next(link.PortState{Up: true, MTU: ib.MTU4096})
	until(t, a, p, func() bool { return drain(t, b) > 0 })

	// B gets another MAC: its program looks for that one, A is told.
	n.B.Run("ip", "link", "set", linktest.Device, "address", "02:00:00:00:99:33")
	n.A.Run("ip", "neigh", "replace", n.B4.String(), "lladdr", "02:00:00:00:99:33", "dev", linktest.Device, "nud", "reachable")
	drain(t, b)
	until(t, a, p, func() bool { return drain(t, b) > 0 })

	n.A.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
	next(link.PortState{Up: true, MTU: ib.MTU1024})
	r := rand.New(rand.NewPCG(2, 2))
	big := []transport.TxPacket{linktest.Packet(r, p, 4096)}
	dropped := func() bool { a.Send(big); return a.Stats().TxDropped > 0 }
	for end := time.Now().Add(giveUp); !dropped(); {
		require.True(t, time.Now().Before(end))
	}
	n.A.Run("ip", "link", "set", linktest.Device, "mtu", "9000")
	next(link.PortState{Up: true, MTU: ib.MTU4096})

	before := a.Stats().TxUnreachable
	n.A.Run("ip", "link", "set", linktest.Device, "down")
	next(link.PortState{Up: false, MTU: ib.MTU4096})
	until(t, a, p, func() bool { return a.Stats().TxUnreachable > before })
	n.A.Run("ip", "link", "set", linktest.Device, "up")
	next(link.PortState{Up: true, MTU: ib.MTU4096})
	drain(t, b)
	until(t, a, p, func() bool { return drain(t, b) > 0 })
	require.Zero(t, b.Stats().RxICRC)
}

// On the wire: each packet has identification 0, DF, no UDP checksum, and a right
// ICRC, and tshark finds nothing wrong.
func TestWire(t *testing.T) {
	n := linktest.NewNet(t, 9000)
	a, b := openXDP().in(t, n.A, n.A4), openUDP(udp.Options{}).in(t, n.B, n.B4)
	defer func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}()
	p := linktest.NewPath(a, b)
	p.TrafficClass = 26<<2 | transport.ECT0
	until(t, a, p, func() bool { return drain(t, b) > 0 }) // resolve the neighbour
	drain(t, b)
	r := rand.New(rand.NewPCG(4, 4))
	const count = 20
	frames := n.B.Capture(t, func() {
		before := a.Stats().TxPackets
		batch := make([]transport.TxPacket, count)
		for i := range batch {
			batch[i] = linktest.Packet(r, p, 4096)
		}
		a.Send(batch)
		linktest.Drive(t, a, func() bool { return a.Stats().TxPackets == before+count })
		rx := make([]transport.RxPacket, 16)
		for got, end := 0, time.Now().Add(giveUp); got < count; {
			require.True(t, time.Now().Before(end))
			k, err := b.Recv(rx)
			require.NoError(t, err)
			for _, p := range rx[:k] {
				if len(p.Data) > 4096 { // not one of those that resolved the neighbour
					got++
				}
			}
			if k == 0 {
				require.NoError(t, b.Wait(int64(time.Second)))
			}
		}
	})
	c := ib.NewICRC(ib.Flow{Src: n.A4, Dst: n.B4, SrcPort: p.SrcPort, DstPort: ib.UDPPort})
	all := slices.DeleteFunc(roceFrames(frames), func(p gopacket.Packet) bool { return len(p.Data()) < 4096 })
	file := linktest.WriteCapture(t, all)
	require.Len(t, all, count)
	for _, pkt := range all {
		udp, ip := pkt.Layer(layers.LayerTypeUDP).(*layers.UDP), pkt.NetworkLayer().(*layers.IPv4)
		require.EqualValues(t, p.TrafficClass, ip.TOS)
		require.EqualValues(t, p.HopLimit, ip.TTL)
		require.Equal(t, layers.IPv4DontFragment, ip.Flags)
		require.Zero(t, ip.Id)
		require.Zero(t, udp.Checksum)
		require.EqualValues(t, p.SrcPort, udp.SrcPort)
		require.Equal(t, ib.TrailingICRC(udp.Payload), c.Checksum(0, udp.Payload[:len(udp.Payload)-4]))
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("the rest needs tshark")
	}
	out, err := exec.Command(tshark, "-r", file, "-o", "ip.check_checksum:TRUE", "-Y", "_ws.malformed || ip.checksum.status == 0").Output()
	require.NoError(t, err)
	require.Empty(t, string(out))
	out, err = exec.Command(tshark, "-r", file, "-Y", "infiniband.bth.opcode == 7").Output()
	require.NoError(t, err)
	require.Equal(t, count, strings.Count(string(out), "\n"))
}
