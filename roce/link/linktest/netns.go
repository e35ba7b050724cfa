package linktest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// Namespace is a network namespace, which ends with the test.
type Namespace struct {
	t  testing.TB
	ns *netns.Namespace
}

// NewNamespace makes an empty namespace with its loopback interface up. It
// skips the test, with the reason, where that is not permitted.
func NewNamespace(t testing.TB) *Namespace {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Skipf("needs a network namespace of its own, which needs root: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	n := &Namespace{t, ns}
	n.Do(func() { err = loopbackUp() })
	require.NoError(t, err)
	return n
}

// loopbackUp switches the loopback interface of the thread's namespace on. It starts no command, as
// tests make hundreds of namespaces.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// Path is a name of the namespace for commands.
func (n *Namespace) Path() string { return n.ns.Path() }

// Do runs f on a thread that is in the namespace; sockets that it opens stay
// there. f may call t.FailNow.
func (n *Namespace) Do(f func()) {
	n.t.Helper()
	ended := false
	err := n.ns.Do(func() {
		f()
		ended = true
	})
	require.NoError(n.t, err, "enter the network namespace")
	if !ended {
		n.t.FailNow() // f ended by Goexit, having said why
	}
}

// Run runs a command in the namespace, which must succeed, and returns its
// output. It skips the test where there is no such command.
func (n *Namespace) Run(name string, args ...string) string {
	n.t.Helper()
	return n.run("", name, args...)
}

// IP runs commands of ip in the namespace, all in one process, which must succeed.
func (n *Namespace) IP(commands ...string) {
	n.t.Helper()
	n.run(strings.Join(commands, "\n"), "ip", "-batch", "-")
}

// SetSysctl writes a value below /proc/sys/net of the namespace.
func (n *Namespace) SetSysctl(name string, value int64) {
	n.t.Helper()
	var err error
	n.Do(func() { err = os.WriteFile("/proc/sys/net/"+name, strconv.AppendInt(nil, value, 10), 0) })
	require.NoError(n.t, err)
}

func (n *Namespace) run(input, name string, args ...string) string {
	n.t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		n.t.Skipf("needs the command %s", name)
	}
	var out []byte
	var err error
	n.Do(func() {
		cmd := exec.Command(name, args...)
		cmd.Stdin = strings.NewReader(input)
		out, err = cmd.CombinedOutput()
	})
	require.NoError(n.t, err, "%s %s: %s%s", name, strings.Join(args, " "), input, out)
	return string(out)
}

// Start starts a command in the namespace.
func (n *Namespace) Start(cmd *exec.Cmd) {
	n.t.Helper()
	var err error
	// Pdeathsig would be about the thread, which ends at once.
	n.Do(func() { err = cmd.Start() })
	require.NoError(n.t, err)
}

// Net is two namespaces with a veth pair between them, named veth0 on both
// sides, with an IPv4 and an IPv6 address each.
type Net struct {
	A, B   *Namespace
	A4, B4 netip.Addr
	A6, B6 netip.Addr
	// The link-local addresses, with their zone, which follow from the MAC addresses.
	LinkLocalA, LinkLocalB netip.Addr
	MACA, MACB             string

	mtu, index int // index is that of the interface in A; that in B is one more
}

// Device is the name of the interface on both sides.
const Device = "veth0"

// NewNet makes a Net with interfaces of the MTU.
func NewNet(t testing.TB, mtu int) *Net {
	t.Helper()
	n := &Net{
		A: NewNamespace(t), B: NewNamespace(t),
		A4: netip.MustParseAddr("10.99.0.1"), B4: netip.MustParseAddr("10.99.0.2"),
		A6: netip.MustParseAddr("fd99::1"), B6: netip.MustParseAddr("fd99::2"),
		LinkLocalA: netip.MustParseAddr("fe80::ff:fe00:9901%" + Device),
		LinkLocalB: netip.MustParseAddr("fe80::ff:fe00:9902%" + Device),
		MACA:       "02:00:00:00:99:01", MACB: "02:00:00:00:99:02",
	}
	n.mtu = mtu
	n.plug(t, firstIndex)
	for _, ns := range []*Namespace{n.A, n.B} {
		ns.Run("ip", "neigh", "flush", "dev", Device)
	}
	return n
}

// firstIndex is the index of the interface in A to begin with.
const firstIndex = 11

// Replug removes the interfaces and makes them again, with other indexes.
func (n *Net) Replug(t testing.TB) {
	t.Helper()
	n.A.Run("ip", "link", "del", Device)
	n.plug(t, n.index+20)
}

// plug makes the interfaces, which must not be there, with indexes from that
// given, and waits until packets pass.
func (n *Net) plug(t testing.TB, index int) {
	t.Helper()
	n.index = index
	mtu := fmt.Sprint(n.mtu)
	// With different indexes: the kernel reports the carrier of an interface whose
	// index is that of its peer up to a second late (linkwatch).
	n.A.Run("ip", "link", "add", Device, "index", fmt.Sprint(index), "mtu", mtu, "address", n.MACA,
		"type", "veth", "peer", "name", Device, "index", fmt.Sprint(index+1), "mtu", mtu, "address", n.MACB,
		"netns", n.B.Path())
	for _, s := range []struct {
		ns     *Namespace
		a4, a6 netip.Addr
	}{{n.A, n.A4, n.A6}, {n.B, n.B4, n.B6}} {
		n.neighboursFailAfter(s.ns, 100*time.Millisecond)
		// Until its link-local address has passed the test for duplicates, the kernel
		// asks for no neighbour on its own account.
		s.ns.SetSysctl("ipv6/conf/"+Device+"/accept_dad", 0)
		s.ns.IP("addr add "+s.a4.String()+"/24 dev "+Device,
			"addr add "+s.a6.String()+"/64 dev "+Device+" nodad",
			"link set "+Device+" up")
	}
	n.waitReady(t)
}

// neighboursFailAfter sets how long the kernel of one side waits for a neighbour's answer, to
// one question.
func (n *Net) neighboursFailAfter(ns *Namespace, d time.Duration) {
	for _, family := range []string{"ipv4", "ipv6"} {
		neigh := family + "/neigh/" + Device
		ns.SetSysctl(neigh+"/mcast_solicit", 1)
		ns.SetSysctl(neigh+"/retrans_time_ms", d.Milliseconds())
	}
}

// waitReady waits until datagrams pass: IPv6 joins its multicast groups some time
// after an interface is up, and does not answer for neighbours before.
func (n *Net) waitReady(t testing.TB) {
	t.Helper()
	AwaitPath(t, n.A, n.A4, n.B, n.B4)
	AwaitPath(t, n.A, n.A6, n.B, n.B6)
}

// AwaitPath waits until a datagram passes from address a of one namespace to address b of another.
func AwaitPath(t testing.TB, from *Namespace, a netip.Addr, to *Namespace, b netip.Addr) {
	t.Helper()
	const discard = 9
	AwaitPort(t, from, a, to, b, discard)
}

// AwaitPort is AwaitPath for datagrams to a port.
func AwaitPort(t testing.TB, from *Namespace, a netip.Addr, to *Namespace, b netip.Addr, port uint16) {
	t.Helper()
	var conns [2]*net.UDPConn
	for i, x := range []struct {
		ns   *Namespace
		addr netip.Addr
	}{{from, a}, {to, b}} {
		var err error
		x.ns.Do(func() {
			conns[i], err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.addr, port)))
		})
		require.NoError(t, err)
		defer conns[i].Close()
	}
	end := time.Now().Add(giveUp)
	for {
		_, err := conns[0].WriteToUDPAddrPort([]byte("ready?"), netip.AddrPortFrom(b, port))
		if err == nil {
			require.NoError(t, conns[1].SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			if _, err = conns[1].Read(make([]byte, 10)); err == nil {
				return
			}
		}
		require.True(t, time.Now().Before(end), "no datagram passes from %v to %v: %v", a, b, err)
	}
}
