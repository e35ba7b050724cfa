package rsocket

import (
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/stretchr/testify/require"
)

// Connections that are opened at once, more than there is room for half-open ones: who is connected
// hears from the server. On a machine that is busy for too long some may be given up, and
// they hear that.
func TestBurst(t *testing.T) {
	conns, cfg := 600, Config{}
	if testing.Short() || seeds.Race {
		conns, cfg.SendBuffer = 350, 128<<10
	}
	n := udpNetwork(t)
	ctx := testContext(t)
	l, err := (&ListenConfig{Device: n.b, Config: cfg}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	require.Greater(t, conns*l.cfg.Load().memory(), 64<<20, "more than there is room for")
	var came, heard, told atomic.Int64
	var servers sync.WaitGroup
	servers.Go(func() {
		for {
			s, err := l.Accept()
			if err != nil {
				return // closed
			}
			came.Add(1)
			servers.Go(func() {
				_, _ = s.Write([]byte("welcome")) // the client counts
				_, _ = io.Copy(io.Discard, s)
				_ = s.Close()
			})
		}
	})
	var clients, done sync.WaitGroup
	done.Add(conns) // all stay until the last one has heard
	for range conns {
		clients.Go(func() {
			c, err := (&Dialer{Device: n.a}).DialAddr(ctx, l.addr.AddrPort)
			if err != nil {
				t.Error(err)
				done.Done()
				return
			}
			if _, err := io.ReadFull(c, make([]byte, 7)); err == nil {
				heard.Add(1)
			} else {
				told.Add(1)
			}
			done.Done()
			done.Wait()
			_ = c.Close()
		})
	}
	clients.Wait()
	require.NoError(t, l.Close())
	servers.Wait()
	require.Equal(t, heard.Load(), came.Load(), "%+v", rdmacm.CountersOf(n.b))
	require.EqualValues(t, conns, heard.Load()+told.Load())
	require.EqualValues(t, rdmacm.CountersOf(n.b).Evicted, told.Load())
}
