package roce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// places are the networks that connections are tested on; each makes n devices
// that reach each other.
var places = []struct {
	name string
	open func(t testing.TB, n int) []*verbs.Device
}{
	{"udp", func(t testing.TB, n int) []*verbs.Device { return openDevices(t, n, verbs.Config{}) }},
	{"polling", func(t testing.TB, n int) []*verbs.Device {
		ds := openDevices(t, n, verbs.Config{Polling: true})
		keepPolling(t, ds)
		return ds
	}},
	{"sim", func(t testing.TB, n int) []*verbs.Device {
		return rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), n)
	}},
	{"lossy sim", func(t testing.TB, n int) []*verbs.Device {
		return rocetest.SimDevices(t,
			sim.New(sim.Config{Seed: 2, Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.05}}), n)
	}},
	{"udp, 3 shards", func(t testing.TB, n int) []*verbs.Device {
		return notFirst(openDevices(t, n, verbs.Config{Shards: 3}))
	}},
	{"sim, 3 shards", func(t testing.TB, n int) []*verbs.Device {
		return notFirst(rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), n, 3))
	}},
}

// notFirst has the next connection of each device be on another shard than the first one, which has
// the communication manager.
func notFirst(ds []*verbs.Device) []*verbs.Device {
	for _, d := range ds {
		access.NextVector(d)
	}
	return ds
}

// keepPolling moves devices that move only when somebody polls.
func keepPolling(t testing.TB, ds []*verbs.Device) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, d := range ds {
				if s := access.Shard(d); !s.Closed() {
					s.Poll(shard.Never)
				}
			}
			runtime.Gosched()
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

func openDevices(t testing.TB, n int, cfg verbs.Config) []*verbs.Device {
	ds := make([]*verbs.Device, n)
	for i := range ds {
		ds[i] = rocetest.OpenDevice(t, cfg)
	}
	return ds
}

// everywhere runs a test on two devices of each place.
func everywhere(t *testing.T, f func(t *testing.T, a, b *verbs.Device)) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			ds := p.open(t, 2)
			f(t, ds[0], ds[1])
		})
	}
}

// listenOn listens at a free port of a device.
func listenOn(t testing.TB, d *verbs.Device, lc ListenConfig) *Listener {
	lc.Device = d
	l, err := lc.ListenAddr(netip.AddrPortFrom(d.Addrs()[0], 0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// connPair connects two devices.
func connPair(t testing.TB, a, b *verbs.Device, cc ConnConfig) (client, server *Conn) {
	ctx := rocetest.Context(t)
	l := listenOn(t, b, ListenConfig{ConnConfig: cc})
	got := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	d := Dialer{ConnConfig: cc}
	d.Device = a
	client, err := d.DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	server = <-got
	require.NotNil(t, server)
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	})
	return client, server
}

// both runs two functions at once and waits for them.
func both(f, g func()) {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); f() }()
	g()
	wg.Wait()
}

func TestConnMessages(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		require.Equal(t, c.LocalAddr(), s.RemoteAddr())
		require.Equal(t, c.RemoteAddr(), s.LocalAddr())
		sizes := []int{0, 1, connInline, connInline + 1, 1024, DefaultRecvBytes}
		both(func() {
			buf := make([]byte, DefaultRecvBytes)
			for range 20 * len(sizes) {
				n, err := s.Recv(ctx, buf)
				if err == nil {
					err = s.Send(ctx, buf[:n])
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}, func() {
			buf, out := make([]byte, DefaultRecvBytes), make([]byte, DefaultRecvBytes)
			for i := range 20 * len(sizes) {
				n := sizes[i%len(sizes)]
				rocetest.Fill(out[:n], uint64(i))
				require.NoError(t, c.Send(ctx, out[:n]))
				got, err := c.Recv(ctx, buf)
				require.NoError(t, err)
				require.Equal(t, out[:n], buf[:got])
			}
		})
	})
}

// Messages that nobody reads fill the buffers; then the sender waits, and all arrive in order.
func TestConnBackPressure(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		const total = 500
		c, s := connPair(t, a, b, ConnConfig{RecvDepth: 4, SendDepth: 3})
		both(func() {
			for i := range total {
				if err := c.SendImm(ctx, fmt.Appendf(nil, "message %d", i), uint32(i)); err != nil {
					t.Error(err)
					return
				}
			}
		}, func() {
			for i := range total {
				m, err := s.RecvMsg(ctx)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("message %d", i), string(m.Bytes()))
				require.True(t, m.HasImm)
				require.EqualValues(t, i, m.Imm)
				require.NoError(t, m.Release())
				require.NoError(t, m.Release(), "a second time does nothing")
			}
		})
	})
}

func TestConnShortBuffer(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{}), 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	require.NoError(t, c.Send(ctx, []byte("twelve bytes")))
	n, err := s.Recv(ctx, make([]byte, 5))
	require.ErrorIs(t, err, io.ErrShortBuffer)
	require.Equal(t, 12, n)
	buf := make([]byte, 12)
	n, err = s.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, "twelve bytes", string(buf[:n]))
}

func TestConnMemory(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		target := make([]byte, 3*connChunk+17)
		mr, err := s.Register(target, verbs.AccessAll)
		require.NoError(t, err)
		remote := mr.Remote()
		key, err := remote.MarshalBinary()
		require.NoError(t, err)
		var parsed RemoteMemory
		require.NoError(t, parsed.UnmarshalBinary(key))
		require.Equal(t, remote, parsed)

		for _, n := range []int{0, 1, connInline, 5000, connChunk, connChunk + 1, len(target)} {
			out, back := make([]byte, n), make([]byte, n)
			rocetest.Fill(out, uint64(n))
			require.NoError(t, c.Write(ctx, out, remote), "%d", n)
			require.NoError(t, c.Read(ctx, back, remote))
			require.True(t, bytes.Equal(out, back), "%d bytes", n)
			s.QP().State() // a lock between the device that wrote and us
			require.True(t, bytes.Equal(out, target[:n]), "%d bytes", n)
			s.QP().State() // and the other way round
		}
		clear(target[:16])
		s.QP().State()
		old, err := c.FetchAdd(ctx, remote.Slice(8, 8), 40)
		require.NoError(t, err)
		require.Zero(t, old)
		old, err = c.CompareSwap(ctx, remote.Slice(8, 8), 40, 42)
		require.NoError(t, err)
		require.EqualValues(t, 40, old)
		old, err = c.CompareSwap(ctx, remote.Slice(8, 8), 40, 43)
		require.NoError(t, err)
		require.EqualValues(t, 42, old)

		var ae *ArgError
		require.ErrorAs(t, c.Write(ctx, make([]byte, 10), remote.Slice(0, 9)), &ae)
		require.ErrorAs(t, c.Read(ctx, make([]byte, 10), remote.Slice(0, 9)), &ae)
		_, err = c.FetchAdd(ctx, remote.Slice(0, 7), 1)
		require.ErrorAs(t, err, &ae)
		_, buffers := c.pool.Stats()
		require.Zero(t, buffers, "all are back")
	})
}

func TestConnAsync(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{SendDepth: 8})
		target := make([]byte, 1<<16)
		tm, err := s.Register(target, verbs.AccessAll)
		require.NoError(t, err)
		local := make([]byte, 1<<16)
		lm, err := c.Register(local, verbs.LocalWrite)
		require.NoError(t, err)
		rocetest.Fill(local, 5)
		var ps []*Pending
		for off := 0; off < len(local); off += 1024 { // more than fit the queue
			p, err := c.StartWrite(ctx, tm.Remote().Slice(off, 1024), lm.SGE(off, 1024))
			require.NoError(t, err)
			ps = append(ps, p)
		}
		p, err := c.StartWriteImm(ctx, tm.Remote().Slice(0, 0), 7)
		require.NoError(t, err)
		for _, p := range append(ps, p) {
			require.NoError(t, p.Wait(ctx))
			require.True(t, p.Done())
		}
		m, err := s.RecvMsg(ctx)
		require.NoError(t, err)
		require.True(t, m.Written && m.HasImm && m.Imm == 7)
		require.NoError(t, m.Release())
		require.Equal(t, local, target)
		clear(local)
		p, err = c.StartRead(ctx, tm.Remote(), lm.SGE(0, len(local)))
		require.NoError(t, err)
		require.NoError(t, p.Wait(ctx))
		require.Equal(t, local, target)

		// A work request of the application's own, on the queue pair.
		require.NoError(t, c.QP().PostSend(&verbs.SendWR{
			ID: 99, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{lm.SGE(0, 3)},
		}))
		wc, err := c.Completion(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 99, wc.ID)
		m, err = s.RecvMsg(ctx)
		require.NoError(t, err)
		require.Equal(t, target[:3], m.Bytes())
	})
}

// The peer may say that it has shared nearly 4 GiB, which is a negative number of
// bytes for a 32-bit processor.
func TestConnHugeRemoteMemory(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	target := make([]byte, 2*connChunk+1)
	mr, err := s.Register(target, verbs.AccessAll)
	require.NoError(t, err)
	remote := mr.Remote()
	remote.Len = math.MaxUint32
	want, got := make([]byte, len(target)), make([]byte, len(target))
	rocetest.Fill(want, 3)
	require.NoError(t, c.Write(ctx, want, remote))
	require.NoError(t, c.Read(ctx, got, remote))
	require.Equal(t, want, got)
}

// What an operation came to stays what it came to, also when the connection is
// closed before anybody asks.
func TestConnOutcomeAfterClose(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		sent, err := c.Start(ctx, verbs.SendWR{Opcode: verbs.WRSend})
		require.NoError(t, err)
		for !sent.Done() {
			_, err := s.Recv(ctx, nil)
			require.NoError(t, err)
			// Both are complete, in this order, or the second would not be.
			require.NoError(t, c.Send(ctx, nil))
		}
		require.NoError(t, c.Close())
		require.NoError(t, sent.Wait(ctx))
		_, err = c.Start(ctx, verbs.SendWR{Opcode: verbs.WRSend})
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// When the peer closes, what it sent can still be read, and then comes io.EOF;
// who sends is told too.
func TestConnPeerCloses(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		require.NoError(t, c.Send(ctx, []byte("last words")))
		require.NoError(t, c.Close())
		buf := make([]byte, 20)
		n, err := s.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, "last words", string(buf[:n]))
		_, err = s.Recv(ctx, buf)
		require.Equal(t, io.EOF, err)
		_, err = s.RecvMsg(ctx)
		require.Equal(t, io.EOF, err)
		err = s.Send(ctx, []byte("hello?"))
		require.ErrorIs(t, err, ErrPeerClosed)
		require.ErrorIs(t, err, syscall.EPIPE)
		require.NotErrorIs(t, err, net.ErrClosed)
		for _, err := range []error{c.Send(ctx, nil), c.Write(ctx, nil, RemoteMemory{})} {
			require.ErrorIs(t, err, net.ErrClosed)
		}
		_, err = c.Recv(ctx, nil)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = c.Register(make([]byte, 1), verbs.LocalWrite)
		require.Error(t, err)
	})
}

// Close wakes all calls that wait.
func TestConnCloseWakes(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, _ := connPair(t, a, b, ConnConfig{})
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() {
				_, err := c.Recv(ctx, make([]byte, 1))
				errs <- err
			}()
		}
		require.NoError(t, c.Close())
		for range cap(errs) {
			require.ErrorIs(t, <-errs, net.ErrClosed)
		}
	})
}

func TestConnDeadline(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		c, s := connPair(t, a, b, ConnConfig{})
		short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_, err := c.Recv(short, make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		require.True(t, ne.Timeout())
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = c.Recv(cancelled, make([]byte, 1))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		// And the connection is as good as before.
		ctx := rocetest.Context(t)
		require.NoError(t, s.Send(ctx, []byte("x")))
		n, err := c.Recv(ctx, make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// An operation that fails ends the connection, and says why.
func TestConnRemoteError(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		mr, err := s.Register(make([]byte, 64), RemoteRead)
		require.NoError(t, err)
		err = c.Write(ctx, make([]byte, 64), mr.Remote())
		var se *StatusError
		require.ErrorAs(t, err, &se)
		require.Equal(t, verbs.WCRemoteAccessErr, se.WC.Status)
		err = c.Send(ctx, nil)
		require.ErrorAs(t, err, &se)
		require.Equal(t, verbs.WCRemoteAccessErr, se.WC.Status)
		_, err = s.Recv(ctx, nil)
		require.Error(t, err)
	})
}

func TestDialRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		// A device that has used the manager once has it.
		ch, err := rdmacm.CreateEventChannel(b)
		require.NoError(t, err)
		id, err := rdmacm.CreateID(ch, rdmacm.PortSpaceTCP)
		require.NoError(t, err)
		require.NoError(t, id.Close())
		d := Dialer{ConnConfig: ConnConfig{Device: a}}
		_, err = d.DialAddr(ctx, netip.AddrPortFrom(b.Addrs()[0], 1))
		require.ErrorIs(t, err, ErrConnRefused)
		var re *RejectedError
		require.ErrorAs(t, err, &re)
		require.Equal(t, mad.RejectInvalidServiceID, re.Reason)
		requireNothing(t, a)
	})
}

func TestDialUnreachable(t *testing.T) {
	d := rocetest.SimDevices(t, sim.New(sim.Config{}), 1)[0]
	dialer := Dialer{ConnConfig: ConnConfig{Device: d}}
	_, err := dialer.DialAddr(rocetest.Context(t), netip.MustParseAddrPort("10.9.9.9:1"))
	require.ErrorIs(t, err, ErrUnreachable)
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.True(t, ne.Timeout())
	requireNothing(t, d)
}

func TestDialCancelled(t *testing.T) {
	d := rocetest.OpenDevice(t, verbs.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	dialer := Dialer{ConnConfig: ConnConfig{Device: d}}
	_, err := dialer.DialAddr(ctx, netip.AddrPortFrom(rocetest.Silent(t), 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	requireNothing(t, d)
}

// requireNothing checks that nothing is left of connections but their records in
// TIMEWAIT.
func requireNothing(t testing.TB, d *verbs.Device) {
	t.Helper()
	c := rdmacm.CountersOf(d).Now
	require.Zero(t, c.Conns)
	require.Zero(t, c.HalfOpen)
	require.Zero(t, rdmacm.CountersOf(d).Ports)
	m := d.MemCounts()
	require.LessOrEqual(t, m.PDs, 1, "that of queue pair 1, if there was time to make it")
	require.LessOrEqual(t, m.Regions, 1)
}

func TestListenHandshake(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		l := listenOn(t, b, ListenConfig{Handshake: func(r *ConnRequest) error {
			if bytes.HasPrefix(r.PrivateData, []byte("another port")) {
				return &RejectedError{Reason: mad.RejectInvalidServiceID}
			}
			if !bytes.HasPrefix(r.PrivateData, []byte("sesame")) {
				return &RejectedError{PrivateData: []byte("go away")}
			}
			r.Param.PrivateData = []byte("come in")
			return nil
		}})
		go func() {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			_ = c.Send(ctx, c.PrivateData()[:6])
			_, _ = c.Recv(ctx, nil)
			_ = c.Close()
		}()
		p := rdmacm.DefaultConnParam()
		p.PrivateData = []byte("please")
		d := Dialer{ConnConfig: ConnConfig{Device: a, Param: &p}}
		_, err := d.DialAddr(ctx, l.Addr())
		var re *RejectedError
		require.ErrorAs(t, err, &re)
		require.Equal(t, mad.RejectConsumer, re.Reason)
		require.Equal(t, "go away", string(re.PrivateData[:7]))
		require.NotErrorIs(t, err, ErrConnRefused)

		p.PrivateData = []byte("another port")
		_, err = d.DialAddr(ctx, l.Addr())
		require.ErrorAs(t, err, &re)
		require.Equal(t, mad.RejectInvalidServiceID, re.Reason)

		p.PrivateData = []byte("sesame")
		c, err := d.DialAddr(ctx, l.Addr())
		require.NoError(t, err)
		require.Equal(t, "come in", string(c.PrivateData()[:7]))
		buf := make([]byte, 6)
		_, err = c.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, "sesame", string(buf))
		require.NoError(t, c.Close())

		p.PrivateData = make([]byte, rdmacm.MaxConnectPrivate+1)
		_, err = d.DialAddr(ctx, l.Addr())
		require.ErrorIs(t, err, ErrInvalidAttr)
	})
}

func TestListenClosed(t *testing.T) {
	d := rocetest.OpenDevice(t, verbs.Config{})
	l := listenOn(t, d, ListenConfig{})
	_, err := (&ListenConfig{ConnConfig: ConnConfig{Device: d}}).ListenAddr(l.Addr())
	require.ErrorIs(t, err, ErrAddrInUse)
	_, err = (&ListenConfig{ConnConfig: ConnConfig{Device: d}}).ListenAddr(netip.MustParseAddrPort("192.0.2.1:5"))
	require.ErrorIs(t, err, ErrAddrNotLocal)
	errs := make(chan error, 1)
	go func() {
		_, err := l.Accept(rocetest.Context(t))
		errs <- err
	}()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-errs, net.ErrClosed)
	_, err = l.Accept(rocetest.Context(t))
	require.ErrorIs(t, err, net.ErrClosed)
	l, err = (&ListenConfig{ConnConfig: ConnConfig{Device: d}}).ListenAddr(l.Addr())
	require.NoError(t, err, "the port is free again")
	require.NoError(t, l.Close())
}

// Many clients of one listener at once, several goroutines on each connection,
// and nothing left afterwards.
func TestConnMany(t *testing.T) {
	const conns, goroutines, rounds = 40, 4, 10
	ds := openDevices(t, 3, verbs.Config{})
	ctx := rocetest.Context(t)
	lc := ListenConfig{ConnConfig: ConnConfig{Device: ds[0]}}
	l, err := lc.ListenAddr(netip.AddrPortFrom(ds[0].Addrs()[0], 0))
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Add(conns)
	go func() {
		for range conns {
			s, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				defer served.Done()
				defer s.Close()
				for {
					m, err := s.RecvMsg(ctx)
					if err == io.EOF {
						return
					}
					if err == nil {
						err = s.Send(ctx, m.Bytes())
						err = errors.Join(err, m.Release())
					}
					if err != nil {
						if !errors.Is(err, ErrPeerClosed) {
							t.Error(err)
						}
						return
					}
				}
			}()
		}
	}()
	var clients sync.WaitGroup
	for i := range conns {
		clients.Go(func() {
			d := Dialer{ConnConfig: ConnConfig{Device: ds[1+i%2]}}
			c, err := d.DialAddr(ctx, l.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range rounds {
						err := c.Send(ctx, []byte("ping"))
						if err == nil {
							_, err = c.Recv(ctx, make([]byte, 4))
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
	clients.Wait()
	served.Wait()
	require.NoError(t, l.Close())
	for _, d := range ds[1:] {
		requireQuiet(t, d)
	}
}

// requireQuiet waits until the connections of a device have gone their way.
func requireQuiet(t testing.TB, d *verbs.Device) {
	ch, err := rdmacm.CreateEventChannel(d)
	require.NoError(t, err)
	for {
		n := rdmacm.CountersOf(d).Now.Conns
		if n == 0 {
			break
		}
		short, cancel := context.WithTimeout(rocetest.Context(t), time.Millisecond)
		_, _ = ch.Get(short) // nothing comes: it only passes the time
		cancel()
	}
	requireNothing(t, d)
}

// 1,000 connections in a row, with a message each, leave nothing.
func TestConnThousandInARow(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	l := listenOn(t, ds[1], ListenConfig{ConnConfig: ConnConfig{RecvDepth: 1, RecvBytes: 64}})
	d := Dialer{ConnConfig: ConnConfig{Device: ds[0], RecvDepth: 1, RecvBytes: 64}}
	both(func() {
		for range n {
			s, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = s.Recv(ctx, make([]byte, 64))
			if err = errors.Join(err, s.Send(ctx, nil)); err != nil {
				t.Error(err)
			}
			if _, err = s.Recv(ctx, nil); err != io.EOF {
				t.Error(err)
			}
			_ = s.Close()
		}
	}, func() {
		for range n {
			c, err := d.DialAddr(ctx, l.Addr())
			require.NoError(t, err)
			require.NoError(t, c.Send(ctx, []byte("hello")))
			_, err = c.Recv(ctx, nil)
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
	})
	requireQuiet(t, ds[0])
}

// The device closes, and peers are told.
func TestDeviceCloseTellsPeers(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{})
		if l, ok := access.Shard(b).Link().(*sim.Link); ok {
			// The one DREQ is not repeated: the device is gone.
			l.Fabric().SetFaults(a.Addrs()[0], b.Addrs()[0], sim.Faults{})
		}
		require.NoError(t, a.Close())
		_, err := s.Recv(ctx, nil)
		require.Equal(t, io.EOF, err)
		_, err = c.Recv(ctx, nil)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}
