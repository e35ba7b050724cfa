package linktest

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// Opener opens a link on an address.
type Opener func(a netip.Addr) (link.Link, error)

// In opens a link in a namespace. The test closes it.
func (f Opener) In(t testing.TB, ns *Namespace, a netip.Addr) link.Link {
	t.Helper()
	var l link.Link
	var err error
	ns.Do(func() {
		// A command that another test starts has copies of all descriptors of this process for a
		// moment. Those of a link that was just closed keep its interface and its port.
		for end := time.Now().Add(giveUp); ; runtime.Gosched() {
			if l, err = f(a); !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
				return
			}
		}
	})
	require.NoError(t, err)
	return l
}

// Open opens a link in a namespace, and closes it when the test ends.
func (f Opener) Open(t testing.TB, ns *Namespace, a netip.Addr) link.Link {
	t.Helper()
	l := f.In(t, ns, a)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// OpenPair opens a link on both sides of a Net of the MTU, on the IPv4 addresses.
func (f Opener) OpenPair(t testing.TB, mtu int) (n *Net, a, b link.Link) {
	t.Helper()
	n = NewNet(t, mtu)
	return n, f.Open(t, n.A, n.A4), f.Open(t, n.B, n.B4)
}

// Veth is a pair of links over a veth pair.
type Veth struct {
	Name string
	A, B Opener
	MTU  int
	Off  []string // ethtool features that are switched off on both sides
}

// RunVeth runs the suite over veth pairs, with IPv4 and IPv6; with -short only every third of the
// cases, and with one of the two in turn; the latter under the race detector, too.
func RunVeth(t *testing.T, cases []Veth) {
	for i, c := range cases {
		for k, family := range []string{"IPv4", "IPv6"} {
			if testing.Short() && i%6 != 3*k || seeds.Race && i%2 != k {
				continue
			}
			t.Run(c.Name+", "+family, func(t *testing.T) {
				n := NewNet(t, c.MTU)
				a, b, nobody := n.A4, n.B4, netip.MustParseAddr("10.99.0.77")
				if family == "IPv6" {
					a, b, nobody = n.A6, n.B6, netip.MustParseAddr("fd99::77")
				}
				for _, f := range c.Off {
					n.A.Run("ethtool", "-K", Device, f, "off")
					n.B.Run("ethtool", "-K", Device, f, "off")
				}
				Run(t, func(t *testing.T) Pair {
					p := Pair{A: c.A.In(t, n.A, a), B: c.B.In(t, n.B, b), InB: n.B.Do}
					if p.A.Capabilities().Name != "udp" {
						p.NeverResolves = nobody // the kernel does not tell a UDP socket
					}
					return p
				})
			})
		}
	}
}
