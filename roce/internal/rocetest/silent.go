package rocetest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// Silent returns an address where somebody has the port of RoCE, and says nothing: an address that
// nobody has refuses what is dialled there.
func Silent(t testing.TB) netip.Addr {
	t.Helper()
	a := Loopback4()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, ib.UDPPort)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return a
}
