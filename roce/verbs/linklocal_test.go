package verbs

import (
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
				ns.Run("ip", "-6", "route", "add", "multicast", "ff00::/8", "dev", "other", "table", "local", "metric", "1")
			}
			a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, name, n.LinkLocalA, true)}), 1<<20, QPInitAttr{})
			b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, name, n.LinkLocalB, true)}), 1<<20, QPInitAttr{})
			connect(t, a, b)
			exercise(t, a, b, []int{1, 4096, 100_000})
			require.Zero(t, a.d.LinkStats().TxDropped)
		})
	}
}
