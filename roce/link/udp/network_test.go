package udp_test

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/stretchr/testify/require"
)

func open(a netip.Addr) (link.Link, error) { return udp.Open([]netip.Addr{a}, udp.Options{}) }

func TestMTU(t *testing.T)       { linktest.RunMTU(t, open) }
func TestMTUChange(t *testing.T) { linktest.RunMTUChange(t, open) }
func TestLeaks(t *testing.T)     { linktest.RunLeaks(t, open) }
func TestReturned(t *testing.T)  { linktest.RunReturned(t, open, true) }
func TestHostile(t *testing.T)   { linktest.RunHostile(t, open, nil) }

// Packets to a group leave by the interface of their source address, whether the
// link is in the group or not, and though the routes prefer another interface.
func TestMulticastInterface(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	n.A.Run("ip", "link", "add", "other", "type", "veth", "peer", "name", "nobody")
	n.A.Run("ip", "addr", "add", "10.44.0.1/24", "dev", "other")
	n.A.Run("ip", "link", "set", "nobody", "up")
	n.A.Run("ip", "link", "set", "other", "up")
	n.A.Run("ip", "route", "add", "224.0.0.0/4", "dev", "other")
	n.A.Run("ip", "-6", "route", "add", "multicast", "ff00::/8", "dev", "other", "table", "local", "metric", "1")
	for _, c := range []struct {
		a, b  netip.Addr
		group string
	}{{n.A4, n.B4, "239.1.2.3"}, {n.A6, n.B6, "ff15::1:2"}} {
		a, b := linktest.Opener(open).Open(t, n.A, c.a), linktest.Opener(open).Open(t, n.B, c.b)
		group := netip.MustParseAddr(c.group)
		n.B.Do(func() { require.NoError(t, b.(*udp.Link).Join(group, c.b)) })
		p := linktest.NewPath(a, b)
		p.Dst = group
		linktest.Reaches(t, a, b, p)
		n.A.Do(func() { require.NoError(t, a.(*udp.Link).Join(group, c.a)) })
		linktest.Reaches(t, a, b, p)
		require.NoError(t, a.(*udp.Link).Leave(group, c.a))
		linktest.Reaches(t, a, b, p)
	}
}

// When the interface is removed and made again, packets pass as before, those to a
// group once it has been left and joined again.
func TestRemade(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	for _, c := range []struct {
		a, b  netip.Addr
		group string
	}{{n.A4, n.B4, "239.1.2.3"}, {n.A6, n.B6, "ff15::1:2"}} {
		a, b := linktest.Opener(open).Open(t, n.A, c.a), linktest.Opener(open).Open(t, n.B, c.b)
		group := netip.MustParseAddr(c.group)
		p, to := linktest.NewPath(a, b), linktest.NewPath(a, b)
		to.Dst = group
		join := func() {
			t.Helper()
			n.B.Do(func() { require.NoError(t, b.(*udp.Link).Join(group, c.b)) })
			n.A.Do(func() { require.NoError(t, a.(*udp.Link).Join(group, c.a)) })
		}
		leave := func() {
			t.Helper()
			require.NoError(t, a.(*udp.Link).Leave(group, c.a))
			require.NoError(t, b.(*udp.Link).Leave(group, c.b))
		}
		join()
		linktest.Reaches(t, a, b, to)
		n.Replug(t)
		linktest.Reaches(t, a, b, p)
		leave()
		join()
		linktest.Reaches(t, a, b, to)
		leave()
	}
}
