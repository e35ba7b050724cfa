//go:build linux

package xdp_test

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// giveUp bounds what would otherwise hang.
const giveUp = 2 * time.Minute

func openPair(t *testing.T, mtu int, changes ...func(*xdp.Options)) (n *linktest.Net, a, b link.Link) {
	return openXDP(changes...).OpenPair(t, mtu)
}

// The MTU follows from the interface and from what frames the mode takes.
func TestModeAndMTU(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 9000)
	type modeTest struct {
		mode string
		mtu  ib.MTU
		f    func(o *xdp.Options)
	}
	// A veth whose frames may be longer than a page takes no program for one buffer in the driver.
	oneBuffer := "generic copy"
	if os.Getpagesize() > 9000 {
		oneBuffer = "native copy"
	}
	cases := []modeTest{
		{"native copy multi-buffer", ib.MTU4096, nil},
		{"generic copy multi-buffer", ib.MTU4096, func(o *xdp.Options) { o.DisableNative = true }},
		{oneBuffer, ib.MTU2048, func(o *xdp.Options) { o.DisableMultiBuffer = true }},
		{"native copy multi-buffer", ib.MTU1024, func(o *xdp.Options) { o.MTU = ib.MTU1024 }},
	}
	if linktest.Before(t, 6, 6) { // there is no multi-buffer
		cases = []modeTest{{"generic copy", ib.MTU2048, nil}, {"generic copy", ib.MTU1024,
			func(o *xdp.Options) { o.MTU = ib.MTU1024 }}}
	}
	for _, c := range cases {
		l := openXDP(c.f).In(t, n.A, n.A4)
		require.Equal(t, c.mode, l.Capabilities().Mode)
		require.Equal(t, c.mtu, l.MTU())
		var state link.PortState
		l.Watch(func(s link.PortState) { state = s })
		require.Equal(t, link.PortState{Up: true, MTU: c.mtu}, state)
		require.NoError(t, l.Close())
	}
}

// Everything else goes on as if the link were not there: TCP, UDP to other
// ports, neighbour discovery; and the port is reserved against others and ICMP.
func TestOtherTraffic(t *testing.T) {
	t.Parallel()
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

// A process that is killed leaves nothing on the interface, and another can have it.
func TestDeath(t *testing.T) {
	t.Parallel()
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
	a, b := openXDP().In(t, n.A, n.A4), openXDP().In(t, n.B, n.B4)
	linktest.Reaches(t, a, b, linktest.NewPath(a, b))
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.NotContains(t, show(), "prog/xdp")
}

// Without the privileges the error says which. Dropped by this thread only.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	for want, o := range map[string]xdp.Options{
		"no local address given": {},
		"not a unicast address":  {Addrs: []netip.Addr{netip.MustParseAddr("0.0.0.0")}},
		"given twice":            {Addrs: []netip.Addr{n.A4, n.A4}},
		"no interface here has":  {Addrs: []netip.Addr{netip.MustParseAddr("203.0.113.5")}},
		"between 1 and 4094":     {Addrs: []netip.Addr{n.A4}, VLAN: 4095},
	} {
		n.A.Do(func() {
			_, err := xdp.Open(o)
			var oe *link.OpenError
			require.ErrorAs(t, err, &oe)
			require.ErrorContains(t, err, want)
		})
	}
	for want, o := range map[string]xdp.Options{
		"power of two": {Addrs: []netip.Addr{n.A4}, RxFrames: 1000},
		"Queues: -1":   {Addrs: []netip.Addr{n.A4}, Queues: -1},
	} {
		_, err := xdp.Open(o)
		var ae *edge.ArgError
		require.ErrorAs(t, err, &ae)
		require.ErrorContains(t, err, want)
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

// Before Linux 6.8 the verifier lets only a process with CAP_PERFMON store into what it takes for a
// spilled register.
func TestNeedsNoPerfmon(t *testing.T) {
	linktest.NewNet(t, 1500) // skips without privileges
	n, err := xdp.StoresIntoSpills()
	require.NoError(t, err)
	require.Zero(t, n)
}

// Without the memory for the frames the error says what to do, and nothing is left of the tries.
func TestNoMemory(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	var before, now unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before))
	now = unix.Rlimit{Cur: 64 << 10, Max: before.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &now))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before)) }()
	open := func(a netip.Addr, frames int) (l *xdp.Link, err error) {
		n.A.Do(func() {
			// Of this thread only; with CAP_IPC_LOCK there is no limit.
			hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			data := [2]unix.CapUserData{}
			data[0].Effective = 1<<unix.CAP_NET_RAW | 1<<unix.CAP_NET_ADMIN
			data[1].Effective = 1 << (unix.CAP_BPF - 32)
			data[0].Permitted, data[1].Permitted = data[0].Effective, data[1].Effective
			require.NoError(t, unix.Capset(&hdr, &data[0]))
			l, err = xdp.Open(xdp.Options{
				Addrs: []netip.Addr{a}, RxFrames: frames, TxFrames: frames, DisableMultiBuffer: true,
			})
		})
		return l, err
	}
	for range 3 {
		_, err := open(n.A4, 0)
		require.ErrorIs(t, err, unix.ENOBUFS)
		require.ErrorContains(t, err, "ulimit -l")
	}
	l, err := open(n.A4, 8) // 64 KiB
	// Of what this user has locked the kernel gives back a moment after it is closed, here
	// or in another process.
	for end := time.Now().Add(giveUp); errors.Is(err, unix.ENOBUFS) && time.Now().Before(end); runtime.Gosched() {
		l, err = open(n.A4, 8)
	}
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NotContains(t, n.A.Run("ip", "-details", "link", "show", linktest.Device), "prog/xdp")
}

// Tagged frames carry the VLAN; frames without tag and of other VLANs are not for the link.
func TestVLAN(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	a := openXDP(func(o *xdp.Options) { o.VLAN = 123 }).In(t, n.A, n.A4)
	defer func() { require.NoError(t, a.Close()) }()
	// The packet link takes what the kernel thinks is of this VLAN. The priority
	// is a matter of package frame.
	peer := linktest.Opener(func(addr netip.Addr) (link.Link, error) {
		return packet.Open(packet.Options{Addrs: []netip.Addr{addr}, VLAN: 123})
	}).In(t, n.B, n.B4)
	p := linktest.NewPath(a, peer)
	r := rand.New(rand.NewPCG(5, 5))
	a.Send([]edge.TxPacket{linktest.Packet(r, p, 100), linktest.Packet(r, p, 40)})
	linktest.Drive(t, a, func() bool { return a.Stats().TxPackets == 2 })
	linktest.Receive(t, peer, 2)
	require.NoError(t, peer.Close())
	b := openXDP(func(o *xdp.Options) { o.VLAN = 123 }).In(t, n.B, n.B4)
	defer func() { require.NoError(t, b.Close()) }()
	before := b.Stats().RxDatagrams
	linktest.SendFrames(t, n.A, linktest.MakeFrame(t, n, linktest.Frame{}),
		linktest.MakeFrame(t, n, linktest.Frame{VLAN: -1}), linktest.MakeFrame(t, n, linktest.Frame{VLAN: 124}),
		linktest.MakeFrame(t, n, linktest.Frame{VLAN: 123}))
	linktest.Receive(t, b, 1)
	require.Equal(t, before+1, b.Stats().RxDatagrams)
}

// On the wire: each packet has identification 0, DF, no UDP checksum, and a right
// ICRC, and tshark finds nothing wrong.
func TestWire(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 9000)
	a, b := openXDP().In(t, n.A, n.A4), openUDP(udp.Options{}).In(t, n.B, n.B4)
	defer func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}()
	p := linktest.NewPath(a, b)
	p.TrafficClass = 26<<2 | edge.ECT0
	linktest.Reaches(t, a, b, p) // resolve the neighbour
	r := rand.New(rand.NewPCG(4, 4))
	const count = 20
	longest := a.MTU().Bytes()
	frames := n.B.Capture(t, func() {
		batch := make([]edge.TxPacket, count)
		for i := range batch {
			batch[i] = linktest.Packet(r, p, longest)
		}
		linktest.SendAll(t, a, batch)
		linktest.Await(t, b, batch)
	})
	c := ib.NewICRC(ib.Flow{Src: n.A4, Dst: n.B4, SrcPort: p.SrcPort, DstPort: ib.UDPPort})
	all := slices.DeleteFunc(linktest.RoCEFrames(frames), func(p *capture.Packet) bool { return len(p.Data) < longest })
	require.Len(t, all, count)
	for _, pkt := range all {
		require.Equal(t, p.TrafficClass, pkt.TrafficClass)
		require.Equal(t, p.HopLimit, pkt.HopLimit)
		require.True(t, pkt.DF && !pkt.More)
		require.Zero(t, pkt.Ident)
		require.Zero(t, pkt.UDPChecksum)
		require.Equal(t, p.SrcPort, pkt.Flow.SrcPort)
		require.Equal(t, ib.TrailingICRC(pkt.Payload), c.Checksum(0, pkt.Payload[:len(pkt.Payload)-4]))
	}
	linktest.CheckCapture(t, all, false)
}
