package rsocket

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A listener whose port has a smaller MTU says so in its refusal, and is asked again.
func TestDialSmallerMTU(t *testing.T) {
	a, b := openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{MTU: ib.MTU1024})
	l, err := (&ListenConfig{Device: b}).ListenAddr(netip.AddrPortFrom(b.Addrs()[0], 0))
	require.NoError(t, err)
	defer l.Close()
	c, err := (&Dialer{Device: a}).DialAddr(testContext(t), l.addr.AddrPort)
	require.NoError(t, err)
	defer c.Close()
	attr, _, err := c.qp.Query()
	require.NoError(t, err)
	require.Equal(t, ib.MTU1024, attr.PathMTU)
}
