package doctor

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// giveUp bounds what takes moments.
const giveUp = 2 * time.Minute

// The machine of the test: nothing on loopback is broken, whatever else there is.
func TestThisMachine(t *testing.T) {
	all, err := examine(t.Context(), thisSystem(), target{iface: "lo"},
		[]string{"address", "interface", "port", "mtu", "pfc"})
	require.NoError(t, err)
	for _, f := range all {
		require.Less(t, f.Level, Fail, "%+v", f)
	}
}

// in examines a network namespace.
func in(t *testing.T, ns *linktest.Namespace, to target, only ...string) (all []Finding) {
	t.Helper()
	ns.Do(func() {
		var err error
		all, err = examine(context.Background(), thisSystem(), to, only)
		require.NoError(t, err)
	})
	return all
}

// want finds a finding.
func want(t *testing.T, all []Finding, level Level, found string) {
	t.Helper()
	for _, f := range all {
		if f.Level == level && strings.Contains(f.Found, found) {
			return
		}
	}
	t.Fatalf("no finding %v with %q: %+v", level, found, all)
}

// What the kernel says of interfaces that are sick, and of a port that is taken.
func TestNamespaces(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	eth := target{iface: linktest.Device}
	want(t, in(t, n.A, eth, "mtu"), Note, "1500 bytes: path MTU 1024")
	want(t, in(t, n.A, eth, "port"), OK, "a device could be opened")
	n.A.Run("ethtool", "-K", linktest.Device, "gro", "on")
	want(t, in(t, n.A, eth, "offloads"), OK, "GRO, GSO")
	n.A.Run("ethtool", "-K", linktest.Device, "gro", "off", "gso", "off")
	want(t, in(t, n.A, eth, "offloads"), Warn, "GRO is off")
	want(t, in(t, n.A, eth, "offloads"), Warn, "GSO is off")
	n.A.Run("ip", "link", "set", linktest.Device, "mtu", "600")
	want(t, in(t, n.A, eth, "mtu"), Warn, "path MTU 512")

	var taken *net.UDPConn
	var err error
	n.A.Do(func() {
		taken, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.A4, ib.UDPPort)))
	})
	require.NoError(t, err)
	defer taken.Close()
	want(t, in(t, n.A, eth, "port"), Fail, "UDP port 4791 is taken by process")

	n.B.Run("ip", "link", "set", linktest.Device, "down")
	// The kernel tells of the carrier up to a second late.
	for end := time.Now().Add(giveUp); in(t, n.A, eth, "interface")[0].Level == OK && time.Now().Before(end); {
		runtime.Gosched()
	}
	want(t, in(t, n.A, eth, "interface"), Fail, "no carrier")
	want(t, in(t, n.B, eth, "interface"), Fail, "switched off")
	n.A.Run("ip", "addr", "flush", "dev", linktest.Device)
	want(t, in(t, n.A, eth, "address"), Fail, "no address")
}
