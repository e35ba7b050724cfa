package rdmacm

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

func TestMapped(t *testing.T) {
	for _, args := range []string{
		"-S 3000 -C 20 -I 3 -T v", "-S 2 -C 1 -I 100 -T v", "-S 1000000 -C 4 -T v -B 5000", "-S 1 -C 3 -I 5",
	} {
		t.Run(args, func(t *testing.T) {
			server, client := toolcheck.Pair(t, streamCommand(newMappedStream), nil,
				"-p 0 --addr LOCAL "+args, "--addr LOCAL -s SERVER -p PORT "+args)
			require.NoError(t, client.Err, "server: %v", server.Err)
			require.NoError(t, server.Err)
			for _, s := range []*toolcheck.Side{server, client} {
				require.Contains(t, s.Stdout.String(), "Gb/sec    usec/xfer\ncustom    ")
			}
		})
	}
}

func TestMappedIPv6(t *testing.T) {
	server, client := toolcheck.Pair(t, streamCommand(newMappedStream), toolcheck.Shared6(t),
		"-p 0 -b :: -S 3000 -C 20 -T v", "-s SERVER -p PORT -S 3000 -C 20 -T v")
	require.NoError(t, client.Err, "server: %v", server.Err)
	require.NoError(t, server.Err)
}

func openDevice(t *testing.T) *verbs.Device {
	d, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{toolcheck.Addr(t)}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// The server of the original reads the bytes of the exchange into the memory that it
// has mapped, and then waits there for the mark 0. They must not be taken for it.
func TestExchangeIsNoMark(t *testing.T) {
	cfg := rsocket.Config{IOMaps: 1}
	server, client := openDevice(t), openDevice(t)
	l, err := (&rsocket.ListenConfig{Device: server, Config: cfg}).ListenAddr(netip.AddrPortFrom(server.Addrs()[0], 0))
	require.NoError(t, err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			c, err := (&rsocket.Dialer{Device: client, Config: cfg}).DialAddr(t.Context(),
				l.Addr().(rsocket.Addr).AddrPort)
			if err != nil {
				return err
			}
			s := &streamSession{Ctx: t.Context(), Opt: &streamOptions{Server: "original"}, Conn: c,
				Buf: make([]byte, 100)}
			return errors.Join(mapped(s, streamTest{Size: 100, Transfers: 1}, func() {}), c.Close())
		}()
	}()
	c, err := l.Accept()
	require.NoError(t, err)
	got := make([]byte, 16)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{noMark}, len(got)), got)
	require.NotZero(t, noMark, "the first mark")
	_, err = c.Write(got)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.NoError(t, c.Close())
}
