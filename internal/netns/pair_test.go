package netns

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// Both ends of a pair have their addresses, the MTU, and a link that is up; an end that is taken
// down is.
func TestPair(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the command ip")
	}
	a, b := netip.MustParsePrefix("10.96.0.1/24"), netip.MustParsePrefix("fd96::2/64")
	p, err := NewPair(2300, [2][]netip.Prefix{{a}, {b}})
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs root")
	}
	require.NoError(t, err)
	look := func(end int) (i *net.Interface, addrs []string) {
		require.NoError(t, p[end].Do(func() {
			var list []net.Addr
			if i, err = net.InterfaceByName(Device); err == nil {
				list, err = i.Addrs()
			}
			for _, x := range list {
				addrs = append(addrs, x.String())
			}
		}))
		require.NoError(t, err)
		return i, addrs
	}
	for end, want := range []string{a.String(), b.String()} {
		i, addrs := look(end)
		require.Equal(t, 2300, i.MTU)
		require.NotZero(t, i.Flags&net.FlagUp)
		require.Contains(t, addrs, want)
	}
	require.NoError(t, p.SetMTU(1500))
	require.NoError(t, p.SetUp(1, false))
	i, _ := look(1)
	require.Equal(t, 1500, i.MTU)
	require.Zero(t, i.Flags&net.FlagUp)
	require.ErrorContains(t, p[0].IP("link set %s up", "nosuch"), "nosuch")
	require.NoError(t, p.Close())
}
