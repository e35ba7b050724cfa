package rsocket

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/stretchr/testify/require"
)

// A backlog of 4 is 4 connections that wait for Accept. A fifth client is not answered
// until one of them is accepted.
func TestBacklogIsExact(t *testing.T) {
	n := udpNetwork(t)
	ctx := testContext(t)
	l, err := (&ListenConfig{Device: n.b, Backlog: 4}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	at := l.Addr().(Addr).AddrPort
	for range 4 {
		c, err := (&Dialer{Device: n.a}).DialAddr(ctx, at)
		require.NoError(t, err)
		defer c.Close()
	}
	fifth := make(chan error, 1)
	go func() {
		c, err := (&Dialer{Device: n.a}).DialAddr(ctx, at)
		if err == nil {
			defer c.Close()
		}
		fifth <- err
	}()
	for rdmacm.CountersOf(n.b).Now.Waiting == 0 {
		runtime.Gosched()
	}
	require.Empty(t, fifth)
	s, err := l.AcceptConn()
	require.NoError(t, err)
	require.NoError(t, <-fifth)
	require.NoError(t, s.Close())
	require.NoError(t, l.Close())
}

// At MaxConns clients wait, and get in when a connection is closed.
func TestMaxConns(t *testing.T) {
	n := udpNetwork(t)
	ctx := testContext(t)
	l, err := (&ListenConfig{Device: n.b, MaxConns: 1}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	at := l.Addr().(Addr).AddrPort
	c, err := (&Dialer{Device: n.a}).DialAddr(ctx, at)
	require.NoError(t, err)
	s, err := l.AcceptConn()
	require.NoError(t, err)
	second := make(chan error, 1)
	go func() {
		c, err := (&Dialer{Device: n.a}).DialAddr(ctx, at)
		if err == nil {
			defer c.Close()
		}
		second <- err
	}()
	for rdmacm.CountersOf(n.b).Now.Waiting == 0 {
		runtime.Gosched()
	}
	require.Empty(t, second)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	require.NoError(t, <-second)
	require.NoError(t, l.Close())
}
