package verbs

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// Devices on link-local addresses reach each other by the interface of the zone,
// also where another interface has a route to such addresses.
func TestLinkLocal(t *testing.T) {
	for _, name := range []string{"udp", "packet"} {
		t.Run(name, func(t *testing.T) {
			n := linktest.NewNet(t, 4200)
			for _, ns := range []*linktest.Namespace{n.A, n.B} {
				// It comes first in the table of routes.
				ns.Run("ip", "link", "add", "other", "type", "veth", "peer", "name", "nobody")
				ns.Run("ip", "link", "set", "other", "up")
				ns.Run("ip", "link", "set", "nobody", "up")
				ns.Run("ip", "-6", "route", "add", "fe80::/64", "dev", "other", "metric", "1")
				ns.Run("ip", "-6", "route", "add", "multicast", "ff00::/8", "dev", "other", "table",
					"local", "metric", "1")
			}
			a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, name, n.LinkLocalA, true)}), 1<<20, QPInitAttr{})
			b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, name, n.LinkLocalB, true)}), 1<<20, QPInitAttr{})
			connect(t, a, b)
			exercise(t, a, b, []int{1, 4096, 100_000})
			require.Zero(t, a.d.LinkStats().TxDropped)
		})
	}
}

// A device is opened by default on what is up, except for link-local addresses; loopback comes
// last.
func TestDefaultAddrs(t *testing.T) {
	ns := linktest.NewNamespace(t)
	ns.IP(
		"link add one type veth peer name two",
		"addr add 192.0.2.1/24 dev one", "addr add 192.0.2.2/24 dev two", "addr add 169.254.1.1/16 dev one",
		"link set one up",
	)
	var all []netip.Addr
	get := func() {
		var err error
		ns.Do(func() { all, err = DefaultAddrs() })
		require.NoError(t, err)
	}
	get()
	one, lo := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")
	require.Equal(t, []netip.Addr{one, lo}, all[:2])
	for _, a := range all[2:] {
		require.Equal(t, netip.IPv6Loopback(), a)
	}
	ns.IP("link set lo down")
	get()
	require.Equal(t, []netip.Addr{one}, all)
}
