package rsocket

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

func testContext(t testing.TB) context.Context { return rocetest.Context(t) }

func openDevice(t testing.TB, cfg verbs.Config) *verbs.Device { return rocetest.OpenDevice(t, cfg) }

// network is two devices that reach each other.
type network struct {
	name   string
	fabric *sim.Fabric // of a simulated one
	a, b   *verbs.Device
}

func udpNetwork(t testing.TB) *network {
	return &network{name: "udp", a: openDevice(t, verbs.Config{}), b: openDevice(t, verbs.Config{})}
}

// shardedNetwork is two devices of which each has two shards, and the first connection on the
// second one.
func shardedNetwork(t testing.TB) *network {
	cfg := verbs.Config{Shards: 2}
	n := &network{name: "udp", a: openDevice(t, cfg), b: openDevice(t, cfg)}
	access.NextVector(n.a)
	access.NextVector(n.b)
	return n
}

func simNetwork(t testing.TB, cfg sim.Config) *network {
	return tunedNetwork(t, cfg, transport.Tuning{})
}

func tunedNetwork(t testing.TB, cfg sim.Config, tuning transport.Tuning) *network {
	n := &network{name: "sim", fabric: sim.New(cfg)}
	for i, d := range []**verbs.Device{&n.a, &n.b} {
		l, err := n.fabric.Link(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))
		require.NoError(t, err)
		*d = openDevice(t, verbs.Config{Link: l, Rand: n.fabric.Rand(), Tuning: tuning})
	}
	return n
}

// quiet waits until no connection of a device lingers.
func (n *network) quiet(t testing.TB, d *verbs.Device) {
	require.Eventually(t, func() bool {
		if n.fabric != nil {
			n.fabric.RunFor(lastLook)
		}
		return Lingering(d).Conns == 0
	}, time.Minute, time.Millisecond)
}

// networks runs a test on each kind.
func networks(t *testing.T, f func(t *testing.T, n *network)) {
	t.Run("sim", func(t *testing.T) { f(t, simNetwork(t, sim.Config{Seed: 1})) })
	t.Run("udp", func(t *testing.T) { f(t, udpNetwork(t)) })
	t.Run("udp, 2 shards", func(t *testing.T) { f(t, shardedNetwork(t)) })
}

// pair connects a to b with one configuration for both.
func (n *network) pair(t testing.TB, cfg Config) (c, s *Conn) {
	c, s, err := n.connect(testContext(t), cfg, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, c := range []*Conn{c, s} {
			_ = c.SetLinger(0) // what nobody has read, nobody reads any more; fails if it is closed
			_ = c.Close()
		}
	})
	return c, s
}

// connect connects a to b. One goroutine does it all, so that a simulated network comes to the
// same every time.
func (n *network) connect(ctx context.Context, client, server Config) (c, s *Conn, err error) {
	l, err := (&ListenConfig{Device: n.b, Config: server}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	d := Dialer{Device: n.a, Config: client}
	if c, err = d.begin(ctx, l.addr.AddrPort); err != nil {
		return nil, nil, err
	}
	if s, err = l.AcceptConn(); err != nil {
		return nil, nil, err
	}
	return c, s, c.finish(ctx)
}
