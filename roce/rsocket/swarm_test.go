package rsocket

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"sync"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A wire that loses, repeats, reorders and corrupts: every byte is right, both
// ways at once, and the end is seen.
func TestFaults(t *testing.T) {
	seeds.Run(t, 6, func(t *testing.T, seed uint64) {
		n := simNetwork(t, sim.Config{Seed: seed, Faults: sim.Faults{
			Loss: 0.01, Duplicate: 0.01, Corrupt: 0.005, Reorder: 0.02, Jitter: 100,
		}})
		c, s := n.pair(t, Config{RecvQueue: 16 << (seed % 6), RecvBuffer: 3000 << (seed % 6)})
		want := randomBytes(seed, 1_000_000)
		var wg sync.WaitGroup
		for i, x := range []*Conn{c, s} {
			wg.Go(func() {
				for off, k := 0, 1; off < len(want); k = k*7%60_000 + 1 {
					k = min(k, len(want)-off)
					if _, err := x.Write(want[off : off+k]); err != nil {
						t.Errorf("%d: %v", i, err)
						return
					}
					off += k
				}
				if err := x.CloseWrite(); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
			wg.Go(func() {
				got, err := io.ReadAll(x)
				if err != nil || !bytes.Equal(want, got) {
					t.Errorf("%d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		wg.Wait()
		require.NotZero(t, n.fabric.Stats().Lost)
	})
}

// Many connections at a time, each with a program of its own.
func TestManyConnections(t *testing.T) {
	n := udpNetwork(t)
	ctx := testContext(t)
	small := Config{SendBuffer: 8192, RecvBuffer: 8192, SendQueue: 32, RecvQueue: 32}
	l, err := (&ListenConfig{Device: n.b, Config: small, Backlog: 1000}).ListenAddr(
		netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	defer l.Close()
	const conns = 200
	var servers sync.WaitGroup
	servers.Go(func() {
		for range conns {
			s, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			servers.Go(func() {
				_, err := io.Copy(s, s)
				if err = errors.Join(err, s.Close()); err != nil {
					t.Error(err)
				}
			})
		}
	})
	var clients sync.WaitGroup
	for i := range conns {
		clients.Go(func() {
			c, err := (&Dialer{Device: n.a, Config: small}).DialAddr(ctx, l.addr.AddrPort)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			want := randomBytes(uint64(i), 20_000+i)
			go func() {
				_, _ = c.Write(want) // the reader sees what is missing
				_ = c.CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(want, got) {
				t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	clients.Wait()
	servers.Wait()
}

// A device in polling mode moves while somebody waits.
func TestPolling(t *testing.T) {
	n := &network{name: "polling", a: openDevice(t, verbs.Config{Polling: true}), b: openDevice(t, verbs.Config{})}
	require.False(t, n.a.Background())
	require.True(t, n.b.Background())
	l, err := (&ListenConfig{Device: n.a}).ListenAddr(netip.AddrPortFrom(n.a.Addrs()[0], 0))
	require.NoError(t, err)
	ctx := testContext(t)
	served := make(chan error, 1)
	go func() {
		s, err := l.Accept()
		if err == nil {
			_, err = io.Copy(s, s)
			err = errors.Join(err, s.Close())
		}
		served <- err
	}()
	c, err := (&Dialer{Device: n.b}).DialAddr(ctx, l.addr.AddrPort)
	require.NoError(t, err)
	got := readAll(c)
	want := randomBytes(8, 1<<20)
	_, err = c.Write(want)
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	b, err := got()
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, b))
	require.NoError(t, <-served)
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
}

// Writes of several goroutines are not mixed.
func TestConcurrentWrites(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		const writers, writes, size = 4, 20, 30_000
		got := readAll(s)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for range writes {
					if _, err := c.Write(bytes.Repeat([]byte{byte(w)}, size)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, c.CloseWrite())
		b, err := got()
		require.NoError(t, err)
		require.Len(t, b, writers*writes*size)
		for off := 0; off < len(b); off += size {
			require.Equal(t, bytes.Repeat(b[off:off+1], size), b[off:off+size])
		}
	})
}
