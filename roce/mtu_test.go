package roce

import (
	"context"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// portLink is a link of which the test says what its port is.
type portLink struct {
	link.Link
	tell func(link.PortState)
}

func (l *portLink) Unwrap() link.Link { return l.Link }

func (l *portLink) Watch(f func(link.PortState)) {
	l.tell = f
	if f != nil {
		f(link.PortState{Up: true, MTU: ib.MTU4096})
	}
}

// portDevice opens a device whose port the test moves.
func portDevice(t *testing.T, f *sim.Fabric, host int) (*Device, *portLink) {
	l, err := f.Link(simAddr(host))
	require.NoError(t, err)
	p := &portLink{Link: l}
	return openDevice(t, Config{Link: p, Rand: f.Rand()}), p
}

// The MTU of the port is that of new connections, of both ways to make them and of
// both sides; a change is told once.
func TestMTUOfNewConnections(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, MTU: ib.MTU4096})
	d, port := portDevice(t, f, 1)
	peer, peerPort := portDevice(t, f, 2)
	ctx := testContext(t)
	ln, err := (&ListenConfig{ConnConfig: ConnConfig{Device: peer}}).Listen(ctx, simAddr(2).String()+":7000")
	require.NoError(t, err)
	defer ln.Close()
	conn := func() ib.MTU {
		accepted := make(chan *Conn, 1)
		go func() {
			c, err := ln.Accept(ctx)
			if err == nil {
				accepted <- c
			}
			close(accepted)
		}()
		c, err := (&Dialer{ConnConfig: ConnConfig{Device: d}}).Dial(ctx, simAddr(2).String()+":7000")
		require.NoError(t, err)
		a, _, err := c.QP().Query()
		require.NoError(t, err)
		s := <-accepted
		require.NotNil(t, s)
		b, _, err := s.QP().Query()
		require.NoError(t, err)
		require.Equal(t, a.PathMTU, b.PathMTU)
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
		return a.PathMTU
	}
	require.Equal(t, ib.MTU4096, conn())
	for of, port := range map[*Device]*portLink{d: port, peer: peerPort} {
		for _, c := range []struct{ says, want ib.MTU }{
			{ib.MTU1024, ib.MTU1024}, {ib.MTU2048, ib.MTU2048},
			{0, ib.MTU256}, // too small for any packet: the link says the rest
			{ib.MTU4096, ib.MTU4096},
		} {
			for range 2 {
				port.tell(link.PortState{Up: true, MTU: c.says})
			}
			ev, err := of.AsyncEvent(ctx)
			require.NoError(t, err)
			require.Equal(t, Event{Type: EventPortMTU}, ev)
			_, more := of.async.pop()
			require.False(t, more)
			require.Equal(t, c.want, of.Port().ActiveMTU)
			require.Equal(t, c.want, conn(), "after the port of %v went to %v", of.addrs, c.says)
		}
	}
}

// The device on an interface whose MTU shrinks, without privileges or with, uses what
// is left for new connections.
func TestInterfaceMTUShrinks(t *testing.T) {
	for _, name := range []string{"udp", "packet"} {
		t.Run(name, func(t *testing.T) {
			n := linktest.NewNet(t, 9000)
			a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, name, n.A4, true)}), 1<<20, QPInitAttr{})
			b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, name, n.B4, true)}), 1<<20, QPInitAttr{})
			connect(t, a, b)
			write(t, a, b, 1<<20)
			require.Equal(t, ib.MTU4096, a.d.Port().ActiveMTU)
			ctx := testContext(t)
			for _, x := range []struct {
				ns *linktest.Namespace
				e  *end
			}{{n.A, a}, {n.B, b}} {
				x.ns.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
				awaitMTU(t, ctx, x.e.d, ib.MTU1024)
			}
			qa, qb := second(t, a, b)
			q, _, err := qa.Query()
			require.NoError(t, err)
			require.Equal(t, ib.MTU1024, q.PathMTU)
			a.qp, b.qp = qa, qb
			write(t, a, b, 1<<20)
		})
	}
}

// awaitMTU waits for the event that tells of an MTU.
func awaitMTU(t *testing.T, ctx context.Context, d *Device, want ib.MTU) {
	t.Helper()
	for d.Port().ActiveMTU != want {
		ev, err := d.AsyncEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, EventPortMTU, ev.Type)
	}
}

// A connection that was made before goes on with what still passes. A message that does not
// is refused after one timeout, and the error says why.
func TestConnectionOutgrowsInterface(t *testing.T) {
	for _, name := range []string{"udp", "packet"} {
		t.Run(name, func(t *testing.T) {
			n := linktest.NewNet(t, 9000)
			a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, name, n.A4, true)}), 1<<20, QPInitAttr{})
			b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, name, n.B4, true)}), 1<<20, QPInitAttr{})
			connect(t, a, b)
			write(t, a, b, 1<<20)
			n.A.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
			ctx := testContext(t)
			awaitMTU(t, ctx, a.d, ib.MTU1024)
			write(t, a, b, 1400)
			before := a.d.Counters().Timeouts
			requireTooLong(t, ctx, a, b)
			require.LessOrEqual(t, a.d.Counters().Timeouts-before, uint64(3), "with seven retries")
		})
	}
}

// requireTooLong writes what does not fit the path any more.
func requireTooLong(t *testing.T, ctx context.Context, a, b *end) {
	t.Helper()
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 1<<20)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	wc := a.completion(t, ctx)
	require.Equal(t, WCLocalLenErr, wc.Status)
	err := WCError(&wc)
	require.ErrorIs(t, err, syscall.EMSGSIZE)
	require.ErrorContains(t, err, "MTU")
}

// A router with a smaller MTU behind it says so, and the kernel tells the udp link.
func TestRouterHasSmallerMTU(t *testing.T) {
	n := linktest.NewNet(t, 9000)
	far := linktest.NewNamespace(t)
	// A is 10.99.0.1, B the router, and 10.98.0.2 behind it.
	n.B.Run("ip", "link", "add", "narrow", "mtu", "1500", "type", "veth", "peer", "name", "narrow", "mtu", "9000", "netns", far.Path())
	n.B.Run("ip", "addr", "add", "10.98.0.1/24", "dev", "narrow")
	n.B.Run("ip", "link", "set", "narrow", "up")
	n.B.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	far.Run("ip", "addr", "add", "10.98.0.2/24", "dev", "narrow")
	far.Run("ip", "link", "set", "narrow", "up")
	far.Run("ip", "route", "add", "default", "via", "10.98.0.1")
	n.A.Run("ip", "route", "add", "10.98.0.0/24", "via", n.B4.String())
	behind := netip.MustParseAddr("10.98.0.2")
	linktest.AwaitPath(t, n.A, n.A4, far, behind)
	a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, "udp", n.A4, true)}), 1<<20, QPInitAttr{})
	b := newEnd(t, openDevice(t, Config{Link: linkIn(t, far, "udp", behind, true)}), 1<<20, QPInitAttr{})
	connect(t, a, b)
	write(t, a, b, 1400)
	requireTooLong(t, testContext(t), a, b)
	connect2, peer := second(t, a, b)
	a.qp, b.qp = connect2, peer
	write(t, a, b, 1400) // the way is fine
}

// A packet of the path MTU that the peer never acknowledges may be too long for the way:
// the error says that it could be that, and only then.
func TestRetryErrorNamesMTU(t *testing.T) {
	for name, c := range map[string]struct {
		op    WROpcode
		bytes int
		says  bool
	}{
		"long write": {WRWrite, 10_000, true}, "long read": {WRRead, 10_000, true},
		"short write": {WRWrite, 1000, false}, "short read": {WRRead, 1000, false}, "fetch and add": {WRFetchAdd, 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := sim.New(sim.Config{Seed: 1, MTU: ib.MTU4096})
			a, b := simPair(t, f, 1<<16, WithTimeout(8, 2))
			f.SetFaults(simAddr(1), simAddr(2), sim.Faults{Loss: 1})
			require.NoError(t, a.qp.PostSend(&SendWR{
				Opcode: c.op, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, c.bytes)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
			}))
			wc := a.completion(t, testContext(t))
			require.Equal(t, WCRetryExcErr, wc.Status)
			err := WCError(&wc)
			require.ErrorIs(t, err, ErrUnreachable)
			require.NotErrorIs(t, err, syscall.EMSGSIZE)
			require.Equal(t, c.says, strings.Contains(err.Error(), "full path MTU"), err)
		})
	}
}

// Datagrams are bound by the port as it is now.
func TestDatagramsFollowThePort(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, MTU: ib.MTU4096})
	d, port := portDevice(t, f, 1)
	e := newEnd(t, d, 1<<16, QPInitAttr{Type: UD})
	require.NoError(t, e.qp.Activate(7))
	ah, err := e.pd.CreateAHTo(ib.GIDFromAddr(simAddr(2)))
	require.NoError(t, err)
	send := func(n int) error {
		return e.qp.PostSend(&SendWR{Opcode: WRSend, SGList: []SGE{e.mr.SGE(0, n)}, AH: ah.Handle(), RemoteQPN: 5, RemoteQKey: 7})
	}
	require.NoError(t, send(4096))
	port.tell(link.PortState{Up: true, MTU: ib.MTU1024})
	require.ErrorIs(t, send(1025), ErrMessageTooLong)
	require.NoError(t, send(1024))
	port.tell(link.PortState{Up: true, MTU: ib.MTU4096})
	require.NoError(t, send(4096))
}
