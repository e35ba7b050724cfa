package rsocket

import (
	"bytes"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// part cuts the two hosts off from each other, or joins them.
func (n *network) part(on bool) { n.fabric.Partition(n.a.Addrs()[0], n.b.Addrs()[0], on) }

// small is a configuration for many connections.
var small = Config{SendBuffer: minSendBuffer, RecvBuffer: 4096, SendQueue: minQueue, RecvQueue: minQueue}

// memory returns what is registered on a device, when a first connection has made what stays.
func (n *network) memory(t *testing.T) mem.Counts {
	c, s, err := n.connect(testContext(t), small, small)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	n.quiet(t, n.a)
	return n.a.MemCounts()
}

// requireLost checks that an error of Close says what was lost.
func requireLost(t *testing.T, err error, bytes int, target error) {
	t.Helper()
	requireOp(t, err, "close", target)
	var lost *LostError
	require.ErrorAs(t, err, &lost)
	require.EqualValues(t, bytes, lost.Bytes)
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.Equal(t, target != syscall.ECONNRESET, ne.Timeout())
}

// Close of connections for which nothing is missing does not wait, also if the peer has vanished:
// not a moment of virtual time passes. The connections linger until their goodbye has arrived, are
// counted, and give everything back when their time is over, without a goroutine.
func TestCloseDoesNotWait(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 20})
	before := n.memory(t)
	const conns = 10
	var open []*Conn
	for range conns {
		c, s := n.pair(t, Config{})
		_, err := c.Write([]byte("there in time"))
		require.NoError(t, err)
		recvN(t, s, 13)
		n.fabric.RunFor(1e6)
		open = append(open, c)
	}
	n.part(true)
	now, earlier := n.fabric.Now(), Lingering(n.a)
	for _, c := range open {
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
	}
	require.Equal(t, now, n.fabric.Now())
	require.Equal(t,
		LingerStats{Conns: conns, Bytes: conns * Config{}.normal().grown(), Finished: earlier.Finished}, Lingering(n.a))
	require.Greater(t, n.a.MemCounts().Regions, before.Regions)
	n.fabric.RunFor(lingerTime + time.Second)
	require.Equal(t, LingerStats{Finished: earlier.Finished + conns}, Lingering(n.a))
	require.Equal(t, before, n.a.MemCounts())
}

// A connection may be closed while the answer to a grant is awaited, whether that comes or not:
// nothing is lost, and nothing stays.
func TestCloseAwaitsGrant(t *testing.T) {
	for _, parted := range []bool{false, true} {
		n := simNetwork(t, sim.Config{Seed: 21})
		before := n.memory(t)
		c, s := n.pair(t, Config{})
		want := randomBytes(21, defaultBuffer)
		_, err := s.Write(want)
		require.NoError(t, err)
		n.fabric.RunFor(time.Second)
		recvN(t, c, defaultBuffer/2)
		c.mu.Lock()
		asked := c.s.rcv.asked
		c.mu.Unlock()
		require.True(t, asked)
		n.part(parted)
		require.NoError(t, c.Close())
		n.fabric.RunFor(lingerTime + time.Second)
		require.Zero(t, Lingering(n.a).Conns+Lingering(n.a).Bytes)
		require.Zero(t, Lingering(n.a).Lost)
		require.Equal(t, before, n.a.MemCounts())
		if !parted {
			_, err = s.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
		}
	}
}

// What was written has arrived when Close returns, though packets were lost.
func TestCloseWaits(t *testing.T) {
	for _, loss := range []float64{0, 0.05} {
		n := simNetwork(t, sim.Config{Seed: 21, Faults: sim.Faults{Loss: loss}})
		c, s := n.pair(t, Config{})
		want := randomBytes(1, defaultBuffer/2)
		_, err := c.Write(want)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		n.part(true)
		got := make([]byte, len(want))
		_, err = io.ReadFull(s, got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		require.NoError(t, n.a.Close())
	}
}

// A peer that is there and takes nothing, since its program stands still, has Close wait
// for its time and no longer: the queue pair would try for ever.
func TestCloseEndsWithPeerThatStandsStill(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 33})
	before := n.memory(t)
	cfg := small
	cfg.Linger = time.Millisecond
	c, _ := n.pair(t, cfg)
	n.fabric.RunFor(1e6)
	for n.a.Counters().RcvdRNRErr == 0 { // until the peer has no receive left
		c.s.ctrl++
		c.s.sends++
		require.NoError(t, c.qp.PostSend(&verbs.SendWR{
			ID: wrID(wrCtrl, tally{}), Opcode: verbs.WRWriteImm, Flags: verbs.SendInline | verbs.SendSignaled,
			Inline: []byte{},
		}))
		n.fabric.RunFor(1e5)
	}
	_, err := c.Write([]byte("too late"))
	require.NoError(t, err)
	requireLost(t, c.Close(), 8, os.ErrDeadlineExceeded)
	require.Zero(t, Lingering(n.a).Conns)
	require.EqualValues(t, 1, Lingering(n.a).Lost)
	require.Equal(t, before, n.a.MemCounts())
}

// A connection whose peer is alive is over within a few milliseconds.
func TestLingerIsShort(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 22})
	before := n.memory(t)
	c, s := n.pair(t, Config{})
	_, err := c.Write([]byte("that was it"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	n.fabric.RunFor(2 * firstLook)
	require.Zero(t, Lingering(n.a).Conns)
	require.Equal(t, before, n.a.MemCounts())
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Equal(t, "that was it", string(got))
}

// Too many that linger: the oldest make room.
func TestLingerBounds(t *testing.T) {
	for name, most := range map[string]LingerStats{
		"connections": {Conns: 4, Bytes: maxLingerBytes},
		"bytes":       {Conns: maxLingering, Bytes: 4*small.normal().grown() + 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := simNetwork(t, sim.Config{Seed: 23})
			before := n.memory(t)
			hostOf(n.a).most = most
			var open []*Conn
			for range 10 {
				c, _ := n.pair(t, small)
				n.fabric.RunFor(1e6)
				open = append(open, c)
			}
			n.part(true)
			finished := Lingering(n.a).Finished
			for i, c := range open {
				require.NoError(t, c.Close())
				require.LessOrEqual(t, Lingering(n.a).Conns, 4, "%d", i)
				require.LessOrEqual(t, Lingering(n.a).Bytes, most.Bytes, "%d", i)
			}
			require.Equal(t, LingerStats{Conns: 4, Bytes: 4 * small.normal().grown(), Finished: finished + 6},
				Lingering(n.a))
			for i, c := range open {
				require.Equal(t, i < 6, c.buried, "%d", i)
			}
			n.fabric.RunFor(lingerTime + time.Second)
			require.Equal(t, LingerStats{Finished: finished + 10}, Lingering(n.a))
			require.Equal(t, before, n.a.MemCounts())
		})
	}
}

// The device closes: nothing lingers any more.
func TestLingerEndsWithDevice(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 24})
	c, _ := n.pair(t, Config{})
	n.part(true)
	require.NoError(t, c.Close())
	require.Equal(t, 1, Lingering(n.a).Conns)
	require.NoError(t, n.a.Close())
	require.Equal(t, LingerStats{Finished: 1}, Lingering(n.a))
}

// Close waits no longer than it is told to, and says what became of it.
func TestSetLinger(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 26})
	c, s := n.pair(t, Config{})
	_, err := c.Write([]byte("for sure"))
	require.NoError(t, err)
	require.NoError(t, c.SetLinger(math.MaxInt)) // as long as it takes
	require.NoError(t, c.Close())
	require.Zero(t, Lingering(n.a))
	require.NoError(t, n.a.Close())
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.Equal(t, "for sure", string(got))

	n = simNetwork(t, sim.Config{Seed: 27})
	c, _ = n.pair(t, Config{Linger: 1}) // a nanosecond
	n.part(true)
	_, err = c.Write([]byte("too late"))
	require.NoError(t, err)
	requireLost(t, c.Close(), 8, os.ErrDeadlineExceeded)
	require.Equal(t, LingerStats{Lost: 1}, Lingering(n.a))

	// 0 resets, and negative is the default.
	n.part(false)
	for _, sec := range []int{0, -1} {
		c, s = n.pair(t, Config{Linger: time.Hour})
		require.NoError(t, c.SetLinger(sec))
		require.NoError(t, c.Close())
		_, err = s.Read(make([]byte, 1))
		if sec == 0 {
			requireOp(t, err, "read", syscall.ECONNRESET)
		} else {
			require.Equal(t, io.EOF, err)
		}
	}
}

// Calls that come while Close waits do not wait with it.
func TestCallsWhileCloseWaits(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 29})
	c, _ := n.pair(t, Config{Linger: time.Hour, IOMaps: 1})
	n.part(true)
	_, err := c.Write([]byte("nobody has it"))
	require.NoError(t, err)
	asked := false
	n.fabric.At(n.fabric.Now()+1e6, func() { // while Close lets time pass
		asked = true
		b := make([]byte, 1)
		_, err := c.Read(b)
		requireOp(t, err, "read", net.ErrClosed)
		_, err = c.Read(nil)
		requireOp(t, err, "read", net.ErrClosed)
		_, err = c.Write(b)
		requireOp(t, err, "write", net.ErrClosed)
		_, err = c.WriteAt(b, 0)
		requireOp(t, err, "write", net.ErrClosed)
		_, err = c.Map(b, 0)
		requireOp(t, err, "map", net.ErrClosed)
		requireOp(t, c.CloseWrite(), "close", net.ErrClosed)
		requireOp(t, c.CloseRead(), "close", net.ErrClosed)
		require.NoError(t, c.Close(), "another one is closing it")
		requireOp(t, c.SetDeadline(time.Time{}), "set", net.ErrClosed)
		requireOp(t, c.Err(), "check", net.ErrClosed)
	})
	requireLost(t, c.Close(), 13, syscall.ETIMEDOUT)
	require.True(t, asked)
}

// Memory that was lent for mappings is the application's own when Close returns.
func TestLingerLeavesMappings(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 28})
	c, s := n.pair(t, Config{IOMaps: 1})
	m, err := s.Map(make([]byte, 100), 0)
	require.NoError(t, err)
	_, err = s.Write([]byte("mapped"))
	require.NoError(t, err)
	recvN(t, c, 6)
	n.fabric.RunFor(1e6)
	regions := n.b.MemCounts().Regions
	require.NoError(t, s.Close())
	require.Equal(t, 1, Lingering(n.b).Conns)
	require.Equal(t, regions-1, n.b.MemCounts().Regions)
	require.NoError(t, m.Close())
}

// Both sides say the end of their data at the same time. Each one's Close waits for its own,
// although the other has nothing left to say, and both get everything.
func TestEndsCross(t *testing.T) {
	seeds.Run(t, 20, func(t *testing.T, seed uint64) {
		n := simNetwork(t, sim.Config{Seed: seed, Faults: sim.Faults{Loss: 0.1}})
		c, s := n.pair(t, Config{})
		there, back := randomBytes(seed, defaultBuffer), randomBytes(seed+1, defaultBuffer)
		for _, e := range []struct {
			c    *Conn
			data []byte
		}{{c, there}, {s, back}} {
			_, err := e.c.Write(e.data)
			require.NoError(t, err)
			require.NoError(t, e.c.CloseWrite())
		}
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.True(t, bytes.Equal(back, got))
		require.NoError(t, c.Close())
		got, err = io.ReadAll(s)
		require.NoError(t, err)
		require.True(t, bytes.Equal(there, got))
	})
}
