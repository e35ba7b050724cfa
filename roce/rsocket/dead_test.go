package rsocket

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The link of a device breaks: calls that wait return at once, and say why; so do later ones.
func TestDeviceFails(t *testing.T) {
	ctx := testContext(t)
	d, broken := rocetest.OpenBreakable(t, verbs.Config{})
	n := &network{name: "udp", a: d, b: openDevice(t, verbs.Config{})}
	c, _ := n.pair(t, Config{})
	l, err := (&ListenConfig{Device: d}).ListenAddr(netip.AddrPortFrom(d.Addrs()[0], 0))
	require.NoError(t, err)
	calls := map[string]func() error{
		"read": func() error { _, err := c.Read(make([]byte, 10)); return err },
		"write": func() error {
			for {
				if _, err := c.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		},
		"accept": func() error { _, err := l.Accept(); return err },
		"dial": func() error {
			_, err := (&Dialer{Device: d}).DialAddr(ctx, netip.AddrPortFrom(rocetest.Silent(t), 7))
			return err
		},
	}
	broken.BreakUnder(calls, func(name string, why, err error) {
		t.Helper()
		require.ErrorIs(t, err, why, name)
		require.ErrorIs(t, err, net.ErrClosed, name)
		var op *net.OpError
		require.ErrorAs(t, err, &op, name)
	})
	require.NoError(t, l.Close())
}
