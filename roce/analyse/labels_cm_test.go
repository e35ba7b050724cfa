package analyse_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// call is a run in which A connects to B through RDMA-CM, and B sends back what it gets.
type call struct {
	*rand.Rand
	t    *testing.T
	s    *stage.Stage
	slow time.Duration // how long B takes to accept
	stop context.CancelFunc
	done chan struct{}
}

// The ports of calls: nobody listens on the second.
const (
	echoPort   = 7000
	nobodyPort = 7001
)

// call plays the label.
func (l *label) call(t *testing.T, seed uint64, rng *rand.Rand, judge func(s *stage.Stage, x truth)) {
	c := &call{Rand: rng}
	var x truth
	cfg := sim.Config{Seed: seed, Up: sim.Pipe{Latency: time.Duration(1+rng.IntN(400)) * time.Microsecond}}
	sim.Test(t, cfg, func(t *testing.T, net *sim.Fabric) {
		s, err := stage.New(stage.Config{Net: net, Bare: true})
		require.NoError(t, err)
		c.t, c.s, c.done = t, s, make(chan struct{})
		x = l.dial(c)
		if c.stop != nil {
			c.stop()
			<-c.done
		}
		require.NoError(t, s.Close())
	})
	judge(c.s, x)
}

// serve has B listen.
func (c *call) serve() {
	ctx, stop := context.WithCancel(c.t.Context())
	c.stop = stop
	wait := func(*roce.ConnRequest) error { time.Sleep(c.slow); return nil } // virtual, too
	l, err := (&roce.ListenConfig{
		ConnConfig: roce.ConnConfig{Device: c.s.Hosts[1].Device, KeepAlive: -1}, Handshake: wait,
	}).ListenAddr(netip.AddrPortFrom(c.s.Hosts[1].Addr, echoPort))
	require.NoError(c.t, err)
	go func() {
		defer close(c.done)
		_ = l.Serve(ctx, echoBack)
	}()
}

// echoBack shows the peer some memory, and then sends back what it gets.
func echoBack(ctx context.Context, c *roce.Conn) error {
	if _, err := c.Share(ctx, make([]byte, 1<<16), verbs.AccessAll); err != nil {
		return err
	}
	b := make([]byte, 100)
	for {
		n, err := c.Recv(ctx, b)
		if err == nil {
			err = c.Send(ctx, b[:n])
		}
		if err != nil {
			return err
		}
	}
}

// dial has A connect.
func (c *call) dial(port uint16) (*roce.Conn, error) {
	return (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: c.s.Hosts[0].Device, KeepAlive: -1}}).DialAddr(
		c.t.Context(), netip.AddrPortFrom(c.s.Hosts[1].Addr, port))
}

// connect has A connect, which succeeds.
func (c *call) connect() (*roce.Conn, roce.RemoteMemory) {
	c.t.Helper()
	conn, err := c.dial(echoPort)
	require.NoError(c.t, err)
	m, err := conn.Shared(c.t.Context())
	require.NoError(c.t, err)
	return conn, m
}

// talk is some messages and operations.
func (c *call) talk(conn *roce.Conn, m roce.RemoteMemory) {
	c.t.Helper()
	for range c.IntN(6) {
		switch c.IntN(3) {
		case 0:
			require.NoError(c.t, conn.Write(c.t.Context(), make([]byte, 1+c.IntN(5000)), m))
		case 1:
			require.NoError(c.t, conn.Read(c.t.Context(), make([]byte, 1+c.IntN(5000)), m))
		default:
			echo(c.t, conn)
		}
		if c.IntN(3) == 0 {
			time.Sleep(time.Duration(c.IntN(1000)) * time.Millisecond)
		}
	}
}

// nth makes a host do something to the nth datagram that it sends to queue pair 1.
func (c *call) nth(host, n, times int, a fault.Action) {
	c.s.Hosts[host].Faults.Add(fault.Rule{Action: a, Opcode: ib.UDSendOnly, HasOpcode: true, Every: n, Times: times})
}

// wait lets time pass: little, or more than anybody waits for an answer.
func (c *call) wait() {
	time.Sleep(5 * time.Millisecond)
	if c.IntN(2) == 0 {
		time.Sleep(time.Duration(c.IntN(30_000)) * time.Millisecond)
	}
}

// callLabels are about connections through RDMA-CM.
func callLabels() []label {
	lost := kinds(analyse.CMLost)
	whole := func(before func(c *call), named [3][]analyse.Kind, sure ...analyse.Kind) func(c *call) truth {
		return func(c *call) truth {
			c.serve()
			before(c)
			conn, m := c.connect()
			c.talk(conn, m)
			require.NoError(c.t, conn.Close())
			c.wait()
			return truth{named: named, sure: sure}
		}
	}
	// ends plays what happens at the end of a connection.
	ends := func(named [3][]analyse.Kind, sure []analyse.Kind, end func(c *call, conn *roce.Conn,
		m roce.RemoteMemory)) func(c *call) truth {
		return func(c *call) truth {
			c.serve()
			conn, m := c.connect()
			c.talk(conn, m)
			end(c, conn, m)
			return truth{named: named, sure: sure}
		}
	}
	hangUp := func(host int) func(c *call, conn *roce.Conn, m roce.RemoteMemory) {
		return func(c *call, conn *roce.Conn, m roce.RemoteMemory) {
			c.nth(host, 1, 1+c.IntN(2), fault.Drop)
			_ = conn.Close()
			if host == 1 {
				time.Sleep(time.Minute) // B knows of it by another DREQ
			}
			c.wait()
		}
	}
	return []label{
		{name: "clean call", dial: whole(func(*call) {}, [3][]analyse.Kind{})},
		{name: "lost REQ",
			dial: whole(func(c *call) { c.nth(0, 1, 1+c.IntN(2), fault.Drop) }, at(true, false, false, lost...))},
		{name: "lost REP", dial: whole(func(c *call) { c.nth(1, 1, 1+c.IntN(2), fault.Drop) }, everywhere(lost...))},
		{name: "lost RTU", dial: func(c *call) truth {
			c.serve()
			c.nth(0, 2, 1, fault.Drop)
			conn, err := c.dial(echoPort)
			require.NoError(c.t, err)
			x := truth{named: everywhere(lost...)}
			if c.IntN(2) == 0 {
				// What A sends says that it has the REP.
				require.NoError(c.t, conn.Send(c.t.Context(), []byte("hello")))
				_, err = conn.Shared(c.t.Context())
				require.NoError(c.t, err)
				_, err = conn.Recv(c.t.Context(), make([]byte, 100))
				require.NoError(c.t, err)
				x.named[0] = nil
			} else {
				time.Sleep(time.Minute)
			}
			require.NoError(c.t, conn.Close())
			c.wait()
			return x
		}},
		{name: "lost DREQ", dial: ends(at(true, false, false, lost...), nil, hangUp(0))},
		{name: "lost DREP", dial: ends(everywhere(lost...), nil, hangUp(1))},
		{name: "nobody listens", dial: func(c *call) truth {
			c.serve()
			_, err := c.dial(nobodyPort)
			require.Error(c.t, err)
			return truth{named: everywhere(analyse.CMRejected)}
		}},
		{name: "lost REJ", dial: func(c *call) truth {
			c.serve()
			c.nth(1, 1, 1, fault.Drop)
			_, err := c.dial(nobodyPort)
			require.Error(c.t, err)
			return truth{named: everywhere(lost...), sure: kinds(analyse.CMRejected)}
		}},
		{name: "slow to accept", dial: func(c *call) truth {
			c.slow = time.Duration(5+c.IntN(10)) * time.Second
			return whole(func(*call) {}, everywhere(analyse.CMSlow))(c)
		}},
		{name: "nobody is there", dial: func(c *call) truth {
			c.s.Net.Partition(c.s.Hosts[0].Addr, c.s.Hosts[1].Addr, true)
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(1500+c.IntN(30_000))*time.Millisecond)
			defer cancel()
			_, err := (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: c.s.Hosts[0].Device}}).DialAddr(ctx,
				netip.AddrPortFrom(c.s.Hosts[1].Addr, echoPort))
			require.Error(c.t, err)
			return truth{named: at(true, false, true, analyse.CMLost, analyse.PeerGone), sure: kinds(analyse.PeerGone)}
		}},
		{name: "the peer vanishes", dial: ends(at(true, false, true, analyse.RetryExceeded,
			analyse.PeerGone), kinds(analyse.CMLost), func(c *call, conn *roce.Conn, _ roce.RemoteMemory) {
			c.s.Net.Partition(c.s.Hosts[0].Addr, c.s.Hosts[1].Addr, true)
			err := conn.Send(c.t.Context(), []byte("hello"))
			if err == nil {
				_, err = conn.Recv(c.t.Context(), make([]byte, 100))
			}
			require.Error(c.t, err)
			_ = conn.Close()
			c.wait()
		})},
		{name: "the peer vanishes before the DREQ", dial: ends(at(true, false, true, analyse.CMLost, analyse.PeerGone),
			kinds(analyse.CMLost), func(c *call, conn *roce.Conn, _ roce.RemoteMemory) {
				c.s.Net.Partition(c.s.Hosts[0].Addr, c.s.Hosts[1].Addr, true)
				_ = conn.Close()
				c.wait()
			})},
		{name: "an unanswered READ before the DREQ", dial: ends(at(true, false, true, analyse.LostReadResponse),
			kinds(analyse.LostReadResponse), func(c *call, conn *roce.Conn, m roce.RemoteMemory) {
				for _, o := range []ib.Opcode{ib.RCReadRespOnly, ib.RCReadRespFirst, ib.RCReadRespMiddle,
					ib.RCReadRespLast} {
					c.s.Hosts[1].Faults.Add(fault.Rule{Action: fault.Drop, Opcode: o, HasOpcode: true})
				}
				ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(20+c.IntN(500))*time.Millisecond)
				defer cancel()
				require.Error(c.t, conn.Read(ctx, make([]byte, 1+c.IntN(5000)), m))
				_ = conn.Close()
				c.wait()
			})},
	}
}
