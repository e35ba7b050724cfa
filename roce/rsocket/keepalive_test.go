package rsocket

import (
	"math"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// An application that says nothing has keep-alive, as in package net; negative has none. A
// simulation, where time passes by leaps, has none unless it is asked for.
func TestKeepAliveDefault(t *testing.T) {
	for _, tt := range []struct {
		cfg       time.Duration
		real, sim time.Duration
	}{{0, 15 * time.Second, 0}, {-1, 0, 0}, {time.Minute, time.Minute, time.Minute}} {
		networks(t, func(t *testing.T, n *network) {
			want := tt.real
			if n.fabric != nil {
				want = tt.sim
			}
			c, s := n.pair(t, Config{KeepAlive: tt.cfg})
			for _, x := range []*Conn{c, s} {
				x.mu.Lock()
				require.Equal(t, want, x.keepGap)
				x.mu.Unlock()
			}
		})
	}
}

// The peer vanishes while nothing is on its way: a call that waits learns of it, after the time
// that was set and what the queue pair needs to give up.
func TestKeepAliveFindsDeadPeer(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 30})
	cfg := Config{KeepAlive: 15 * time.Second, SilenceTimeout: -1}
	c, s := n.pair(t, cfg)
	full, _ := n.pair(t, cfg)
	buf := make([]byte, maxSend+2*defaultBuffer)
	for k := 1; k > 0; { // until both buffers are full
		k, _ = core.Open(full).TryWrite(buf)
	}
	n.part(true)
	start := n.fabric.Now()
	for op, f := range map[string]func() (int, error){
		"read":  func() (int, error) { return c.Read(buf) },
		"write": func() (int, error) { return full.Write(buf) },
		"check": func() (int, error) { return 0, s.Err() }, // makes no other calls
	} {
		for {
			_, err := f()
			if err == nil {
				n.fabric.Step()
				continue
			}
			requireOp(t, err, op, syscall.ETIMEDOUT)
			var ne net.Error
			require.ErrorAs(t, err, &ne)
			require.True(t, ne.Timeout())
			break
		}
	}
	took := time.Duration(n.fabric.Now() - start)
	require.Less(t, took, 2*16*time.Second+5*time.Second)
	for _, x := range []*Conn{c, s} {
		require.NoError(t, x.Close())
	}
	var lost *LostError
	require.ErrorAs(t, full.Close(), &lost)
	require.GreaterOrEqual(t, lost.Bytes, int64(maxSend-maxTransfer))
}

// An idle connection sends a probe each time, and one that is busy none.
func TestKeepAliveProbes(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 31})
	c, s := n.pair(t, Config{})
	n.fabric.RunFor(1e9)
	sent := func() uint64 { return n.fabric.Stats().Sent }
	quiet := sent()
	n.fabric.RunFor(3600e9)
	require.Equal(t, quiet, sent(), "there are none without being asked for")
	require.NoError(t, c.Err()) // takes in what came before
	require.NoError(t, core.Open(c).SetKeepAlive(15*time.Second))
	n.fabric.RunFor(60e9 + 5e9)
	require.Equal(t, quiet+2*4, sent(), "probes, and acknowledgements")

	// A byte there and back, again and again for a minute, with pauses that are too short for Write
	// to ask before.
	const gap = pauseTime / 2
	talk := func() {
		for range time.Minute / gap {
			for _, x := range [][2]*Conn{{c, s}, {s, c}} {
				_, err := x[0].Write([]byte{1})
				require.NoError(t, err)
				recvN(t, x[1], 1)
			}
			n.fabric.RunFor(gap)
		}
	}
	before := sent()
	talk()
	with := sent() - before
	require.NoError(t, core.Open(c).SetKeepAlive(0))
	n.fabric.RunFor(20e9)
	before = sent()
	talk()
	require.InDelta(t, sent()-before, with, 4, "but for messages of credit")
	require.NoError(t, core.Open(c).SetKeepAlive(math.MaxInt64))
	before = sent()
	n.fabric.RunFor(60e9)
	require.Equal(t, before, sent())
	require.NoError(t, core.Open(c).SetKeepAlive(-1))
	before = sent()
	n.fabric.RunFor(60e9)
	require.Equal(t, before, sent())
}

// The first Write after a pause asks whether the peer is there: one packet, and its
// acknowledgement.
func TestWriteAfterPause(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 33})
	c, s := n.pair(t, Config{})
	packets := func(pause time.Duration) uint64 {
		n.fabric.RunFor(pause)
		before := n.fabric.Stats().Sent
		_, err := c.Write([]byte{1})
		require.NoError(t, err)
		recvN(t, s, 1)
		require.NoError(t, c.Err()) // takes in what has come
		n.fabric.RunFor(pauseTime / 4)
		return n.fabric.Stats().Sent - before
	}
	require.NoError(t, core.Open(c).SetKeepAlive(time.Hour))
	packets(0)
	usual := packets(0)
	require.Equal(t, usual+2, packets(pauseTime))
	require.Equal(t, usual, packets(0))
	require.NoError(t, core.Open(c).SetKeepAlive(-1))
	require.Equal(t, usual, packets(pauseTime), "who wants no probes gets none")
}

// Probes of many connections go out together, and none has a goroutine.
func TestKeepAliveTogether(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 32})
	var conns []*Conn
	for range 50 {
		c, _ := n.pair(t, small)
		n.fabric.RunFor(17e6)
		conns = append(conns, c)
	}
	for _, c := range conns {
		require.NoError(t, core.Open(c).SetKeepAlive(15*time.Second))
		n.fabric.RunFor(17e6)
	}
	times := map[int64]int{}
	for _, c := range conns {
		f := c.rang
		c.alarm = access.Shard(c.dev).NewAlarm(func() { times[n.fabric.Now()]++; f() })
		require.NoError(t, core.Open(c).SetKeepAlive(15*time.Second))
		n.fabric.RunFor(17e6)
	}
	n.fabric.RunFor(30e9)
	require.LessOrEqual(t, len(times), 5, "of 100 probes")
}
