package sim_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// TestSwarm runs services and clients with the calls that applications make (Dial, Serve, Conn,
// rsocket) on a bad network that a seed draws: packets are lost, doubled, changed, delayed and
// overtaken, hosts are cut off for a while, and devices vanish and come back. The oracles:
//
//   - what arrives is what was sent, and memory of the peer holds what was written;
//   - every completion comes exactly once, in order;
//   - no call hangs: each ends, by itself, within callBound;
//   - a call fails only if something was done to the network that can make it fail, with an
//     error of the documented types;
//   - when the network is well again, all works again;
//   - when all is closed, all memory was given back and no goroutine is left.
//
// A failure prints its seed: go test -run 'TestSwarm$' -seed N
func TestSwarm(t *testing.T) {
	var sum swarmSum
	n := seeds.Run(t, seeds.Fewer(60), func(t *testing.T, seed uint64) { sum.add(swarm(t, seed)) })
	t.Logf("%+v", sum)
	if n < 50 || t.Failed() {
		return
	}
	// A swarm in which nothing goes wrong shows nothing.
	require.NotZero(t, sum.calls)
	require.NotZero(t, sum.failed)
	require.NotZero(t, sum.impatient)
	require.NotZero(t, sum.redials)
	require.NotZero(t, sum.net.Lost)
	require.NotZero(t, sum.net.Duplicated)
	require.NotZero(t, sum.net.Corrupted)
	require.NotZero(t, sum.net.Delayed)
	require.NotZero(t, sum.net.Overflowed)
	require.NotZero(t, sum.net.Partitioned)
	require.NotZero(t, sum.net.Unreachable)
}

// swarmSum is what happened in a run, or in many.
type swarmSum struct {
	calls, failed, impatient, redials int
	net                               sim.Stats
	transcript                        string // of one
}

func (s *swarmSum) add(o swarmSum) {
	s.calls += o.calls
	s.failed += o.failed
	s.impatient += o.impatient
	s.redials += o.redials
	s.net.Lost += o.net.Lost
	s.net.Duplicated += o.net.Duplicated
	s.net.Corrupted += o.net.Corrupted
	s.net.Delayed += o.net.Delayed
	s.net.Overflowed += o.net.Overflowed
	s.net.Partitioned += o.net.Partitioned
	s.net.Unreachable += o.net.Unreachable
}

// TestSwarmRepeats runs seeds twice: each packet has to be sent and to arrive at the same
// nanosecond.
func TestSwarmRepeats(t *testing.T) {
	seeds.Long(t)
	seeds.Run(t, 20, func(t *testing.T, seed uint64) {
		require.Equal(t, swarm(t, seed), swarm(t, seed))
	})
}

// callBound is the longest that a call may take, in virtual time: an idle connection finds
// out by a probe after 16 s that its peer is gone, and Dial gives up after half a minute.
const callBound = 2 * time.Minute

// swarmOptions are what a seed draws.
type swarmOptions struct {
	sim.Config
	clients int
	ops     int // of each client
	cuts    int // times that hosts are cut off from each other
	kills   int // times that a device vanishes
	shards  int // of each device

	// keepAlive is off where no peer vanishes: a probe would wake those that nothing else does.
	keepAlive time.Duration
}

func drawSwarm(seed uint64) (swarmOptions, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 0xC0FFEE))
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	o := swarmOptions{Config: sim.Config{Seed: seed, Shuffle: chance(50)}, clients: 1 + rng.IntN(4),
		ops: 5 + rng.IntN(25)}
	if chance(80) {
		o.Faults.Loss = rng.Float64() * 0.08
	}
	if chance(50) {
		o.Faults.Duplicate = rng.Float64() * 0.08
	}
	if chance(30) {
		o.Faults.Corrupt = rng.Float64() * 0.02
	}
	if chance(50) {
		o.Faults.Reorder, o.Faults.ReorderDelay = rng.Float64()*0.1, time.Duration(rng.Int64N(1e6))
	}
	if chance(50) {
		o.Faults.Jitter = time.Duration(rng.Int64N(50_000))
	}
	if chance(30) {
		o.Up.BitsPerSecond, o.Down.BitsPerSecond = 1e9, 1e9
		o.Down.QueueBytes = 64 << 10
	}
	if chance(40) {
		o.cuts = 1 + rng.IntN(4)
	}
	if chance(30) {
		o.kills = 1 + rng.IntN(3)
	}
	if o.cuts+o.kills == 0 {
		o.keepAlive = -1
	}
	o.shards = 1
	if chance(50) {
		o.shards += rng.IntN(4)
	}
	return o, rng
}

// swarmWorld is a run of a seed.
type swarmWorld struct {
	t   *testing.T
	net *sim.Fabric
	o   swarmOptions

	mu    sync.Mutex
	hosts []*swarmHost // the server is the first
	sum   swarmSum
}

// swarmHost is a host whose device comes and goes.
type swarmHost struct {
	addr     netip.Addr
	dev      *verbs.Device
	stop     context.CancelFunc // of its services
	services sync.WaitGroup
}

const (
	messagePort = 7000 // a roce.Listener
	streamPort  = 7001 // an rsocket.Listener
)

func swarm(t *testing.T, seed uint64) (sum swarmSum) {
	o, rng := drawSwarm(seed)
	sim.Test(t, o.Config, func(t *testing.T, net *sim.Fabric) {
		w := &swarmWorld{t: t, net: net, o: o}
		for i := range 1 + o.clients {
			h := &swarmHost{addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)})}
			w.hosts = append(w.hosts, h)
			w.boot(h)
		}
		var work sync.WaitGroup
		for i, h := range w.hosts[1:] {
			c := &swarmClient{w: w, h: h, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
			work.Go(func() { c.messages(o.ops) })
			s := &swarmClient{w: w, h: h, rng: rand.New(rand.NewPCG(seed, uint64(1000+i)))}
			work.Go(func() { s.streams(1 + o.ops/8) })
		}
		work.Go(func() { w.trouble(rng) })
		work.Wait()

		// All is well again, and so is every host.
		for i, a := range w.hosts {
			for _, b := range w.hosts[:i] {
				net.SetFaults(a.addr, b.addr, sim.Faults{})
				net.SetFaults(b.addr, a.addr, sim.Faults{})
			}
		}
		for i, h := range w.hosts[1:] {
			c := &swarmClient{w: w, h: h, well: true, rng: rand.New(rand.NewPCG(seed, uint64(2000+i)))}
			work.Go(func() { c.messages(2) })
			work.Go(func() { c.streams(1) })
		}
		work.Wait()
		// The peers of what has vanished find out, and what lingers ends.
		time.Sleep(callBound)
		for _, h := range w.hosts {
			h.halt()
		}
		time.Sleep(callBound)
		for _, h := range w.hosts {
			m := h.dev.MemCounts()
			if m.Regions > 1 || m.PDs > 1 || m.Windows > 0 { // one is the communication manager's
				t.Errorf("%v: left behind: %+v", h.addr, m)
			}
			if err := h.dev.Close(); err != nil {
				t.Error(err)
			}
		}
		sum = w.sum
		sum.net, sum.transcript = net.Stats(), net.Transcript()
	})
	return sum
}

// boot opens the device of a host, and starts the services if it is the server.
func (w *swarmWorld) boot(h *swarmHost) {
	host, err := w.net.Link(h.addr)
	must(err)
	h.dev, err = verbs.Open(verbs.Config{Link: host, Shards: w.o.shards})
	must(err)
	h.stop = func() {}
	if h != w.hosts[0] {
		return
	}
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: h.dev, KeepAlive: w.o.keepAlive}}).ListenAddr(
		netip.AddrPortFrom(h.addr, messagePort))
	if err != nil {
		w.t.Error(err)
		return
	}
	h.services.Go(func() { _ = l.Serve(ctx, w.serve) })
	s, err := (&rsocket.ListenConfig{Device: h.dev, Config: rsocket.Config{KeepAlive: w.o.keepAlive}}).ListenAddr(
		netip.AddrPortFrom(h.addr, streamPort))
	if err != nil {
		w.t.Error(err)
		return
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	h.services.Go(func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			h.services.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(callBound * 10))
				_, _ = io.Copy(c, c) // what is missing the client sees
				_ = c.(*rsocket.Conn).CloseWrite()
			})
		}
	})
}

// halt ends the services of a host.
func (h *swarmHost) halt() {
	h.stop()
	h.services.Wait()
}

// trouble cuts hosts off and lets devices vanish, now and then; in the end all are there.
func (w *swarmWorld) trouble(rng *rand.Rand) {
	cuts, kills := w.o.cuts, w.o.kills
	for cuts+kills > 0 {
		time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
		if rng.IntN(cuts+kills) < cuts {
			cuts--
			a, b := w.hosts[0].addr, w.hosts[1+rng.IntN(w.o.clients)].addr
			w.net.Partition(a, b, true)
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
			w.net.Partition(a, b, false)
			continue
		}
		kills--
		w.kill(w.hosts[rng.IntN(len(w.hosts))], time.Duration(rng.Int64N(int64(10*time.Second))))
	}
}

// kill lets a device vanish without a word, and boots another one some time later.
func (w *swarmWorld) kill(h *swarmHost, pause time.Duration) {
	cut := func(on bool) {
		for _, o := range w.hosts {
			if o != h {
				w.net.Partition(h.addr, o.addr, on)
			}
		}
	}
	cut(true)
	_ = h.dev.Close()
	h.halt()
	time.Sleep(pause)
	cut(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boot(h)
}

func (w *swarmWorld) device(h *swarmHost) *verbs.Device {
	w.mu.Lock()
	defer w.mu.Unlock()
	return h.dev
}

// swarmMemory is what the service of messages shares with each client.
const swarmMemory = 16 << 10

// serve lends the client memory, and sends back what it sends.
func (w *swarmWorld) serve(ctx context.Context, c *roce.Conn) error {
	if _, err := c.Share(ctx, make([]byte, swarmMemory),
		roce.RemoteRead|roce.RemoteWrite|roce.RemoteAtomic); err != nil {
		return w.typed("share", err)
	}
	b := make([]byte, roce.DefaultRecvBytes)
	for {
		n, err := c.Recv(ctx, b)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.Send(ctx, b[:n])
		}
		if err != nil {
			return w.typed("serve", err)
		}
	}
}

// typed checks that an error is one of those that are documented, and returns it.
func (w *swarmWorld) typed(op string, err error) error {
	var re *roce.OpError
	var ne *net.OpError
	if err != nil && !errors.As(err, &re) && !errors.As(err, &ne) && !errors.Is(err, io.EOF) {
		w.t.Errorf("%s: an error of another type: %T %v", op, err, err)
	}
	return err
}
