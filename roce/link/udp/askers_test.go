package udp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// An address whose socket cannot be had goes without one, and the others have theirs.
func TestAskersOfSome(t *testing.T) {
	x, y, z := loopback(), loopback(), loopback()
	l, err := Open([]netip.Addr{x, y, z}, Options{})
	require.NoError(t, err)
	defer l.Close()
	l.socks[0].addr = netip.MustParseAddr("192.0.2.1") // gone
	l.openAskers()
	l.socks[0].addr = x
	askers := l.askers.sockets()
	require.Len(t, askers, 2)
	for i, a := range []netip.Addr{y, z} {
		require.Equal(t, a, askers[i].addr)
		require.Equal(t, l.tx.askerLane+i, askers[i].lane)
	}
}
