package roce

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// burst is how many connections the tests of bursts open at once: more than there is room for
// half-open ones.
func burst() int {
	if testing.Short() || seeds.Race {
		return 300
	}
	return 1000
}

// Of the connections that are opened at once each one that its client believes in is there on
// the server, too.
func TestBurst(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	l := listenOn(t, ds[1], ListenConfig{})
	c := rocetest.PeerOn(t, ds[0])
	n := burst()
	clients(t, c, n, l.Addr())
	up, most := 0, 0
	var conns []*Conn
	for range 10_000 {
		f.RunFor(1e6)
		for {
			x, err := l.advance()
			require.NoError(t, err)
			if x == nil {
				break
			}
			conns = append(conns, x)
		}
		most = max(most, rdmacm.CountersOf(ds[1]).Now.HalfBytes)
		if up += established(c); up == n && len(conns) == n {
			break
		}
	}
	require.Equal(t, n, up)
	require.Equal(t, n, len(conns))
	require.Zero(t, rdmacm.CountersOf(ds[1]).Evicted)
	require.LessOrEqual(t, most, 64<<20)
	for _, x := range conns {
		require.NoError(t, x.Close())
	}
}

// The same over sockets: who is connected hears from the server. On a machine that is busy for too
// long some may be given up, and they hear that.
func TestBurstOverUDP(t *testing.T) {
	ctx := rocetest.Context(t)
	server, client := rocetest.OpenDevice(t, verbs.Config{}), rocetest.OpenDevice(t, verbs.Config{})
	l := listenOn(t, server, ListenConfig{})
	serving, stop := context.WithCancel(ctx)
	var came, heard, told atomic.Int64
	over := make(chan error, 1)
	go func() {
		over <- l.Serve(serving, func(ctx context.Context, c *Conn) error {
			came.Add(1)
			if err := c.Send(ctx, []byte("welcome")); err != nil {
				return err
			}
			return c.Wait(ctx)
		})
	}()
	var wg, done sync.WaitGroup
	done.Add(burst()) // all stay until the last one has heard
	d := Dialer{ConnConfig: ConnConfig{Device: client}}
	for range burst() {
		wg.Go(func() {
			c, err := d.DialAddr(ctx, l.Addr())
			if err != nil {
				t.Error(err)
				done.Done()
				return
			}
			if _, err := c.Recv(ctx, make([]byte, 8)); err == nil {
				heard.Add(1)
			} else if ctx.Err() == nil {
				told.Add(1)
			}
			done.Done()
			done.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	stop()
	require.ErrorIs(t, <-over, context.Canceled)
	require.Equal(t, heard.Load(), came.Load(), "%+v", rdmacm.CountersOf(server))
	require.EqualValues(t, burst(), heard.Load()+told.Load())
	require.EqualValues(t, rdmacm.CountersOf(server).Evicted, told.Load())
}
