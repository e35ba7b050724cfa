package rsocket

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// writeFirst has both ends write n bytes, end their data if wanted, and then read.
func writeFirst(t *testing.T, c, s *Conn, n int, end bool) {
	want := randomBytes(uint64(n), n)
	var wg, wrote sync.WaitGroup
	wrote.Add(2)
	for _, x := range []*Conn{c, s} {
		wg.Go(func() {
			k, err := x.Write(want)
			if err == nil && end {
				err = x.CloseWrite()
			}
			if err != nil {
				t.Errorf("%d bytes were written: %v", k, err)
			}
			wrote.Done()
			wrote.Wait() // nobody reads before
			got := make([]byte, n)
			if _, err := io.ReadFull(x, got); err != nil || !bytes.Equal(want, got) {
				t.Error("what was read: ", err)
			}
			if !end {
				return
			}
			if k, err := x.Read(got); k != 0 || err != io.EOF {
				t.Errorf("instead of the end: %d bytes, %v", k, err)
			}
		})
	}
	wg.Wait()
}

// Two ends that both write before they read do not wait for each other, with whatever buffers that
// are as large as what they write: the send buffer takes it when the peer has no room.
func TestBothWriteFirst(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		for _, cfg := range []Config{{}, {SendBuffer: 1 << 20, RecvBuffer: 1 << 20},
			{SendBuffer: 1 << 20, RecvBuffer: 128 << 10}, {RecvBuffer: 4096, RecvQueue: 16}} {
			for _, size := range []int{200 << 10, 2_000_000} {
				if cfg.SendBuffer > 0 && size > cfg.SendBuffer || seeds.Race && cfg.RecvQueue > 0 && size > 1<<20 {
					continue
				}
				c, s := n.pair(t, cfg)
				writeFirst(t, c, s, size, false)
				writeFirst(t, c, s, size, false) // there is nothing left of the first time
				writeFirst(t, c, s, size, true)
			}
		}
	})
}

// The same where packets are lost, repeated and late, and with many small Writes, which take
// credit.
func TestBothWriteFirstFaults(t *testing.T) {
	n := 6
	if seeds.Race {
		n = 2
	}
	seeds.Run(t, n, func(t *testing.T, seed uint64) {
		n := simNetwork(t, sim.Config{Seed: seed, Faults: sim.Faults{
			Loss: 0.01, Duplicate: 0.01, Corrupt: 0.005, Reorder: 0.02, Jitter: 100,
		}})
		c, s := n.pair(t, Config{RecvQueue: 16 << (seed % 6), RecvBuffer: 3000 << (seed % 6)})
		writeFirst(t, c, s, 1_000_000, false)
		const piece, pieces = 100, 5000
		want := randomBytes(seed, piece*pieces)
		var wg sync.WaitGroup
		for _, x := range []*Conn{c, s} {
			wg.Go(func() {
				for i := range pieces {
					if _, err := x.Write(want[i*piece:][:piece]); err != nil {
						t.Error(err)
						return
					}
				}
				got := make([]byte, len(want))
				if _, err := io.ReadFull(x, got); err != nil || !bytes.Equal(want, got) {
					t.Error("what was read: ", err)
				}
			})
		}
		wg.Wait()
		writeFirst(t, c, s, 1_000_000, true)
		require.NotZero(t, n.fabric.Stats().Lost)
	})
}

// What the send buffer has taken leaves by itself: the program that has written it makes no further
// call.
func TestStagedLeaves(t *testing.T) {
	for name, n := range map[string]*network{"sim": simNetwork(t, sim.Config{Seed: 3}), "udp": udpNetwork(t),
		"2 shards": shardedNetwork(t)} {
		t.Run(name, func(t *testing.T) {
			for _, end := range []bool{false, true} {
				c, s := n.pair(t, Config{})
				want := randomBytes(7, 3_000_000)
				_, err := c.Write(want)
				require.NoError(t, err)
				if end {
					require.NoError(t, c.CloseWrite())
				}
				got := make([]byte, len(want))
				_, err = io.ReadFull(s, got)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
				if end {
					_, err = s.Read(got)
					require.Equal(t, io.EOF, err)
				}
			}
		})
	}
}

// So it does on a device in polling mode, where a timer looks for it.
func TestStagedLeavesPolling(t *testing.T) {
	n := &network{a: openDevice(t, verbs.Config{Polling: true}), b: openDevice(t, verbs.Config{})}
	l, err := (&ListenConfig{Device: n.a}).ListenAddr(netip.AddrPortFrom(n.a.Addrs()[0], 0))
	require.NoError(t, err)
	want := randomBytes(8, 3_000_000)
	served := make(chan error, 1)
	go func() {
		s, err := l.AcceptConn()
		if err == nil {
			t.Cleanup(func() { s.Close() })
			_, err = s.Write(want)
		}
		served <- err
	}()
	c, err := (&Dialer{Device: n.b}).DialAddr(testContext(t), l.addr.AddrPort)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, <-served)
	got := make([]byte, len(want))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	require.NoError(t, l.Close())
}

// Close waits until the peer has read what was staged, and says what is lost if it does not.
func TestStagedClose(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		want := randomBytes(9, 1_000_000)
		_, err := c.Write(want)
		require.NoError(t, err)
		got := readAll(s)
		require.NoError(t, c.Close())
		b, err := got()
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, b))

		c, s = n.pair(t, Config{})
		_, err = c.Write(want)
		require.NoError(t, err)
		require.NoError(t, s.Close()) // it never looks at it
		var lost *LostError
		require.ErrorAs(t, c.Close(), &lost)
		require.ErrorIs(t, lost, syscall.ECONNRESET)
		require.GreaterOrEqual(t, lost.Bytes, int64(len(want)-defaultBuffer))
		require.Less(t, lost.Bytes, int64(len(want)))

		c, _ = n.pair(t, Config{Linger: 10 * time.Millisecond})
		_, err = c.Write(want)
		require.NoError(t, err)
		if err = c.Close(); n.fabric == nil || err != nil {
			require.ErrorAs(t, err, &lost)
			require.ErrorIs(t, lost, os.ErrDeadlineExceeded)
		}
	})
}

// How much the buffers of both ends take, with defaults and where Config gives their sizes.
func TestStagedBounds(t *testing.T) {
	for _, tt := range []struct {
		cfg         Config
		least, most int
	}{
		{Config{}, maxSend, maxSend + defaultBuffer},
		{Config{SendBuffer: 100_000}, 100_000, 100_000 + defaultBuffer},
		{Config{RecvBuffer: 5000}, maxSend, maxSend + 5000},
		{Config{SendBuffer: 8192, RecvBuffer: 8192}, 8192, 2 * 8192},
	} {
		n := simNetwork(t, sim.Config{Seed: 70})
		c, s := n.pair(t, tt.cfg)
		data := randomBytes(10, tt.most+1)
		sent := 0
		for k, err := 1, error(nil); k > 0; sent += k {
			n.fabric.RunFor(1e9) // what is on its way arrives
			if k, err = core.Open(c).TryWrite(data[sent:]); err != nil {
				require.Equal(t, syscall.EAGAIN, err)
			}
		}
		require.GreaterOrEqual(t, sent, tt.least)
		require.LessOrEqual(t, sent, tt.most)
		require.False(t, core.Open(c).Ready().Writable)
		require.False(t, core.Open(c).Ready().Drained)
		got := make([]byte, sent)
		_, err := io.ReadFull(s, got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data[:sent], got))
		n.fabric.RunFor(1e9)
		require.True(t, core.Open(c).Ready().Writable)
	}
}

// A peer that reads nothing cannot have more of the device's memory than there is for all; who is
// refused is counted, stays with what it has, and gets more when there is some again.
func TestStagedLimit(t *testing.T) {
	n := udpNetwork(t)
	c, s := n.pair(t, Config{})
	c.host.large.Add(maxLargeBytes)
	before := Buffers(n.a)
	require.EqualValues(t, maxLargeBytes, before.Bytes)
	k, err := core.Open(c).TryWrite(make([]byte, 1_000_000))
	require.NoError(t, err)
	require.LessOrEqual(t, k, 2*defaultBuffer)
	require.Greater(t, Buffers(n.a).Refused, before.Refused)
	c.host.large.Add(-maxLargeBytes)
	w := newWaker(c)
	w.until(t, writable)
	for left := 1_000_000 - k; left > 0; left -= k {
		k, err = core.Open(c).TryWrite(make([]byte, left))
		if err != syscall.EAGAIN {
			require.NoError(t, err)
		}
	}
	require.NotZero(t, Buffers(n.a).Bytes)
	_, err = io.ReadFull(s, make([]byte, 1_000_000))
	require.NoError(t, err)
}

// WriteAt comes behind what was written before, also if that waits for the peer to read.
func TestStagedBeforeWriteAt(t *testing.T) {
	n := udpNetwork(t)
	c, s := n.pair(t, Config{IOMaps: 1})
	mem := make([]byte, 8)
	m, err := s.Map(mem, 0)
	require.NoError(t, err)
	_, err = s.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	_, err = c.Write(make([]byte, 500_000))
	require.NoError(t, err)
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
	_, err = c.WriteAt([]byte("direct"), 0)
	require.True(t, errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
	got := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(s, make([]byte, 500_001))
		got <- err
	}()
	_, err = c.WriteAt([]byte("direct"), 0)
	require.NoError(t, err)
	_, err = c.Write([]byte("y"))
	require.NoError(t, err)
	require.NoError(t, <-got)
	m.Sync()
	require.Equal(t, "direct", string(mem[:6]))
}
