package roce

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The link of a device breaks: every call that waits on it returns at once, says that the device is
// closed and why, and so does every later one.
func TestConnDeviceFails(t *testing.T) {
	ctx := rocetest.Context(t)
	d, broken := rocetest.OpenBreakable(t, verbs.Config{})
	other := rocetest.OpenDevice(t, verbs.Config{})
	c, s := connPair(t, d, other, ConnConfig{KeepAlive: -1})
	_, err := s.Share(ctx, make([]byte, 4096), verbs.AccessAll)
	require.NoError(t, err)
	m, err := c.Shared(ctx)
	require.NoError(t, err)
	l := listenOn(t, d, ListenConfig{})
	buf := make([]byte, 100)
	calls := map[string]func() error{
		"recv":       func() error { _, err := c.Recv(ctx, make([]byte, 100)); return err },
		"receive":    func() error { _, err := c.RecvMsg(ctx); return err },
		"completion": func() error { _, err := c.Completion(ctx); return err },
		"shared":     func() error { _, err := c.Shared(ctx); return err },
		"write":      func() error { return c.Write(ctx, buf, m) },
		"read":       func() error { return c.Read(ctx, buf, m) },
		"send":       func() error { return c.Send(ctx, []byte("are you there?")) },
		"accept":     func() error { _, err := l.Accept(ctx); return err },
		"dial": func() error {
			_, err := (&Dialer{ConnConfig: ConnConfig{Device: d}}).DialAddr(ctx,
				netip.AddrPortFrom(rocetest.Silent(t), 7))
			return err
		},
	}
	broken.BreakUnder(calls, func(name string, why, err error) {
		t.Helper()
		require.ErrorIs(t, err, why, name)
		require.ErrorIs(t, err, net.ErrClosed, name)
		require.NotErrorIs(t, err, context.Canceled, name)
	})
}
