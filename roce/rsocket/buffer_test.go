package rsocket

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// flow writes n bytes at one end and reads them at the other.
func flow(t *testing.T, from, to *Conn, n int) {
	want := randomBytes(uint64(n), n)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := from.Write(want); err != nil {
			t.Error(err)
		}
	})
	got := make([]byte, n)
	_, err := io.ReadFull(to, got)
	require.NoError(t, err)
	wg.Wait()
	require.True(t, bytes.Equal(want, got))
}

// largeBytes is what the connection has in use of its large buffers.
func (c *Conn) largeBytes() (n int) {
	for i := range c.send[1:] {
		n += c.send[1+i].used
	}
	return n + c.recv[largeBuffer].used
}

// A connection has large buffers while it needs them, and what it has is what the device counts.
func TestLargeBuffers(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 60})
	c, s := n.pair(t, Config{})
	flow(t, c, s, 1000)
	require.Zero(t, c.host.large.Load()+s.host.large.Load())
	flow(t, c, s, 8<<20)
	// The last bytes may still be in the buffer before.
	require.EqualValues(t, c.largeBytes(), c.host.large.Load())
	require.GreaterOrEqual(t, s.host.large.Load(), int64(firstLarge))
	require.NotNil(t, c.send[c.out].mem)
	require.NotNil(t, s.recv[largeBuffer].mem)
	// A reader that is late finds all of it full.
	for large := &s.recv[largeBuffer]; large.used < nearRecvBuffer; {
		used := large.used
		_, err := c.Write(make([]byte, used))
		require.NoError(t, err)
		n.fabric.RunFor(3e8)
		recvN(t, s, used)
		require.Equal(t, min(2*used, nearRecvBuffer), large.used)
		require.EqualValues(t, large.used, s.host.large.Load())
	}
	// What comes slowly needs none.
	const little = 16 << 10
	for range 2 * nearRecvBuffer / little {
		n.fabric.RunFor(1e8)
		flow(t, c, s, little)
	}
	require.Equal(t, smallBuffer, s.s.rcv.to.buf)
	require.Zero(t, s.host.large.Load())
	// It is had again, and given back with the connection.
	flow(t, c, s, 8<<20)
	require.GreaterOrEqual(t, s.host.large.Load(), int64(firstLarge))
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	n.quiet(t, n.a)
	n.quiet(t, n.b)
	require.Zero(t, c.host.large.Load()+s.host.large.Load())
}

// Streams that begin at once get little memory each at first, and more while they go on: pages cost
// more when they are first used than what is copied to them.
func TestManyStreams(t *testing.T) {
	const streams, bytes = 16, 4 << 20
	n := simNetwork(t, sim.Config{Seed: 63})
	var ends [streams][2]*Conn
	for i := range ends {
		ends[i][0], ends[i][1] = n.pair(t, Config{})
	}
	start := n.fabric.Now()
	var wg sync.WaitGroup
	for _, e := range ends {
		wg.Go(func() { flow(t, e[0], e[1], bytes) })
	}
	wg.Wait()
	took := time.Duration(n.fabric.Now() - start)
	most := streams*2*firstLarge + int64(took)*growthRate/int64(time.Second)
	// Time leaps over readers that the Go scheduler leaves waiting: these are late in it.
	most += int64(took/longStall) * streams * maxSend
	for _, h := range []*host{ends[0][0].host, ends[0][1].host} {
		require.LessOrEqual(t, h.large.Load(), most, took)
	}
}

// An idle connection gives its send buffer back, although its last messages made no completions.
func TestIdleSendBuffer(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 61})
	c, s := n.pair(t, Config{})
	flow(t, c, s, 8<<20)
	for c.s.snd.quiet.messages == 0 {
		flow(t, c, s, 1000)
	}
	require.NotZero(t, c.host.large.Load())
	require.NoError(t, core.Open(c).SetKeepAlive(1e9)) // time may leap while one end waits: not before
	n.fabric.RunFor(5e9)
	require.Zero(t, c.host.large.Load())
	flow(t, c, s, 8<<20)
}

// When the device has no large buffers left, and where the application has said how large they are
// to be, the small ones do.
func TestNoLargeBuffers(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 62})
	c, s := n.pair(t, Config{})
	for _, h := range []*host{c.host, s.host} {
		h.large.Add(maxLargeBytes)
		t.Cleanup(func() { h.large.Add(-maxLargeBytes) })
	}
	flow(t, c, s, 4<<20)
	require.EqualValues(t, maxLargeBytes, c.host.large.Load())
	require.EqualValues(t, maxLargeBytes, s.host.large.Load())
	c.host.large.Add(-maxLargeBytes)
	s.host.large.Add(-maxLargeBytes)
	c, s = n.pair(t, Config{SendBuffer: 100_000, RecvBuffer: 100_000})
	flow(t, c, s, 4<<20)
	require.Zero(t, c.host.large.Load()+s.host.large.Load())
	c.host.large.Add(maxLargeBytes)
	s.host.large.Add(maxLargeBytes)
}

// Small messages make few completions, and a writer that waits for room has one to wait for.
func TestQuiet(t *testing.T) {
	cfg := Config{}.normal()
	a, b := newModels(t, cfg, cfg)
	loud := 0
	const messages = 1000
	for range messages {
		for !a.write(100) {
			require.True(t, a.complete(), "there is something to wait for")
		}
		loud += len(a.unacked)
		for a.deliver() {
		}
		for a.complete() {
		}
		b.take(100)
		b.credit()
		for b.deliver() {
		}
		for b.complete() {
		}
		a.check()
	}
	require.Less(t, loud, messages/50)
	require.Positive(t, a.s.sends, "not told of yet")
	require.False(t, a.s.awaited(), "and not waited for")
	var m message
	a.s.fin(ctrlDisconnect, &m)
	require.False(t, m.quiet)
	require.True(t, a.s.awaited())
	a.s.sent(m.id)
	require.Zero(t, a.s.sends)
	require.False(t, a.s.owes())
}

// Messages fill the datagrams of the kernel: the packets behind the second of all, and before the
// last, make whole ones, and the last is no longer than these.
func TestBestTransfer(t *testing.T) {
	for _, m := range []ib.MTU{ib.MTU256, ib.MTU512, ib.MTU1024, ib.MTU2048, ib.MTU4096} {
		mtu := m.Bytes()
		n := bestTransfer(mtu)
		require.LessOrEqual(t, n, maxTransfer)
		require.Greater(t, n, maxTransfer*2/3)
		packets := (n + mtu - 1) / mtu
		each := min(65_000/(mtu+32), maxSegments)
		require.Zero(t, (packets-2)%each, mtu)
		require.Equal(t, mtu-ib.ImmDtBytes, n-(packets-1)*mtu)
	}
}
