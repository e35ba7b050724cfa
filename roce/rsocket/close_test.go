package rsocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// requireOp checks that an error is what net returns.
func requireOp(t *testing.T, err error, op string, target error) {
	t.Helper()
	var o *net.OpError
	require.ErrorAs(t, err, &o)
	require.Equal(t, op, o.Op)
	require.Equal(t, Network, o.Net)
	require.ErrorIs(t, err, target)
}

// readAll reads to the end in the background.
func readAll(c *Conn) func() ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	ch := make(chan result, 1)
	go func() {
		b, err := io.ReadAll(c)
		ch <- result{b, err}
	}()
	return func() ([]byte, error) { r := <-ch; return r.b, r.err }
}

// One side says it all and then listens.
func TestHalfClose(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		question, answer := randomBytes(1, 500_000), randomBytes(2, 700_000)
		asked := readAll(s)
		_, err := c.Write(question)
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		require.NoError(t, c.CloseWrite(), "again does nothing")
		_, err = c.Write([]byte{1})
		requireOp(t, err, "write", syscall.EPIPE)
		got, err := asked()
		require.NoError(t, err)
		require.True(t, bytes.Equal(question, got))

		answered := readAll(c)
		_, err = s.Write(answer)
		require.NoError(t, err)
		require.NoError(t, s.CloseWrite())
		got, err = answered()
		require.NoError(t, err)
		require.True(t, bytes.Equal(answer, got))
		require.Equal(t, io.EOF, c.Err())
		s.mu.Lock()
		bye := s.s.byeSent // c takes a shutdown for one; librdmacm's rsocket may not
		s.mu.Unlock()
		require.True(t, bye, "the last direction ends with a disconnect")
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	})
}

// Everything that was written before Close arrives, though nobody reads yet.
func TestCloseDelivers(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		want := randomBytes(3, defaultBuffer) // both halves: all that fits unread
		_, err := c.Write(want)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		_, err = s.Write([]byte{1})
		requireOp(t, err, "write", syscall.EPIPE)
	})
}

// As many tiny messages as there are credits, and a peer that does nothing:
// Close does not wait for it.
func TestCloseAfterManyTinyWrites(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		for range defaultQueue - spareCredits {
			_, err := c.Write([]byte{7})
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.Len(t, got, defaultQueue-spareCredits)
	})
}

func TestCloseUnblocks(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, _ := n.pair(t, Config{Linger: -1}) // what has been taken is never read
		errs := make(chan error, 2)
		go func() {
			_, err := c.Read(make([]byte, 1))
			errs <- err
		}()
		go func() {
			_, err := c.Write(make([]byte, 4*maxSend))
			errs <- err
		}()
		// Whether they have begun to wait or not, they must come back.
		require.NoError(t, c.Close())
		for range 2 {
			require.ErrorIs(t, <-errs, net.ErrClosed)
		}
		require.NoError(t, c.Close(), "again")
		requireOp(t, c.SetDeadline(time.Time{}), "set", net.ErrClosed)
		requireOp(t, c.CloseWrite(), "close", net.ErrClosed)
		requireOp(t, c.CloseRead(), "close", net.ErrClosed)
		requireOp(t, c.SetLinger(1), "set", net.ErrClosed)
		requireOp(t, core.Open(c).SetKeepAlive(time.Second), "set", net.ErrClosed)
		_, err := c.Map(make([]byte, 1), 0)
		requireOp(t, err, "map", net.ErrClosed)
		_, err = c.WriteAt([]byte{1}, 0)
		requireOp(t, err, "write", net.ErrClosed)
	})
}

func TestCloseReadUnblocks(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		ended := readAll(c)
		require.NoError(t, c.CloseRead())
		_, err := ended()
		require.NoError(t, err)
		// What comes is thrown away as long as this side does something, so that
		// the peer is not held up.
		done := make(chan error, 1)
		go func() {
			_, err := s.Write(make([]byte, 8*defaultBuffer))
			done <- errors.Join(err, s.CloseWrite())
		}()
		got := readAll(s)
		for stop := false; !stop; {
			_, err := c.Write(make([]byte, 1000))
			require.NoError(t, err)
			require.NoError(t, ignoreEOF(c.Err()))
			select {
			case err := <-done:
				require.NoError(t, err)
				stop = true
			default:
			}
		}
		require.NoError(t, c.CloseWrite())
		_, err = got()
		require.NoError(t, err)
	})
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func TestSetNoDelay(t *testing.T) {
	c, _ := simNetwork(t, sim.Config{Seed: 1}).pair(t, Config{})
	require.NoError(t, c.SetNoDelay(false))
	require.NoError(t, c.Close())
	requireOp(t, c.SetNoDelay(true), "set", net.ErrClosed)
}

// A peer that reads nothing holds the writer up; the deadline ends that, and
// what was written by then is known.
func TestBackPressure(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		want := randomBytes(4, maxSend+4*defaultBuffer)
		written := 0
		for n := 1; n > 0 || written <= maxSend; written += n { // until all is full
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			var err error
			n, err = c.Write(want[written:])
			requireOp(t, err, "write", os.ErrDeadlineExceeded)
			var ne net.Error
			require.ErrorAs(t, err, &ne)
			require.True(t, ne.Timeout())
		}
		require.LessOrEqual(t, written, maxSend+defaultBuffer)
		_, err := c.Write(want)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "still")
		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		got := readAll(s)
		_, err = c.Write(want[written:])
		require.NoError(t, err)
		require.NoError(t, c.Close())
		b, err := got()
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, b))
	})
}

// The peer's program is killed: its device says DREQ and no more.
func TestReset(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		_, err := s.Write([]byte("last words"))
		require.NoError(t, err)
		require.NoError(t, s.SetLinger(0))
		require.NoError(t, s.Close())
		b := make([]byte, 100)
		k, err := c.Read(b)
		require.NoError(t, err)
		require.Equal(t, "last words", string(b[:k]))
		_, err = c.Read(b)
		requireOp(t, err, "read", syscall.ECONNRESET)
		_, err = c.Write(b)
		requireOp(t, err, "write", syscall.ECONNRESET)
		require.NoError(t, c.Close())
	})
}

// The peer vanishes. Writing finds out; Close does not hang.
func TestPeerVanishes(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 5})
	c, _ := n.pair(t, Config{})
	n.fabric.Partition(n.a.Addrs()[0], n.b.Addrs()[0], true)
	_, err := c.Write([]byte("anybody there?"))
	require.NoError(t, err, "it is on its way")
	_, err = c.Read(make([]byte, 1))
	requireOp(t, err, "read", syscall.ETIMEDOUT)
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.True(t, ne.Timeout())
	var status *roce.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, verbs.WCRetryExcErr, status.WC.Status)
	requireLost(t, c.Close(), 14, syscall.ETIMEDOUT)
}

// So does a probe, for a side that only reads.
func TestKeepAlive(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 6})
	c, s := n.pair(t, Config{})
	for range 3 * maxCtrl { // more than can be on their way: they are answered
		c.probe()
		require.True(t, n.fabric.Run(func() bool { c.look1(); return c.s.sends == 0 }))
	}
	c.mu.Lock()
	require.Zero(t, c.s.ctrl)
	c.mu.Unlock()
	require.NoError(t, s.Err())
	require.NoError(t, core.Open(c).SetKeepAlive(time.Millisecond))
	n.fabric.Partition(n.a.Addrs()[0], n.b.Addrs()[0], true)
	_, err := c.Read(make([]byte, 1))
	requireOp(t, err, "read", syscall.ETIMEDOUT)
}

func (c *Conn) look1() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look()
}

// A Close that waits gives up by itself when the peer has vanished, and says so.
func TestCloseAfterVanishing(t *testing.T) {
	n := simNetwork(t, sim.Config{Seed: 7})
	c, _ := n.pair(t, Config{})
	n.fabric.Partition(n.a.Addrs()[0], n.b.Addrs()[0], true)
	_, err := c.Write([]byte("anybody there?"))
	require.NoError(t, err)
	require.NoError(t, c.SetLinger(60))
	requireOp(t, c.Close(), "close", syscall.ETIMEDOUT)
}

// The device is closed under a connection.
func TestDeviceCloses(t *testing.T) {
	n := udpNetwork(t)
	c, _ := n.pair(t, Config{})
	ended := readAll(c)
	require.NoError(t, n.a.Close())
	_, err := ended()
	requireOp(t, err, "read", net.ErrClosed)
	_, err = c.Write([]byte{1})
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, c.Close())
}

// Nothing is left behind: no memory, no queue pairs, no goroutines.
func TestNothingLeaks(t *testing.T) {
	n := udpNetwork(t)
	ctx := testContext(t)
	_, _, err := n.connect(ctx, Config{}, Config{}) // makes the communication managers
	require.NoError(t, err)
	before := n.a.MemCounts()
	l, err := (&ListenConfig{Device: n.b}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	const conns = 100
	served := make(chan error, 1)
	go func() {
		for {
			s, err := l.Accept()
			if err != nil {
				served <- err
				return
			}
			go func() {
				_, _ = io.Copy(s, s)
				_ = s.Close()
			}()
		}
	}()
	for i := range conns {
		c, err := (&Dialer{Device: n.a}).DialAddr(ctx, l.Addr().(Addr).AddrPort)
		require.NoError(t, err, "%d", i)
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
		require.NoError(t, c.Close())
	}
	require.NoError(t, l.Close())
	requireOp(t, <-served, "accept", net.ErrClosed)
	require.NoError(t, l.Close(), "again")
	n.quiet(t, n.a)
	require.Equal(t, before, n.a.MemCounts())
	require.Equal(t, LingerStats{Finished: Lingering(n.a).Finished}, Lingering(n.a))
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	require.NotContains(t, string(stacks), "rsocket.(*Listener)")
	require.Zero(t, strings.Count(string(stacks), "rsocket.(*Conn).probe"))
}

func TestDialErrors(t *testing.T) {
	n := udpNetwork(t)
	ctx := testContext(t)
	at := netip.AddrPortFrom(n.b.Addrs()[0], 4242)
	_, _, err := n.connect(ctx, Config{}, Config{}) // both have a communication manager
	require.NoError(t, err)
	_, err = (&Dialer{Device: n.a}).DialAddr(ctx, at)
	requireOp(t, err, "dial", syscall.ECONNREFUSED)
	require.ErrorIs(t, err, roce.ErrConnRefused)

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = (&Dialer{Device: n.a}).DialAddr(canceled, at)
	requireOp(t, err, "dial", context.Canceled)

	_, err = (&Dialer{Device: n.a, LocalAddr: netip.MustParseAddrPort("192.0.2.1:0")}).DialAddr(ctx, at)
	requireOp(t, err, "dial", syscall.EADDRNOTAVAIL)
	_, err = (&Dialer{Device: n.a}).DialContext(ctx, "udp", at.String())
	require.ErrorAs(t, err, new(net.UnknownNetworkError))

	l, err := (&ListenConfig{Device: n.b}).ListenAddr(at)
	require.NoError(t, err)
	_, err = (&ListenConfig{Device: n.b}).ListenAddr(at)
	requireOp(t, err, "listen", syscall.EADDRINUSE)
	require.NoError(t, l.SetDeadline(time.Now().Add(-1)))
	_, err = l.Accept()
	requireOp(t, err, "accept", os.ErrDeadlineExceeded)
	// A connection is made before anybody accepts it.
	c, err := (&Dialer{Device: n.a}).DialContext(ctx, "tcp", at.String())
	require.NoError(t, err)
	require.NoError(t, l.SetDeadline(time.Time{}))
	s, err := l.Accept()
	require.NoError(t, err)
	require.Equal(t, c.LocalAddr(), s.RemoteAddr())
	require.Equal(t, c.RemoteAddr(), s.LocalAddr())
	require.Equal(t, Network, c.LocalAddr().Network())
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	require.NoError(t, l.Close())
	_, err = (&Dialer{Device: n.a}).DialAddr(ctx, at)
	requireOp(t, err, "dial", syscall.ECONNREFUSED)
}

// A server that accepts and hangs up before the client has taken notice resets the connection.
func TestDialReset(t *testing.T) {
	ctx := testContext(t)
	client, server := openDevice(t, verbs.Config{Polling: true}), openDevice(t, verbs.Config{})
	access.Shard(client).NeverTakeOver()
	a := newAttacker(t, server)
	lid, err := rdmacm.CreateID(a.ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	require.NoError(t, lid.BindAddr(netip.AddrPortFrom(server.Addrs()[0], 0)))
	require.NoError(t, lid.Listen(rdmacm.ListenLimits{}))
	d := Dialer{Device: client}
	c, err := d.begin(ctx, lid.LocalAddr())
	require.NoError(t, err)
	e, err := expect(ctx, a.ch, rdmacm.EventConnectRequest)
	require.NoError(t, err)
	a.equip(e.ID)
	require.NoError(t, e.ID.Accept(connParam(hostileConnData())))
	require.NoError(t, e.ID.Disconnect(nil))
	err = opError("dial", Addr{}, Addr{}, dialError(c.finish(ctx))) // nobody has polled the client's device until now
	requireOp(t, err, "dial", syscall.ECONNRESET)
	require.ErrorIs(t, err, roce.ErrPeerClosed)
}

// More clients than the backlog wait, and get in as Accept makes room; none is
// refused. Those that nobody accepts are told at the end.
func TestBacklog(t *testing.T) {
	n := udpNetwork(t)
	ctx := testContext(t)
	l, err := (&ListenConfig{Device: n.b, Backlog: 2}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	at := l.Addr().(Addr).AddrPort
	const clients, accepted = 8, 5
	results := make(chan error, clients)
	var up atomic.Int32
	for range clients {
		go func() {
			c, err := (&Dialer{Device: n.a}).DialAddr(ctx, at)
			if err == nil {
				up.Add(1)
				_, err = c.Read(make([]byte, 1)) // until the server hangs up
				c.Close()
			}
			results <- err
		}()
	}
	for range accepted {
		s, err := l.AcceptConn()
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.Equal(t, io.EOF, <-results)
	}
	// Two have a place in the backlog, and perhaps one waits for one: a last client stays outside.
	for up.Load() < accepted+2 {
		runtime.Gosched()
	}
	require.NoError(t, l.Close())
	for range clients - accepted {
		err := <-results
		require.True(t,
			err == io.EOF || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET), "%v", err)
	}
}
