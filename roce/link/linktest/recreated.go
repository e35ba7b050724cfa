package linktest

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// RunRecreated tests that a link that watches its port goes on when its interface is
// recreated, with another index or the same: the port is up, packets
// pass in both directions, single ones and to groups, and the port is reserved.
func RunRecreated(t *testing.T, open Opener) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		addrs func(n *Net) (a, b netip.Addr)
		group string
		index int
	}{
		{"IPv4", func(n *Net) (a, b netip.Addr) { return n.A4, n.B4 }, "239.1.2.3", 31},
		{"IPv4, same index", func(n *Net) (a, b netip.Addr) { return n.A4, n.B4 }, "239.1.2.3", firstIndex},
		{"IPv6", func(n *Net) (a, b netip.Addr) { return n.A6, n.B6 }, "ff15::1:2", 31},
		{"IPv6 link-local", func(n *Net) (a, b netip.Addr) { return n.LinkLocalA, n.LinkLocalB }, "ff15::1:2", 31},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := NewNet(t, 1500)
			addrA, addrB := c.addrs(n)
			a, b := open.Open(t, n.A, addrA), open.Open(t, n.B, addrB)
			group := netip.MustParseAddr(c.group)
			require.NoError(t, b.Join(group, b.Addrs()[0]))
			states := []states{watch(a), watch(b)}
			paths := []*edge.Path{NewPath(a, b), NewPath(a, b), NewPath(b, a)}
			paths[1].Dst = group
			pass := func() {
				t.Helper()
				for _, s := range states {
					s.until(t, up)
				}
				Reaches(t, a, b, paths[0])
				Reaches(t, a, b, paths[1])
				Reaches(t, b, a, paths[2])
				require.Contains(t, n.B.Run("ip", "maddr", "show", "dev", Device), c.group,
					"the kernel is in the group")
				holder := b.Addrs()[0]
				if holder.IsLinkLocalUnicast() {
					holder = holder.WithZone(strconv.Itoa(n.index + 1)) // names are remembered by the net package
				}
				n.B.Do(func() {
					_, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(holder, ib.UDPPort)))
					require.ErrorIs(t, err, unix.EADDRINUSE)
				})
			}
			pass()
			n.A.Run("ip", "link", "del", Device)
			for _, s := range states {
				s.until(t, down)
			}
			for _, p := range paths[:2] {
				before := unreachable(a)
				a.Send([]edge.TxPacket{Packet(rand.New(rand.NewPCG(1, 1)), p, 8)})
				require.Equal(t, before+1, unreachable(a))
			}
			n.plug(t, c.index)
			pass()
			require.NoError(t, b.Leave(group, b.Addrs()[0]))
			require.NotContains(t, n.B.Run("ip", "maddr", "show", "dev", Device), c.group)
		})
	}
}
