package roce

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
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
func portDevice(t *testing.T, f *sim.Fabric, host int) (*verbs.Device, *portLink) {
	l, err := f.Link(rocetest.SimAddr(host))
	require.NoError(t, err)
	p := &portLink{Link: l}
	return rocetest.OpenDevice(t, verbs.Config{Link: p, Rand: f.Rand()}), p
}

// The MTU of the port is that of new connections, of both ways to make them and of
// both sides; a change is told once.
func TestMTUOfNewConnections(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, MTU: ib.MTU4096})
	d, port := portDevice(t, f, 1)
	peer, peerPort := portDevice(t, f, 2)
	ctx := rocetest.Context(t)
	ln, err := (&ListenConfig{ConnConfig: ConnConfig{Device: peer}}).Listen(ctx, rocetest.SimAddr(2).String()+":7000")
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
		c, err := (&Dialer{ConnConfig: ConnConfig{Device: d}}).Dial(ctx, rocetest.SimAddr(2).String()+":7000")
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
	for of, port := range map[*verbs.Device]*portLink{d: port, peer: peerPort} {
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
			require.Equal(t, verbs.Event{Type: verbs.EventPortMTU}, ev)
			require.Equal(t, c.want, of.Port().ActiveMTU)
			require.Equal(t, c.want, conn(), "after the port of %v went to %v", of.Addrs(), c.says)
		}
		port.tell(link.PortState{MTU: ib.MTU4096})
		ev, err := of.AsyncEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, verbs.Event{Type: verbs.EventPortError}, ev, "each change was told once")
		port.tell(link.PortState{Up: true, MTU: ib.MTU4096})
		ev, err = of.AsyncEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, verbs.Event{Type: verbs.EventPortActive}, ev)
	}
}

// Datagrams are bound by the port as it is now.
func TestDatagramsFollowThePort(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, MTU: ib.MTU4096})
	d, port := portDevice(t, f, 1)
	e := rocetest.NewEnd(t, d, 1<<16, verbs.QPInitAttr{Type: verbs.UD})
	require.NoError(t, e.QP.Activate(7))
	ah, err := e.PD.CreateAHTo(ib.GIDFromAddr(rocetest.SimAddr(2)))
	require.NoError(t, err)
	send := func(n int) error {
		return e.QP.PostSend(&verbs.SendWR{
			Opcode: verbs.WRSend, SGList: []verbs.SGE{e.MR.SGE(0, n)}, AH: ah, RemoteQPN: 5, RemoteQKey: 7,
		})
	}
	require.NoError(t, send(4096))
	port.tell(link.PortState{Up: true, MTU: ib.MTU1024})
	require.ErrorIs(t, send(1025), ErrMessageTooLong)
	require.NoError(t, send(1024))
	port.tell(link.PortState{Up: true, MTU: ib.MTU4096})
	require.NoError(t, send(4096))
}
