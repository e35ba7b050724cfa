package roce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// A service on four shards has clients on many, of which some leave in the middle of what they do:
// one closes its connection, one its device, one is cut off, one is disconnected by the service.
// The others lose nothing.
func TestShardedService(t *testing.T) {
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			const shards, rounds = 4, 40
			ctx := rocetest.Context(t)
			server := rocetest.OpenDevice(t, verbs.Config{Shards: shards, Polling: polling})
			l := listenOn(t, server, ListenConfig{ConnError: func(*Conn, error) {}})
			served := make(chan error)
			var vectors [shards]atomic.Int32
			serving, stop := context.WithCancel(ctx)
			go func() {
				served <- l.Serve(serving, func(ctx context.Context, c *Conn) error {
					vectors[c.cq.Vector()].Add(1)
					b := make([]byte, 8192)
					for {
						n, err := c.Recv(ctx, b)
						if errors.Is(err, io.EOF) {
							return nil
						}
						if err == nil && string(b[:n]) == "go away" {
							return c.Close()
						}
						if err == nil {
							err = c.Send(ctx, b[:n])
						}
						if err != nil {
							return err
						}
					}
				})
			}()

			dial := func(d *verbs.Device) *Conn {
				c, err := (&Dialer{ConnConfig: ConnConfig{Device: d}}).DialAddr(ctx, l.Addr())
				require.NoError(t, err)
				return c
			}
			echo := func(c *Conn, k int) error {
				out, in := make([]byte, 1+k*97%8000), make([]byte, 8192)
				for i := range out {
					out[i] = byte(k + i)
				}
				if err := c.Send(ctx, out); err != nil {
					return err
				}
				n, err := c.Recv(ctx, in)
				if err == nil && string(in[:n]) != string(out) {
					err = errors.New("another message came back")
				}
				return err
			}

			var dead atomic.Bool
			doomed := rocetest.OpenDevice(t, verbs.Config{Shards: 2})
			cutOff := rocetest.OpenDevice(t, verbs.Config{WrapLink: func(l link.Link) (link.Link, error) {
				return &mortal{l, &dead, func(mad.Attribute) {}}, nil
			}})
			stays := openDevices(t, 2, verbs.Config{Shards: 3})
			var good, bad sync.WaitGroup
			half := make(chan struct{}) // closed when the others are half way
			var passed atomic.Int32
			const goods = 8
			for i := range goods {
				c := dial(stays[i%2])
				good.Go(func() {
					defer c.Close()
					for k := range rounds {
						if k == rounds/2 && passed.Add(1) == goods {
							close(half)
						}
						if k == rounds/2 {
							<-half
						}
						if err := echo(c, k); err != nil {
							t.Errorf("client %d, round %d: %v", i, k, err)
							return
						}
					}
				})
			}
			leave := func(c *Conn, how func() error) {
				bad.Go(func() {
					left := make(chan struct{})
					bad.Go(func() {
						<-half
						if err := how(); err != nil {
							t.Error(err)
						}
						close(left)
					})
					for k := 0; ; k++ {
						if err := echo(c, k); err != nil {
							break // of whatever type: it has been left
						}
					}
					<-left
					_ = c.Close()
				})
			}
			c := dial(stays[0])
			leave(c, c.Close)
			leave(dial(doomed), doomed.Close)
			leave(dial(cutOff), func() error { dead.Store(true); return cutOff.Close() })
			told := dial(stays[1])
			leave(told, func() error { return told.Send(ctx, []byte("go away")) })
			good.Wait()
			bad.Wait()
			for v := range vectors {
				require.NotZero(t, vectors[v].Load(), "vector %d", v)
			}
			stop()
			require.ErrorIs(t, <-served, context.Canceled)
		})
	}
}

// gate is a link with a shutter before what others of its kind have received.
type gate struct {
	link.Link
	link.Slotted
	shut atomic.Bool
	next *gate
}

func newGate(l link.Link) *gate { return &gate{Link: l, Slotted: l.(link.Slotted)} }

func (g *gate) Unwrap() link.Link { return g.Link }

func (g *gate) Another() (link.Link, error) {
	l, err := g.Slotted.Another()
	if err != nil {
		return nil, err
	}
	g.next = newGate(l)
	return g.next, nil
}

func (g *gate) Recv(batch []transport.RxPacket) (int, error) {
	if g.shut.Load() {
		return 0, nil
	}
	return g.Link.Recv(batch)
}

func (g *gate) CaughtUp() bool { return !g.shut.Load() && g.Link.CaughtUp() }

// A peer acknowledges what it got and leaves. Its DREQ comes by the link of the first shard, the
// acknowledgement by another, and however long that one takes, what was acknowledged has succeeded.
func TestDisconnectBehindData(t *testing.T) {
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			ctx := rocetest.Context(t)
			var g *gate
			d := rocetest.OpenDevice(t,
				verbs.Config{Shards: 2, Polling: polling, WrapLink: func(l link.Link) (link.Link, error) {
					g = newGate(l)
					return g, nil
				}})
			notFirst([]*verbs.Device{d})
			c, s := connPair(t, d, rocetest.OpenDevice(t, verbs.Config{}), ConnConfig{})
			require.Equal(t, 1, c.cq.Vector())

			mr, err := c.Register([]byte("last words"), verbs.LocalWrite)
			require.NoError(t, err)
			g.next.shut.Store(true)
			p, err := c.StartSend(ctx, mr.SGE(0, mr.Len()))
			require.NoError(t, err)
			b := make([]byte, 64)
			n, err := s.Recv(ctx, b)
			require.NoError(t, err)
			require.Equal(t, "last words", string(b[:n]))
			require.NoError(t, s.Close())
			for rdmacm.CountersOf(d).Now.Timewait == 0 { // until the DREQ has come
				core.Open(c.id).Over()
				runtime.Gosched()
			}
			g.next.shut.Store(false)
			require.NoError(t, p.Wait(ctx))
			_, err = c.Recv(ctx, b)
			require.ErrorIs(t, err, io.EOF)
		})
	}
}
