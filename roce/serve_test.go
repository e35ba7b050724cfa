package roce

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Each client gets memory of its own; a handler that fails ends its own
// connection alone; and when the context ends nothing is left.
func TestServe(t *testing.T) {
	for _, p := range places[:2] {
		t.Run(p.name, func(t *testing.T) {
			ds := p.open(t, 2)
			ctx, cancel := context.WithCancel(rocetest.Context(t))
			failed := make(chan error, 4) // one of each client
			l := listenOn(t, ds[1], ListenConfig{ConnError: func(_ *Conn, err error) { failed <- err }})
			wrong := errors.New("wrong memory")
			served := make(chan error)
			go func() {
				served <- l.Serve(ctx, func(ctx context.Context, c *Conn) error {
					memory := make([]byte, 4)
					_, err := c.Share(ctx, memory, RemoteWrite|RemoteRead)
					if err = cmp.Or(err, c.Wait(ctx)); err == nil && string(memory) == "fail" {
						err = wrong
					}
					return err
				})
			}()
			d := Dialer{ConnConfig: ConnConfig{Device: ds[0]}}
			var clients sync.WaitGroup
			for _, text := range []string{"fail", "good", "fine"} {
				clients.Go(func() {
					c, err := d.DialAddr(ctx, l.Addr())
					if err == nil {
						var m RemoteMemory
						m, err = c.Shared(ctx)
						back := make([]byte, 4)
						err = cmp.Or(err, c.Write(ctx, []byte(text), m), c.Read(ctx, back, m), c.Close())
						if err == nil && string(back) != text {
							t.Errorf("%q in the memory of %q", back, text)
						}
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			clients.Wait()
			require.ErrorIs(t, <-failed, wrong)
			// A client that stays does not keep the server from ending.
			c, err := d.DialAddr(ctx, l.Addr())
			require.NoError(t, err)
			m, err := c.Shared(ctx)
			require.NoError(t, err)
			require.NoError(t, c.Read(ctx, make([]byte, 4), m), "so that the server knows that it has shared")
			cancel()
			require.ErrorIs(t, <-served, context.Canceled)
			// Of the one that stays, and of those whose DREQ came later than that.
			require.NotEmpty(t, failed)
			close(failed)
			for err := range failed {
				require.ErrorIs(t, err, context.Canceled)
			}
			require.NoError(t, c.Wait(rocetest.Context(t)), "told by a DREQ")
			require.NoError(t, c.Close())
			require.Zero(t, ds[1].MemCounts().Regions-cmRegions(ds[1]))
		})
	}
}

// cmRegions is what the communication manager itself has registered.
func cmRegions(d *verbs.Device) int {
	s := access.Shard(d)
	s.LockAlways()
	defer s.Unlock()
	if s.Service() == nil {
		return 0
	}
	return 1
}

func TestServeClosed(t *testing.T) {
	l := listenOn(t, rocetest.OpenDevice(t, verbs.Config{}), ListenConfig{})
	require.NoError(t, l.Close())
	err := l.Serve(rocetest.Context(t), func(context.Context, *Conn) error { return nil })
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestShare(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		regions := b.MemCounts().Regions
		_, err := s.Share(ctx, make([]byte, 8), verbs.LocalWrite)
		require.ErrorIs(t, err, ErrInvalidAttr)
		both(func() {
			mr, err := s.Share(ctx, make([]byte, 8), RemoteAtomic)
			if err != nil || len(mr.Bytes()) != 8 {
				t.Error(mr, err)
			}
			if err := s.Send(ctx, []byte("not memory")); err != nil {
				t.Error(err)
			}
		}, func() {
			m, err := c.Shared(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 8, m.Len)
			_, err = c.FetchAdd(ctx, m, 7)
			require.NoError(t, err)
			_, err = c.Shared(ctx)
			require.ErrorIs(t, err, ErrInvalidAttr)
			require.ErrorContains(t, err, "10 bytes")
		})
		require.Equal(t, regions+1, b.MemCounts().Regions)
		require.NoError(t, c.Close())
		_, err = s.Shared(ctx)
		require.Equal(t, io.EOF, err)
		_, err = s.Share(ctx, make([]byte, 8), RemoteRead)
		require.ErrorIs(t, err, ErrPeerClosed)
		require.Equal(t, regions+1, b.MemCounts().Regions, "what could not be told is not registered")
	})
}

func TestSharedMemory(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		memory := make([]byte, 8)
		require.ErrorIs(t, SharedMemory(memory, verbs.LocalWrite)(ctx, s), ErrInvalidAttr,
			"not the peer's, and no wait for it")
		both(func() {
			if err := SharedMemory(memory, RemoteWrite)(ctx, s); err != nil {
				t.Error(err)
			}
		}, func() {
			m, err := c.Shared(ctx)
			require.NoError(t, err)
			require.NoError(t, c.Write(ctx, []byte("written"), m))
			require.NoError(t, c.Close())
		})
		require.Equal(t, "written\x00", string(memory))
	})
}

// A client that has hung up before it is known that it was told is no error.
func TestSharedMemoryPeerGone(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		require.NoError(t, c.Close())
		require.NoError(t, s.Wait(ctx))
		require.NoError(t, SharedMemory(make([]byte, 8), RemoteWrite)(ctx, s))
	})
}

// Wait leaves messages alone, and tells an orderly end from others.
func TestConnWait(t *testing.T) {
	ctx := rocetest.Context(t)
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	short, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Wait(short), context.Canceled)
	require.NoError(t, c.Send(ctx, []byte("bye")))
	require.NoError(t, c.Close())
	require.NoError(t, s.Wait(ctx))
	b := make([]byte, 8)
	n, err := s.Recv(ctx, b)
	require.NoError(t, err)
	require.Equal(t, "bye", string(b[:n]))
	require.ErrorIs(t, c.Wait(ctx), net.ErrClosed)
}

// A peer that has vanished is found by a probe, although nothing is sent.
func TestKeepAliveFindsTheDead(t *testing.T) {
	ctx := rocetest.Context(t)
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	_, s := connPair(t, ds[0], ds[1], ConnConfig{})
	require.Nil(t, s.keep, "no probes in virtual time")
	s.keep = access.Shard(ds[1]).NewAlarm(func() {})
	s.probe()
	f.RunFor(1e9)
	require.True(t, s.healthy(), "the peer has answered")
	f.Partition(ds[0].Addrs()[0], ds[1].Addrs()[0], true)
	s.probe()
	s.probe() // one is on its way already
	require.EqualValues(t, 2, s.nextOp)
	err := s.Wait(ctx)
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.True(t, ne.Timeout(), "%v", err)
	s.probe() // of a connection that is over
	require.EqualValues(t, 2, s.nextOp)
}

// Probes of many idle connections are sent together, which is what they cost: a connection
// has no goroutine and no timer of its own.
func TestKeepAliveTogether(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	goroutines := runtime.NumGoroutine()
	times := map[int64]int{}
	var conns []*Conn
	for range 50 {
		c, _ := connPair(t, ds[0], ds[1], ConnConfig{})
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.mu.Lock()
		c.keep = access.Shard(ds[0]).NewAlarm(func() { times[f.Now()]++; c.probe() })
		c.keepLater()
		c.mu.Unlock()
		f.RunFor(17e6)
	}
	f.RunFor(2*DefaultKeepAlive + 3*time.Second)
	require.LessOrEqual(t, len(times), 5, "of 100 probes")
	sum := 0
	for _, n := range times {
		sum += n
	}
	require.Equal(t, 100, sum)
	for ctx := rocetest.Context(t); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		require.NoError(t, ctx.Err(), "goroutines are left")
	}
}

// healthy reports whether nothing is outstanding and nothing has failed.
func (c *Conn) healthy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain(c.polled)
	return c.posted == 0 && !c.flushed
}

// Probes go on until the connection is closed, and do not disturb it, also with
// a send queue that the application keeps full itself.
func TestKeepAliveGoesOn(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	c, s := connPair(t, ds[0], ds[1], ConnConfig{KeepAlive: time.Millisecond, SendDepth: 1})
	probes := func(c *Conn) uint64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.nextOp
	}
	for probes(c) < 3 || probes(s) < 3 {
		runtime.Gosched()
	}
	for range 100 {
		require.NoError(t, c.Send(ctx, []byte("between probes")))
		_, err := s.Recv(ctx, make([]byte, 64))
		require.NoError(t, err)
	}
	silent, _ := connPair(t, ds[0], ds[1], ConnConfig{KeepAlive: -1})
	require.Nil(t, silent.keep)
}
