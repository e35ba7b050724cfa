package oob

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// pair connects two ends; each lives until the test ends.
func pair(t *testing.T, ctx context.Context) (client, server *Conn) {
	t.Helper()
	l, err := Listen(ctx, 0, loopback)
	require.NoError(t, err)
	got := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	client, err = Dial(ctx, "127.0.0.1", int(l.Addr().Port()), netip.Addr{})
	require.NoError(t, err)
	server = <-got
	require.NotNil(t, server)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestSwapOrder(t *testing.T) {
	client, server := pair(t, t.Context())
	require.True(t, client.Client())
	require.False(t, server.Client())
	require.Equal(t, loopback, client.LocalAddr())

	var fromClient, fromServer [3]byte
	done := make(chan error, 1)
	go func() { done <- server.Swap("keys", []byte("srv"), fromClient[:]) }()
	require.NoError(t, client.Swap("keys", []byte("cli"), fromServer[:]))
	require.NoError(t, <-done)
	require.Equal(t, "cli", string(fromClient[:]))
	require.Equal(t, "srv", string(fromServer[:]))
}

func TestServerWaitsForTheClient(t *testing.T) {
	client, server := pair(t, t.Context())
	done := make(chan error, 1)
	var in [1]byte
	go func() { done <- server.Swap("barrier", []byte("s"), in[:]) }()
	// Nothing may come from the server before the client wrote: a server's
	// answer says that the client's message arrived.
	require.NoError(t, client.Write("barrier", []byte("c")))
	require.NoError(t, <-done)
	require.NoError(t, client.Read("barrier", in[:]))
}

func TestPeerCloses(t *testing.T) {
	client, server := pair(t, t.Context())
	require.NoError(t, client.Write("half a message", []byte("ab")))
	require.NoError(t, client.Close())
	var in [4]byte
	err := server.Read("the peer's keys", in[:])
	require.ErrorIs(t, err, ErrPeerClosed)
	var oe *Error
	require.ErrorAs(t, err, &oe)
	require.Equal(t, "read the peer's keys", oe.Step)
}

func TestCancelEndsRead(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	_, server := pair(t, ctx)
	why := errors.New("interrupted")
	done := make(chan error, 1)
	go func() {
		var in [1]byte
		done <- server.Read("keys", in[:])
	}()
	cancel(why)
	require.ErrorIs(t, <-done, why)
}

func TestCancelEndsAccept(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	l, err := Listen(ctx, 0, loopback)
	require.NoError(t, err)
	why := errors.New("interrupted")
	done := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx)
		done <- err
	}()
	cancel(why)
	require.ErrorIs(t, <-done, why)
}

func TestMessagesSayWhatToDo(t *testing.T) {
	l, err := Listen(t.Context(), 0, loopback)
	require.NoError(t, err)
	port := int(l.Addr().Port())
	_, err = Listen(t.Context(), port, loopback)
	require.Error(t, err)
	require.Contains(t, err.Error(), "another port with -p")
	require.NoError(t, l.l.Close())

	_, err = Dial(t.Context(), "127.0.0.1", port, netip.Addr{})
	require.Error(t, err)
	require.True(t, strings.Contains(err.Error(), "nothing listens there"), err)
}
