package roce

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/internal/rocetest"
)

// A panic in a handler ends its connection, is logged and told, and the server goes on.
func TestHandlerPanics(t *testing.T) {
	ctx := rocetest.Context(t)
	var log lockedBuffer
	told := make(chan error, 1)
	cause := errors.New("the cause")
	s := serveOn(t, ListenConfig{
		ConnConfig: ConnConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))},
		ConnError:  func(_ *Conn, err error) { told <- err },
	}, func(ctx context.Context, c *Conn) error {
		m, err := c.RecvMsg(ctx)
		if err != nil {
			return nil
		}
		switch string(m.Bytes()) {
		case "panic":
			panic(cause)
		case "exit":
			runtime.Goexit()
		}
		return c.Send(ctx, m.Bytes())
	})
	for _, how := range []string{"panic", "exit"} {
		c := s.dial(t)
		require.NoError(t, c.Send(ctx, []byte(how)))
		_, err := c.Recv(ctx, make([]byte, 8))
		require.Equal(t, io.EOF, err, "its connection is closed")
	}
	err := <-told
	var p *PanicError
	require.ErrorAs(t, err, &p)
	require.ErrorIs(t, err, cause)
	require.Contains(t, string(p.Stack), "TestHandlerPanics")
	require.Contains(t, log.String(), "the handler panicked")
	require.Contains(t, log.String(), "TestHandlerPanics", "the stack")

	c := s.dial(t)
	require.NoError(t, c.Send(ctx, []byte("hello")))
	b := make([]byte, 8)
	n, err := c.Recv(ctx, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b[:n]))
	require.NoError(t, s.Shutdown(ctx))
	require.Equal(t, ErrServerClosed, <-s.done)
}

// lockedBuffer is written and read by several.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
