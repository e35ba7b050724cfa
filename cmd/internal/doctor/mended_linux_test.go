package doctor

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// bed is a broken network, and where doctors look at it.
type bed struct {
	*linktest.Net
	t        *testing.T
	patience time.Duration
	serving  bool // a doctor serves at B
}

// mendCase breaks a network in namespaces of its own. The doctor at A finds that, the commands that
// it prints are run, and the doctor finds it mended.
type mendCase struct {
	name   string
	check  string // of the finding; one of pathChecks is looked for on the path from A to B
	v6     bool   // the path of IPv6
	needs  string // a command of the system
	spoil  func(b *bed)
	silent bool // nothing answers, or some does not: patience is short
	gone   bool // nobody answers afterwards either
	quiet  bool // nobody serves at B
	level  Level
	found  string
	truth  func(b *bed) bool // what the kernel does, without the doctor: false when it is broken
}

func nft(ns func(b *bed) *linktest.Namespace, script string) func(b *bed) {
	return func(b *bed) { load(b.t, ns(b), "nft", "nft", script) }
}

func atA(b *bed) *linktest.Namespace { return b.A }
func atB(b *bed) *linktest.Namespace { return b.B }

func ip(ns func(b *bed) *linktest.Namespace, commands ...string) func(b *bed) {
	return func(b *bed) { ns(b).IP(commands...) }
}

var mendCases = []mendCase{
	{name: "no address", check: "address", spoil: ip(atA, "addr flush dev veth0"), level: Fail,
		found: "veth0: no address"},
	{name: "only loopback", check: "address", spoil: ip(atA, "addr flush dev veth0", "link set veth0 down"),
		level: Warn, found: "only loopback has an address"},
	{name: "IPv6 address of another machine", check: "address", spoil: func(b *bed) {
		b.B.IP("addr add fd99::77/64 dev veth0 nodad")
		b.A.SetSysctl("ipv6/conf/veth0/accept_dad", 1)
		b.A.IP("addr add fd99::77/64 dev veth0")
		b.await(func() bool { return strings.Contains(b.A.Run("ip", "addr", "show", "dev", "veth0"), "dadfailed") })
	}, level: Fail, found: "fd99::77 is used by another machine"},
	{name: "switched off", check: "interface", spoil: ip(atA, "link set veth0 down"), level: Fail,
		found: "switched off"},
	{name: "address of another machine", check: "duplicate",
		spoil: ip(atB, "addr add 10.99.0.1/32 dev veth0"), level: Fail,
		found: "10.99.0.1 is an address of another machine too: 02:00:00:00:99:02 answers for it"},
	{name: "two peers", check: "peer", gone: true, spoil: twoPeers, level: Fail, found: "2 machines answer for it: "},
	{name: "taken port", check: "port", spoil: takePort, level: Fail, found: "UDP port 4791 is taken by process"},
	{name: "two ports in a network", check: "rp-filter", spoil: twoRails, level: Fail,
		found: "rp_filter is strict, and veth0 has addresses of the same network 10.99.0.0/24",
		truth: func(b *bed) bool {
			return datagram(b.t, b.B, b.B4, b.A, netip.MustParseAddr("10.99.0.11"))
		}},
	{name: "small MTU", check: "mtu", spoil: ip(atA, "link set veth0 mtu 600"), level: Warn,
		found: "600 bytes: path MTU 512"},
	{name: "tiny MTU", check: "mtu",
		spoil: func(b *bed) { b.A.IP("addr del " + b.A6.String() + "/64 dev veth0"); b.A.IP("link set veth0 mtu 300") },
		level: Fail, found: "300 bytes: too small"},
	{name: "usual MTU", check: "mtu", spoil: func(*bed) {}, level: Note, found: "1500 bytes: path MTU 1024"},
	{name: "MTU of a route", check: "mtu", spoil: ip(atA,
		"route change 10.99.0.0/24 dev veth0 proto kernel scope link src 10.99.0.1 mtu 600"), level: Fail,
		found: "the route 10.99.0.0/24 has MTU 600, which carries path MTU 512",
		truth: func(b *bed) bool { return fits(b, b.A4, b.B4) }},
	{name: "MTU of a route of IPv6", check: "mtu", spoil: func(b *bed) {
		b.A.Run("ip", "-6", "route", "change", "fd99::/64", "dev", "veth0", "proto", "kernel", "metric",
			"256", "mtu", "lock", "1000")
	}, level: Fail, found: "the route fd99::/64 has MTU 1000, which carries path MTU 512"},
	{name: "MTU of a route, seen on the path", check: "path-mtu",
		spoil: ip(atA, "route add 10.99.0.2/32 dev veth0 mtu 600"), level: Fail,
		found: "the network carries 1024, and the route of this machine has MTU 600, which carries path MTU 512",
		truth: func(b *bed) bool { return fits(b, b.A4, b.B4) }},
	{name: "narrow peer", check: "path-mtu", spoil: ip(atB, "link set veth0 mtu 600"), silent: true,
		level: Warn, found: "512, which is less than what the interface here carries"},
	{name: "tracked connections", check: "conntrack", needs: "nft", quiet: true, spoil: func(b *bed) {
		nft(atA, `table inet f { chain i { type filter hook input priority 0; ct state new counter; } }`)(b)
		linktest.AwaitPort(b.t, b.B, b.B4, b.A, b.A4, ib.UDPPort)
	}, level: Note, found: "connections tracked"},
	{name: "GRO off", check: "offloads", needs: "ethtool", spoil: func(b *bed) {
		b.A.Run("ethtool", "-K", "veth0", "gro", "off")
	}, level: Warn, found: "GRO is off"},
	{name: "checksums off", check: "offloads", needs: "ethtool", spoil: func(b *bed) {
		b.A.Run("ethtool", "-K", "veth0", "gro", "on", "tx", "off")
	}, level: Warn, found: "TX checksum is off"},

	{name: "nobody serves", check: "reach", quiet: true, silent: true, spoil: func(*bed) {}, level: Fail,
		found: "nobody has the port"},
	{name: "nobody serves IPv6", check: "reach", v6: true, quiet: true, silent: true, spoil: func(*bed) {},
		level: Fail, found: "nobody has the port"},
	{name: "dropped on the way out", check: "reach", needs: "nft", silent: true,
		spoil: nft(atA, `table ip f { chain o { type filter hook output priority 0; udp dport 4791 drop; } }`),
		level: Fail, found: "does not let the packets out"},
	{name: "answers only", check: "unasked", needs: "nft", silent: true,
		spoil: nft(atA, `table inet f { chain i { type filter hook input priority 0; policy drop; ct state established accept; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; } }`),
		level: Fail,
		found: "packets of the peer's own to UDP port 4791 do not: chain i of table inet f, hook input drops"},
	{name: "NAT", check: "nat", needs: "nft", silent: true,
		spoil: nft(atA, `table ip n { chain p { type nat hook postrouting priority 100; udp dport 4791 snat to 10.99.0.1:1024-1100; } }`),
		level: Fail, found: "arrives as 10.99.0.1:10"},
	{name: "identification", check: "icrc", needs: "nft", spoil: nft(atB,
		`table ip f { chain p { type filter hook prerouting priority 0; udp dport 4791 ip id set 77; } }`),
		level: Fail, found: "identification 0 arrives as 77"},
	{name: "loss by a rule", check: "loss", needs: "nft", silent: true,
		spoil: nft(atB, `table ip f { chain p { type filter hook prerouting priority 0; udp dport 4791 udp length 520 numgen inc mod 10 0 drop; } }`),
		level: Fail, found: " of 2000 packets lost"},
	{name: "marks on everything", check: "ecn-path", needs: "nft", spoil: nft(atB,
		`table ip f { chain p { type filter hook prerouting priority 0; udp dport 4791 ip ecn set ce; } }`),
		level: Warn, found: "packets came with the mark CE"},
	{name: "marks by iptables", check: "ecn-path", needs: "iptables", spoil: func(b *bed) {
		load(b.t, b.A, "iptables", "iptables", "-t mangle -A POSTROUTING -p udp -j TOS --set-tos 0x03/0x03")
	}, level: Warn, found: "packets came with the mark CE"},
	{name: "bleached", check: "ecn-path", needs: "nft", spoil: nft(atA,
		`table ip f { chain p { type filter hook postrouting priority 0; udp dport 4791 ip ecn set not-ect; } }`),
		level: Warn, found: "ECN is bleached"},
	{name: "DSCP", check: "dscp", needs: "nft", spoil: nft(atB,
		`table ip f { chain p { type filter hook prerouting priority 0; udp dport 4791 ip dscp set cs0; } }`),
		level: Note, found: "DSCP 26 arrives as 0"},
}

// Every advice of the network: a network is broken, the doctor says so, the command that it prints
// is run, and the doctor says that it is mended.
func TestMended(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a pair of network namespaces and a probe for each of 30 cases")
	}
	for _, c := range mendCases {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != "" {
				if _, err := exec.LookPath(c.needs); err != nil {
					t.Skipf("%s is not installed (Debian: apt install nftables iptables ethtool)", c.needs)
				}
			}
			b := &bed{Net: linktest.NewNet(t, 1500), t: t}
			if !c.quiet {
				b.serve()
			}
			c.spoil(b)
			if c.truth != nil {
				require.False(t, c.truth(b), "it is not broken")
			}
			b.patience = 20 * time.Second
			if c.silent {
				b.patience = 0
			}
			all := b.examine(&c)
			i := slices.IndexFunc(all, func(f Finding) bool {
				text := f.Found
				if f.Subject != "" {
					text = f.Subject + ": " + text
				}
				return f.Check == c.check && f.Level == c.level && strings.Contains(text, c.found)
			})
			require.GreaterOrEqual(t, i, 0, "no finding %v of %s with %q: %+v", c.level, c.check, c.found, all)
			if c.level == OK {
				return
			}
			sick := all[i]
			b.follow(b.A, all[i:i+1])
			if c.check == "reach" && !c.quiet {
				// The rule that keeps everything back is a finding of its own.
				b.follow(b.A,
					slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Check != "firewall" }))
			}
			if b.patience = 20 * time.Second; c.gone {
				b.patience = 0
			}
			if c.check == "interface" { // the kernel tells of the carrier up to a second late
				b.await(func() bool { return b.examine(&c)[0].Level == OK })
			}
			for _, f := range b.examine(&c) {
				if f.Check == c.check && f.Subject == sick.Subject {
					require.Less(t, max(f.Level, Unknown), max(c.level, Warn), "after %q: %+v", sick.Mend, f)
					require.False(t, c.level == Note && f.Level == Note && f.Found == sick.Found,
						"after %q: %+v", sick.Mend, f)
				}
			}
			if c.truth != nil {
				require.True(t, c.truth(b), "after %q", sick.Mend)
			}
		})
	}
}

// examine is a doctor at A: of the machine, or of the path.
func (b *bed) examine(c *mendCase) (all []Finding) {
	b.t.Helper()
	if !slices.Contains(pathChecks, c.check) {
		to := target{iface: linktest.Device}
		if c.name == "only loopback" {
			to = target{}
		}
		if c.check == "rp-filter" {
			to = target{}
		}
		return in(b.t, b.A, to, c.check)
	}
	host := b.B4
	if c.v6 {
		host = b.B6
	}
	var err error
	b.A.Do(func() {
		o := &options{port: ib.UDPPort, pathOnly: true, patience: b.patience}
		all, _, err = o.path(b.t.Context(), &tool.Env{}, thisSystem(), host.String())
	})
	require.NoError(b.t, err)
	return all
}

// serve is a doctor that serves at B.
func (b *bed) serve(args ...string) {
	b.serving = true
	ctx, cancel := context.WithCancel(b.t.Context())
	listening, done := make(chan struct{}), make(chan error, 1)
	env := &tool.Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{},
		Listening: func(netip.AddrPort) { close(listening) }}
	go b.B.Do(func() { done <- Command().Run(ctx, env, append([]string{"--serve"}, args...)) })
	select {
	case <-listening:
	case err := <-done:
		require.NoError(b.t, err)
	}
	b.t.Cleanup(func() {
		cancel()
		require.ErrorIs(b.t, <-done, context.Canceled)
	})
}

func (b *bed) await(f func() bool) {
	b.t.Helper()
	for end := time.Now().Add(giveUp); !f(); {
		require.True(b.t, time.Now().Before(end))
	}
}

// follow does what findings at a machine say, as their reader would: it runs the commands, and
// those that other doctors print.
func (b *bed) follow(at *linktest.Namespace, all []Finding) {
	b.t.Helper()
	for _, f := range all {
		for _, c := range f.Mend {
			args := strings.Fields(strings.Split(c, "   #")[0])
			switch {
			case strings.HasPrefix(c, "roce doctor --only "):
				for _, ns := range []*linktest.Namespace{b.A, b.B} {
					found := in(b.t, ns, target{}, strings.Split(args[3], ",")...)
					mend(b.t, ns, slices.DeleteFunc(found,
						func(f Finding) bool { return f.Level == Note && f.Check != "firewall" }))
				}
			case strings.HasPrefix(c, "roce doctor --serve "):
				if !b.serving {
					b.serve(args[3:]...)
				}
			default:
				mend(b.t, at, []Finding{{Level: f.Level, Check: f.Check, Mend: []string{c}}})
			}
		}
	}
}

// mend runs the commands of findings in a namespace, but for those that look at things, and those
// of the machine as a whole.
func mend(t *testing.T, ns *linktest.Namespace, all []Finding) {
	t.Helper()
	for _, f := range all {
		if f.Level <= OK || f.Check == "buffers" {
			continue
		}
		for _, c := range f.Mend {
			if c[0] == '#' || strings.HasPrefix(c, "roce ") || strings.HasPrefix(c, "sudo roce") ||
				strings.HasPrefix(c, "ping ") || strings.HasPrefix(c, "ip -s link") ||
				strings.Contains(c, "INTERFACE") {
				continue
			}
			var out []byte
			var err error
			ns.Do(func() { out, err = exec.Command("sh", "-c", c).CombinedOutput() })
			require.NoError(t, err, "%s: %s", c, out)
		}
	}
}

// twoPeers puts a third machine, with B's address, on a bridge in B.
func twoPeers(b *bed) {
	c := linktest.NewNamespace(b.t)
	b.B.IP("link add br0 type bridge", "addr flush dev veth0", "link set veth0 master br0",
		"addr add "+b.B4.String()+"/24 dev br0", "link set br0 up",
		"link add c0 type veth peer name eth0 netns "+c.Path(), "link set c0 master br0 up")
	c.IP("addr add "+b.B4.String()+"/24 dev eth0", "link set eth0 up")
	b.await(func() bool {
		var macs []string
		b.A.Do(func() {
			all, err := interfaces()
			require.NoError(b.t, err)
			i := slices.IndexFunc(all, func(i Interface) bool { return i.Name == linktest.Device })
			macs, err = owners(b.t.Context(), &all[i], b.B4)
			require.NoError(b.t, err)
		})
		return len(macs) == 2
	})
}

// twoRails gives both machines a second interface: what B sends to A's second address comes in
// there, and A would answer by the first.
func twoRails(b *bed) {
	b.A.Run("ip", "link", "add", "veth1", "index", "41", "type", "veth", "peer", "name", "veth1", "index",
		"42", "netns", b.B.Path())
	b.A.SetSysctl("ipv4/conf/veth0/rp_filter", 0)
	b.A.SetSysctl("ipv4/conf/all/rp_filter", 0)
	b.A.SetSysctl("ipv4/conf/veth1/rp_filter", 1)
	b.A.IP("addr add 10.99.0.11/24 dev veth1", "link set veth1 up")
	b.B.IP("link set veth1 up", "route add 10.99.0.11/32 dev veth1 src "+b.B4.String())
	mac := strings.Fields(strings.SplitN(b.A.Run("ip", "-o", "link", "show", "veth1"), "link/ether ", 2)[1])[0]
	b.B.IP("neigh replace 10.99.0.11 lladdr " + mac + " dev veth1 nud permanent")
}

// datagram reports whether one of several datagrams arrives.
func datagram(t *testing.T, from *linktest.Namespace, a netip.Addr, to *linktest.Namespace, b netip.Addr) bool {
	t.Helper()
	var src, dst *net.UDPConn
	var err error
	from.Do(func() { src, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0))) })
	require.NoError(t, err)
	defer src.Close()
	to.Do(func() { dst, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(b, 0))) })
	require.NoError(t, err)
	defer dst.Close()
	at := dst.LocalAddr().(*net.UDPAddr).AddrPort()
	for range 20 {
		if _, err := src.WriteToUDPAddrPort([]byte("x"), at); err != nil {
			continue
		}
		require.NoError(t, dst.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		if _, err := dst.Read(make([]byte, 9)); err == nil {
			return true
		}
	}
	return false
}

// fits reports whether a packet of path MTU 1024 leaves, as the devices send it: with DF.
func fits(b *bed, from, to netip.Addr) bool {
	b.t.Helper()
	var err error
	b.A.Do(func() {
		var c *net.UDPConn
		if c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))); err != nil {
			return
		}
		defer c.Close()
		raw, _ := c.SyscallConn()
		_ = raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
		if err == nil {
			_, err = c.WriteToUDPAddrPort(make([]byte, 1024+40), netip.AddrPortFrom(to, 9))
		}
	})
	if err != nil {
		require.ErrorIs(b.t, err, unix.EMSGSIZE)
	}
	return err == nil
}

// portTaker is set in the environment of a process that takes the port.
const portTaker = "GOROCE_TEST_TAKES_PORT"

func takePort(b *bed) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestTakePort$")
	cmd.Env = append(os.Environ(), portTaker+"="+b.A4.String())
	out, err := cmd.StdoutPipe()
	require.NoError(b.t, err)
	in, err := cmd.StdinPipe()
	require.NoError(b.t, err)
	b.A.Start(cmd)
	b.t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	_, err = out.Read(make([]byte, 1))
	require.NoError(b.t, err)
}

// TestTakePort is the process of takePort.
func TestTakePort(t *testing.T) {
	a, err := netip.ParseAddr(os.Getenv(portTaker))
	if err != nil {
		t.Skip("it is the process that another test starts")
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, ib.UDPPort)))
	require.NoError(t, err)
	defer c.Close()
	fmt.Print("x")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the end of the test, or a signal
}

// A bridge in user space that does not know of the checksums which the kernel leaves to the card:
// every packet has a wrong one. The same bridge with them, damaging one frame in twenty: that is no
// loss, and not the same advice.
func TestDamagedOnTheWay(t *testing.T) {
	if testing.Short() {
		t.Skip("short: network namespaces, and a probe")
	}
	n := newBridged(t)
	b := &bed{Net: &linktest.Net{A: n.a, B: n.b, A4: n.a4, B4: n.b4}, t: t}
	b.serve()
	path := mendCase{check: "corrupt"}
	local := func() []Finding { return in(t, n.b, target{iface: "veth0"}, "damage") }

	want(t, local(), OK, "no packet that came was damaged")
	all := b.examine(&path)
	require.Equal(t, "reach", all[0].Check)
	require.Equal(t, Fail, all[0].Level)
	sick := local()
	want(t, sick, Warn, "came with a wrong UDP checksum")
	i := slices.IndexFunc(sick[0].Mend,
		func(c string) bool { return strings.HasPrefix(c, "ethtool -K INTERFACE tx off") })
	require.GreaterOrEqual(t, i, 0)
	for _, ns := range []*linktest.Namespace{n.a, n.b} { // both send
		ns.Run("sh", "-c", strings.Replace(sick[0].Mend[i], "INTERFACE", "veth0", 1))
	}
	b.patience = 20 * time.Second
	all = b.examine(&path)
	require.Equal(t, OK, all[0].Level, "%+v", all[0])
	want(t, all, OK, "no packet came damaged")

	n.damage.Store(20)
	b.patience = 0
	all = b.examine(&path)
	i = slices.IndexFunc(all, func(f Finding) bool { return f.Check == "corrupt" && f.Level == Fail })
	require.GreaterOrEqual(t, i, 0, "%+v", all)
	require.Contains(t, all[i].Found, "came with a wrong UDP checksum")
	n.damage.Store(0)
	b.patience = 20 * time.Second
	want(t, b.examine(&path), OK, "no packet came damaged")
}

// Answers to ARP that are none, and others, are told apart.
func TestARP(t *testing.T) {
	mine := netip.MustParseAddr("10.0.0.1")
	q := arpQuestion(net.HardwareAddr{2, 0, 0, 0, 0, 1}, mine)
	require.Len(t, q, arpBytes)
	_, ok := arpAnswer(q, mine) // it is from nobody
	require.False(t, ok)
	a := slices.Clone(q)
	binary.BigEndian.PutUint16(a[6:], arpReply)
	copy(a[14:], []byte{10, 0, 0, 1})
	mac, ok := arpAnswer(a, mine)
	require.True(t, ok)
	require.Equal(t, "02:00:00:00:00:01", mac)
	for _, bad := range [][]byte{nil, a[:arpBytes-1], make([]byte, arpBytes)} {
		_, ok := arpAnswer(bad, mine)
		require.False(t, ok)
	}
	_, ok = arpAnswer(a, netip.MustParseAddr("10.0.0.2"))
	require.False(t, ok)
	require.ErrorIs(t, unix.EPERM, os.ErrPermission)
}
