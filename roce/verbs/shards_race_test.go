package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// patient are the attributes of connections with an ACK timeout of 1 s: nothing is lost where they
// are used, and each shard has a thread, which a busy machine may keep waiting.
func patient() *ConnAttr { return withTimeout(18, 7) }

// Several shards a side, over real sockets: all directions at once, each connection on a vector of
// its own.
func TestShardsConcurrentConnections(t *testing.T) {
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			cfg := Config{Shards: 4, Polling: polling}
			da, db := openDevice(t, cfg), openDevice(t, cfg)
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var wg sync.WaitGroup
			const region = 1 << 15
			for i := range 8 {
				from, to := da, db
				if i%2 == 1 {
					from, to = db, da
				}
				x, y := endOnVector(t, from, i%4, region, QPInitAttr{}),
					endOnVector(t, to, (i+i/4)%4, region, QPInitAttr{})
				connect(t, x, y, patient())
				wg.Go(func() {
					if err := traffic(ctx, x, y, uint64(i)); err != nil {
						t.Errorf("connection %d: %v", i, err)
						cancel()
					}
				})
			}
			wg.Wait()
		})
	}
}

// Memory is not touched any more when Close of its region has returned, while peers write to it
// through all shards.
func TestDeregisterUnderTraffic(t *testing.T) {
	ctx := testContext(t)
	const shards, size = 4, 1 << 14
	d, peer := openDevice(t, Config{Shards: shards}), openDevice(t, Config{Shards: shards})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	for round := range 5 {
		buf := make([]byte, size)
		var released atomic.Bool
		mr, err := pd.RegisterMR(buf, AccessAll, &MROptions{OnRelease: func() { released.Store(true) }})
		require.NoError(t, err)
		to := mr.Remote()
		var writers sync.WaitGroup
		started := make(chan struct{}, shards)
		for v := range shards {
			cq, err := d.CreateCQ(16, &CQOptions{Vector: v})
			require.NoError(t, err)
			qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
			require.NoError(t, err)
			w := endOnVector(t, peer, v, size/shards, QPInitAttr{})
			require.NoError(t, w.qp.Connect(qp.LocalInfo(0), patient()))
			require.NoError(t, qp.Connect(w.qp.LocalInfo(0), patient()))
			fill(w.buf, uint64(round+1))
			writers.Go(func() {
				var wcs [1]WC
				for i := 0; ; i++ {
					if i == 3 {
						started <- struct{}{}
					}
					err := w.qp.PostSend(&SendWR{
						Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{w.mr.SGE(0, size/shards)},
						RemoteAddr: to.Addr + uint64(v*size/shards), RKey: to.RKey,
					})
					if err == nil {
						_, err = w.cq.Wait(ctx, wcs[:])
					}
					if err != nil {
						t.Error(err)
						return
					}
					if wcs[0].Status != WCSuccess {
						if wcs[0].Status != WCRemoteAccessErr {
							t.Errorf("%v", WCError(&wcs[0]))
						}
						return
					}
				}
			})
		}
		for range shards {
			<-started
		}
		require.NoError(t, mr.Close())
		require.True(t, released.Load())
		clear(buf) // ours again: the race detector sees who else writes
		writers.Wait()
		require.Equal(t, make([]byte, size), buf)
	}
}

// Datagrams and multicast work on shards other than the first, with one address handle for all.
func TestShardsDatagrams(t *testing.T) {
	const shards = 3
	const qkey = 0x1111
	run := func(t *testing.T, d, peer *Device) {
		ctx := testContext(t)
		from := endOnVector(t, peer, 0, 2048, QPInitAttr{Type: UD})
		require.NoError(t, from.qp.Activate(qkey))
		ah, err := from.pd.CreateAHTo(d.GIDs()[0])
		require.NoError(t, err)
		pd, err := d.AllocPD()
		require.NoError(t, err)
		back, err := pd.CreateAHTo(peer.GIDs()[0])
		require.NoError(t, err)
		var ends []*end
		for v := range shards {
			e := endOnVector(t, d, v, 2048, QPInitAttr{Type: UD})
			require.NoError(t, e.qp.Activate(qkey))
			ends = append(ends, e)
			answering, err := pd.CreateQP(QPInitAttr{Type: UD, SendCQ: e.cq, Caps: QPCaps{MaxInline: 64}})
			require.NoError(t, err)
			require.NoError(t, answering.Activate(qkey))

			require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 1024)}}))
			require.NoError(t, from.qp.PostSend(&SendWR{
				Opcode: WRSend, Flags: SendSignaled | SendInline, Inline: []byte("ask"), AH: ah,
				RemoteQPN: e.qp.Num(), RemoteQKey: qkey,
			}))
			from.wait(t, ctx)
			require.EqualValues(t, 43, e.wait(t, ctx).ByteLen)
			require.Equal(t, "ask", string(e.buf[40:43]))

			require.NoError(t, from.qp.PostRecv(&RecvWR{SGList: []SGE{from.mr.SGE(0, 1024)}}))
			require.NoError(t, answering.PostSend(&SendWR{
				Opcode: WRSend, Flags: SendSignaled | SendInline, Inline: []byte{byte(v)}, AH: back,
				RemoteQPN: from.qp.Num(), RemoteQKey: qkey,
			}))
			e.wait(t, ctx)
			require.Equal(t, answering.Num(), from.wait(t, ctx).SrcQP)
			require.Equal(t, byte(v), from.buf[40])
			defer func() {
				// A handle that is closed is refused on every shard.
				var op *OpError
				require.ErrorAs(t, answering.PostSend(&SendWR{
					Opcode: WRSend, Flags: SendInline, Inline: []byte{1}, AH: back, RemoteQPN: from.qp.Num(),
					RemoteQKey: qkey,
				}), &op)
			}()
		}
		require.NoError(t, back.Close())
		require.NoError(t, back.Close())

		group := ib.GIDFromAddr(netip.MustParseAddr("239.7.7.7"))
		for _, e := range ends {
			require.NoError(t, e.qp.AttachMulticast(group, 0))
			require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 1024)}}))
		}
		many, err := from.pd.CreateAHTo(group)
		require.NoError(t, err)
		require.NoError(t, from.qp.PostSend(&SendWR{
			Opcode: WRSend, Flags: SendSignaled | SendInline, Inline: []byte("all"), AH: many,
			RemoteQPN: ib.QPNMulticast, RemoteQKey: qkey,
		}))
		from.wait(t, ctx)
		for _, e := range ends {
			require.EqualValues(t, 43, e.wait(t, ctx).ByteLen)
			require.Equal(t, "all", string(e.buf[40:43]))
			require.NoError(t, e.qp.DetachMulticast(group, 0))
		}
	}
	t.Run("sim", func(t *testing.T) {
		f := sim.New(sim.Config{Seed: 1})
		run(t, simDevice(t, f, 1, shards), simDevice(t, f, 2, 1))
	})
	t.Run("udp", func(t *testing.T) {
		run(t, openDevice(t, Config{Shards: shards}), openDevice(t, Config{}))
	})
}

// Close of a device ends all shards while goroutines post, poll, wait, register and make objects on
// them, and tells each of them.
func TestCloseShardsInUse(t *testing.T) {
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			const shards = 4
			ctx := testContext(t)
			d, peer := openDevice(t, Config{Shards: shards, Polling: polling}), openDevice(t, Config{Shards: 2})
			var busy sync.WaitGroup
			started := make(chan struct{}, 100)
			do := func(f func() error) {
				busy.Go(func() {
					for i := 0; ; i++ {
						err := f()
						if i == 3 || err != nil {
							started <- struct{}{}
						}
						if err != nil {
							if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrQueueFull) {
								t.Errorf("%v", err)
							}
							return
						}
					}
				})
			}
			workers := 0
			for v := range shards {
				e, p := endOnVector(t, d, v, 1<<14, QPInitAttr{}), endOnVector(t, peer, v%2, 1<<14, QPInitAttr{})
				connect(t, e, p)
				var wcs [8]WC
				do(func() error {
					err := e.qp.PostSend(&SendWR{
						Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{e.mr.SGE(0, 9000)},
						RemoteAddr: p.mr.Addr(), RKey: p.mr.RKey(),
					})
					if err == nil {
						_, err = e.cq.Wait(ctx, wcs[:])
					}
					return err
				})
				do(func() error {
					cq, err := d.CreateCQ(1, &CQOptions{Vector: v})
					if err == nil {
						err = cq.Close()
					}
					return err
				})
				workers += 2
			}
			pd, err := d.AllocPD()
			require.NoError(t, err)
			do(func() error {
				mr, err := pd.RegisterMR(make([]byte, 64), LocalWrite, nil)
				if err == nil {
					err = mr.Close()
				}
				return err
			})
			do(func() error { d.Counters(); d.LinkStats(); d.MemCounts(); d.Port(); return d.closedOr() })
			workers += 2
			busy.Go(func() {
				if _, err := d.AsyncEvent(ctx); !errors.Is(err, ErrClosed) {
					t.Errorf("%v", err)
				}
			})
			for range workers {
				<-started
			}
			require.NoError(t, d.Close())
			busy.Wait()
			require.Zero(t, d.MemCounts())
		})
	}
}

func (d *Device) closedOr() error {
	if d.isClosed() {
		return d.closedErr()
	}
	return nil
}

// breakable is a link of which another one breaks when it is told to.
type breakable struct {
	link.Link
	link.Slotted
	another chan *brokenLink
}

func (l *breakable) Another() (link.Link, error) {
	o, err := l.Slotted.Another()
	b := &brokenLink{Link: o}
	l.another <- b
	return b, err
}

// A link that fails closes the whole device, whichever shard's it is; who waits learns why.
func TestShardLinkFailure(t *testing.T) {
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			another := make(chan *brokenLink, 1)
			d := openDevice(t, Config{Shards: 2, Polling: polling, WrapLink: func(l link.Link) (link.Link, error) {
				return &breakable{l, l.(link.Slotted), another}, nil
			}})
			e := endOnVector(t, d, 1, 64, QPInitAttr{})
			first, err := d.CreateCQ(1, nil)
			require.NoError(t, err)
			bl := <-another
			bl.broken.Store(true)
			bl.Wake()
			var wcs [1]WC
			for _, cq := range []*CQ{e.cq, first} {
				_, err := cq.Wait(testContext(t), wcs[:])
				require.ErrorIs(t, err, ErrClosed)
				require.ErrorIs(t, err, errBroken)
			}
			require.ErrorIs(t, e.qp.PostSend(&SendWR{}), errBroken)
			_, err = d.CreateCQ(1, nil)
			require.ErrorIs(t, err, errBroken)
			_, err = d.CreateCQ(1, &CQOptions{Vector: 1})
			require.ErrorIs(t, err, errBroken)
		})
	}
}
