package rsocket

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Names and ports are enough, on the devices of the process.
func TestDialListenContext(t *testing.T) {
	ctx := testContext(t)
	l, err := Listen(ctx, "tcp", "127.78.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_, err = io.Copy(c, c)
		if err := errors.Join(err, c.Close()); err != nil {
			t.Error(err)
		}
	}()
	c, err := DialContext(ctx, "tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	b := make([]byte, 5)
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.NoError(t, c.Close())

	_, err = Listen(ctx, "tcp", l.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "listen", op.Op)
	for _, wrong := range [][2]string{{"udp", "127.78.0.1:0"}, {"tcp6", "127.78.0.1:0"}, {"tcp", "no port"}, {"tcp",
		"127.78.0.1:no-such-service"}} {
		_, err := Listen(ctx, wrong[0], wrong[1])
		require.ErrorAs(t, err, &op, "%v", wrong)
	}
	var none context.Context
	_, err = Listen(none, "tcp", "127.78.0.1:0")
	require.Error(t, err)
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Listen(over, "tcp", "127.78.0.1:0")
	require.ErrorIs(t, err, context.Canceled)
}
