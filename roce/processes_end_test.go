package roce_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// end ends the process, in one of several ways.
func (c *childProcess) end(ctx context.Context, how string) error {
	var err error
	switch how {
	case "Conn.Close": // of those that were dialled
		for _, s := range c.streams {
			err = errors.Join(err, s.conn.Close())
		}
	case "Server.Close":
		err = c.srv.Close()
	case "Server.Shutdown":
		err = c.srv.Shutdown(ctx)
	case "roce.Shutdown":
		err = roce.Shutdown(ctx, c.dev)
	case "Device.Close":
		err = c.dev.Close()
	case "os.Exit":
	case "SIGTERM":
		if err = unix.Kill(os.Getpid(), unix.SIGTERM); err == nil {
			select {}
		}
	default:
		err = fmt.Errorf("what is %q", how)
	}
	if err == nil {
		os.Exit(0)
	}
	return err
}

// peerOf connects this process to another one, as its server or as its client, which sends nothing
// that is not asked for.
func peerOf(t *testing.T, p *process, dialled bool) *roce.Conn {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{processAddr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	var c *roce.Conn
	cfg := roce.ConnConfig{Device: d, RecvBytes: messageBytes}
	if !dialled {
		dialer := roce.Dialer{ConnConfig: cfg}
		c, err = dialer.Dial(t.Context(), p.addr.String()+":"+p.say("listen", "0"))
		require.NoError(t, err)
		return c
	}
	lc := roce.ListenConfig{ConnConfig: cfg}
	l, err := lc.Listen(t.Context(), d.Addrs()[0].String()+":0")
	require.NoError(t, err)
	done := make(chan string)
	go func() {
		s, err := p.ask("dial", l.Addr().String(), "silent")
		done <- fmt.Sprint(s, err)
	}()
	c, err = l.Accept(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ok<nil>", <-done)
	return c
}

// A process ends right after it has closed something: what it had to say is on its way by then, and
// its peer, which only waits, hears it.
func TestProcessSaysGoodbye(t *testing.T) {
	for _, how := range []string{"Conn.Close", "Server.Close", "Server.Shutdown", "roce.Shutdown", "Device.Close"} {
		t.Run(how, func(t *testing.T) {
			p := startProcess(t, processAddr(), 0)
			p.say("open")
			c := peerOf(t, p, how == "Conn.Close")
			_, err := fmt.Fprintln(p.in, "end", how)
			require.NoError(t, err)
			_, err = c.Recv(t.Context(), make([]byte, 1)) // nothing is under way, so that the end is in order
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, p.cmd.Wait())
		})
	}
}

// A process that ends without a Close says nothing, and its peers notice; TestPeerIsKilled has
// SIGKILL.
func TestProcessEndsWithoutGoodbye(t *testing.T) {
	for _, how := range []string{"os.Exit", "SIGTERM"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, processAddr(), 0)
			p.say("open")
			c := peerOf(t, p, false)
			_, err := fmt.Fprintln(p.in, "end", how)
			require.NoError(t, err)
			_, err = c.Recv(t.Context(), make([]byte, 1))
			require.ErrorIs(t, err, roce.ErrPeerGone)
		})
	}
}
