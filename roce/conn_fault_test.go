package roce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// The peer vanishes without a word: who sends finds out when the silence has lasted as long as it
// was said, or, if nothing was, as the transport's retries last. It is a timeout for net too; and
// nothing is left in the end.
func TestConnPeerVanishes(t *testing.T) {
	for silence, most := range map[time.Duration]time.Duration{
		-1: 5 * time.Second, // 8 times 268 ms and the rest
		0:  DefaultSilence + time.Second, 10 * time.Second: 11 * time.Second,
	} {
		connPeerVanishes(t, silence, most)
	}
}

func connPeerVanishes(t *testing.T, silence, most time.Duration) {
	ctx := rocetest.Context(t)
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{SilenceTimeout: silence})
	require.NoError(t, c.Send(ctx, []byte("all is well")))
	f.Partition(ds[0].Addrs()[0], ds[1].Addrs()[0], true)
	start := f.Now()
	err := c.Send(ctx, []byte("are you there?"))
	var se *StatusError
	require.ErrorAs(t, err, &se)
	require.Equal(t, verbs.WCRetryExcErr, se.WC.Status)
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.True(t, ne.Timeout())
	require.Less(t, f.Now()-start, int64(most))
	require.Greater(t, f.Now()-start, int64(most)*4/10)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	f.RunFor(60e9) // the DREQs are repeated, and given up
	for _, d := range ds {
		n := rdmacm.CountersOf(d).Now
		require.Zero(t, n.Conns+n.Timewait+n.Tables)
	}
}

// mortal is a link that tells of each message of the communication manager before it
// sends it, and that sends nothing once it is dead.
type mortal struct {
	link.Link
	dead    *atomic.Bool
	sending func(a mad.Attribute)
}

func (m *mortal) Unwrap() link.Link { return m.Link }

func (m *mortal) Send(batch []transport.TxPacket) {
	for i := range batch {
		if a, ok := rocetest.CMMessage(&batch[i]); ok {
			m.sending(a)
		}
	}
	if !m.dead.Load() {
		m.Link.Send(batch)
	}
}

// At every step of the handshake in turn either all is cut off, or both sides
// lose patience: Dial and Accept return, and in the end nothing is left.
func TestHandshakeCutShort(t *testing.T) {
	var dead atomic.Bool
	var cancel context.CancelFunc
	cuts := map[string]func(){"dead": func() { dead.Store(true) }, "cancelled": func() { cancel() }}
	for _, step := range []mad.Attribute{mad.AttrREQ, mad.AttrREP, mad.AttrRTU, mad.AttrDREQ, mad.AttrDREP} {
		for how, cut := range cuts {
			t.Run(fmt.Sprintf("%v %s", step, how), func(t *testing.T) {
				dead.Store(false)
				var ctx context.Context
				ctx, cancel = context.WithCancel(rocetest.Context(t))
				var reached atomic.Bool
				f := sim.New(sim.Config{Seed: 1})
				var ds [2]*verbs.Device
				for i := range ds {
					l, err := f.Link(rocetest.SimAddr(i + 1))
					require.NoError(t, err)
					ds[i] = rocetest.OpenDevice(t,
						verbs.Config{Link: l, Rand: f.Rand(), WrapLink: func(l link.Link) (link.Link, error) {
							return &mortal{l, &dead, func(a mad.Attribute) {
								if a == step {
									reached.Store(true)
									cut()
								}
							}}, nil
						}})
				}
				l := listenOn(t, ds[1], ListenConfig{})
				served := make(chan struct{})
				go func() {
					defer close(served)
					if s, err := l.Accept(ctx); err == nil {
						_ = s.Wait(ctx)
						_ = s.Close()
					}
				}()
				d := Dialer{ConnConfig: ConnConfig{Device: ds[0]}}
				c, err := d.DialAddr(ctx, l.Addr())
				switch early := step == mad.AttrREQ || step == mad.AttrREP; {
				case early && how == "dead":
					require.ErrorIs(t, err, ErrUnreachable)
				case early:
					require.ErrorIs(t, err, context.Canceled)
				case how == "dead":
					require.NoError(t, err)
				}
				if err == nil {
					if err := c.Send(ctx, nil); step == mad.AttrRTU {
						require.Error(t, err)
					}
					require.NoError(t, c.Close())
				}
				f.RunFor(300e9) // until everybody has given up
				require.True(t, reached.Load(), "the step was never reached")
				cancel()
				<-served
				require.NoError(t, l.Close())
				f.RunFor(300e9)
				for _, d := range ds {
					require.Equal(t, cm.Counts{}, rdmacm.CountersOf(d).Now)
					requireNothing(t, d)
				}
			})
		}
	}
}

// Beyond the backlog requests wait in the network, and get in as there is room.
func TestListenBacklog(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	s, c := rocetest.PeerOn(t, ds[1]), rocetest.PeerOn(t, ds[0])
	id, err := rdmacm.CreateID(s.Ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	require.NoError(t, id.BindAddr(netip.AddrPortFrom(s.D.Addrs()[0], 3)))
	require.NoError(t, id.Listen(rdmacm.ListenLimits{Backlog: 2}))
	var ids []*rdmacm.ID
	for range 6 {
		x := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, id.LocalAddr())
		require.NoError(t, x.Connect(nil))
		ids = append(ids, x)
	}
	rocetest.Fabric(ds[0]).RunFor(1e6)
	require.Equal(t, 2, rdmacm.CountersOf(s.D).Now.Waiting)
	for up := 0; up < len(ids); {
		e, err := s.Ch.Get(ctx)
		require.NoError(t, err)
		switch e.Type {
		case rdmacm.EventConnectRequest:
			s.AddQP(t, e.ID)
			require.NoError(t, e.ID.Accept(nil))
		case rdmacm.EventEstablished:
			up++
		default:
			t.Fatal(e.Type)
		}
	}
	for range ids {
		c.Next(t, ctx, rdmacm.EventEstablished)
	}
	require.NotZero(t, rdmacm.CountersOf(s.D).Stats.DropBacklog)
}

// A run with connections depends on the seed alone.
func TestCMDeterministic(t *testing.T) {
	run := func() string {
		ctx := rocetest.Context(t)
		f := sim.New(sim.Config{Seed: 12, Faults: sim.Faults{Loss: 0.2, Duplicate: 0.2, Reorder: 0.2}})
		ds := rocetest.SimDevices(t, f, 2)
		c, s := rocetest.PeerOn(t, ds[0]), rocetest.PeerOn(t, ds[1])
		lid := s.Listen(t, rdmacm.PortSpaceTCP, 3)
		for range 5 {
			cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
			sid := c.Connect(t, ctx, cid, s)
			require.NoError(t, cid.Disconnect(nil))
			c.Next(t, ctx, rdmacm.EventDisconnected)
			s.Next(t, ctx, rdmacm.EventDisconnected)
			require.NoError(t, cid.Close())
			require.NoError(t, sid.Close())
		}
		return fmt.Sprintf("%d %+v %+v", f.Now(), f.Stats(), rdmacm.CountersOf(ds[1]).Stats)
	}
	require.Equal(t, run(), run())
}

// What is no message of the communication manager is dropped, counted, and not answered; what is
// one, but about nothing, is answered where the other side waits for it.
func TestGSIUnknownClasses(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	s, c := rocetest.PeerOn(t, ds[1]), rocetest.PeerOn(t, ds[0])
	s.Listen(t, rdmacm.PortSpaceTCP, 3)
	// The sender is an ordinary UD queue pair: it is not QP 1, and so not even looked at.
	c.QP, _ = c.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UD, SendCQ: c.CQ, QPN: 1})
	require.NotNil(t, c.QP, "QP 1 is free as long as the manager is not used")
	require.NoError(t, c.QP.Activate(0x80010000))
	ah, err := c.PD.CreateAHTo(ib.GIDFromAddr(s.D.Addrs()[0]))
	require.NoError(t, err)
	send := func(h mad.Header) {
		var b [mad.Bytes]byte
		h.Put(&b)
		copy(c.Buf, b[:])
		require.NoError(t, c.QP.PostSend(&verbs.SendWR{
			Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{c.MR.SGE(0, len(b))}, AH: ah,
			RemoteQPN: 1, RemoteQKey: 0x80010000,
		}))
		c.Wait(t, ctx)
		rocetest.Fabric(ds[0]).RunFor(1e6)
	}
	good := mad.CMHeader(mad.AttrRTU, 1)
	for _, change := range []func(h *mad.Header){
		func(h *mad.Header) { h.Class = mad.ClassPerf },
		func(h *mad.Header) { h.Class = mad.ClassSubnAdm },
		func(h *mad.Header) { h.ClassVersion = 1 },
		func(h *mad.Header) { h.Method = mad.MethodGet },
		func(h *mad.Header) { h.Attribute = mad.AttrClassPortInfo },
		func(h *mad.Header) { h.Attribute = 0x001B },
	} {
		h := good
		change(&h)
		send(h)
	}
	st := rdmacm.CountersOf(s.D).Stats
	require.EqualValues(t, 6, st.DropClass)
	h := good
	h.BaseVersion = 2
	send(h)
	require.EqualValues(t, 1, rdmacm.CountersOf(s.D).Stats.DropMalformed)
	require.Zero(t, s.D.Counters().SentPkts, "no answer to any of them")
	send(mad.CMHeader(mad.AttrDREQ, 1))
	require.EqualValues(t, 1, s.D.Counters().SentPkts, "a DREQ is always answered")
	_, err = rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
	var oe *OpenError
	require.ErrorAs(t, err, &oe, "the application has taken QP 1")
}

// Connections are closed while others work on them: no panic, no hang, typed errors.
func TestConnCloseRaces(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	for i := range 30 {
		c, s := connPair(t, ds[0], ds[1], ConnConfig{RecvDepth: 2})
		mr, err := s.Register(make([]byte, 4096), verbs.AccessAll)
		require.NoError(t, err)
		remote := mr.Remote()
		var wg sync.WaitGroup
		ok := func(err error) {
			var se *StatusError
			if err != nil && err != io.EOF && !errors.Is(err, net.ErrClosed) &&
				!errors.Is(err, ErrPeerClosed) && !errors.Is(err, ErrPeerGone) && !errors.As(err, &se) {
				t.Errorf("%v", err)
			}
		}
		for _, f := range []func() error{
			func() error { return c.Write(ctx, make([]byte, 4096), remote) },
			func() error { return c.Read(ctx, make([]byte, 4096), remote) },
			func() error { return c.Send(ctx, make([]byte, 300)) },
			func() error { _, err := s.Recv(ctx, make([]byte, 300)); return err },
			func() error { _, err := c.Recv(ctx, nil); return err },
		} {
			wg.Go(func() {
				for {
					if err := f(); err != nil {
						ok(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for range i {
				_ = c.Send(ctx, nil)
			}
			if i%2 == 0 {
				ok(c.Close())
			} else {
				ok(s.Close())
			}
		})
		wg.Wait()
	}
}

// The ACK timeout that a client asks for is the server's too, but not one of hours.
func TestCMAckTimeoutOfPeer(t *testing.T) {
	for asked, want := range map[ib.TimeoutCode]ib.TimeoutCode{0: 16, 14: 14, 21: 21, 31: 21} {
		ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
		p := rdmacm.DefaultConnParam()
		p.AckTimeout = asked
		_, s := connPair(t, ds[0], ds[1], ConnConfig{Param: &p})
		attr, _, err := s.QP().Query()
		require.NoError(t, err)
		require.Equal(t, want, attr.Timeout)
	}
}
