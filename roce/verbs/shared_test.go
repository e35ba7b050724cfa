package verbs

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// crowd is clients that each send numbered messages to a queue pair of a server.
type crowd struct {
	t       *testing.T
	clients []*end
	num     map[ib.QPN]int // index of the client, by the server's queue pair
}

// newCrowd connects a client, on a device and a vector of its own, to each queue pair.
func newCrowd(t *testing.T, servers []*QP, attr *ConnAttr) *crowd {
	c := &crowd{t: t, num: map[ib.QPN]int{}}
	d := openDevice(t, Config{Shards: 2})
	for i, qp := range servers {
		e := endOnVector(t, d, i%2, 8, QPInitAttr{})
		require.NoError(t, e.qp.Connect(qp.LocalInfo(0), attr))
		require.NoError(t, qp.Connect(e.qp.LocalInfo(0), attr))
		c.clients = append(c.clients, e)
		c.num[qp.Num()] = i
	}
	return c
}

// run has each client send messages 0 to n-1.
func (c *crowd) run(ctx context.Context, n int) *sync.WaitGroup {
	wg := new(sync.WaitGroup)
	for i, e := range c.clients {
		wg.Go(func() {
			for k := range n {
				if err := e.sendNumber(ctx, uint64(k)); err != nil {
					c.t.Errorf("client %d, message %d: %v", i, k, err)
					return
				}
			}
		})
	}
	return wg
}

func (e *end) sendNumber(ctx context.Context, k uint64) error {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], k)
	if err := e.qp.PostSend(&SendWR{Opcode: WRSend, Flags: SendSignaled | SendInline, Inline: b[:]}); err != nil {
		return err
	}
	var wcs [1]WC
	if _, err := e.cq.Wait(ctx, wcs[:]); err != nil {
		return err
	}
	return WCError(&wcs[0])
}

// One completion queue and one shared receive queue serve queue pairs of all shards: each message
// comes once, in the order of its connection, whichever way the application waits.
func TestSharedQueues(t *testing.T) {
	const shards, depth = 4, 64
	messages := 200
	if testing.Short() {
		messages = 50 // more than depth, of all connections
	}
	take := map[string]func(ctx context.Context, ch *CompletionChannel, cq *CQ, wcs []WC) (int, error){
		"wait": func(ctx context.Context, _ *CompletionChannel, cq *CQ, wcs []WC) (int, error) {
			return cq.Wait(ctx, wcs)
		},
		"poll": func(ctx context.Context, _ *CompletionChannel, cq *CQ, wcs []WC) (int, error) {
			for ctx.Err() == nil {
				if n, err := cq.Poll(wcs); n > 0 || err != nil {
					return n, err
				}
			}
			return 0, ctx.Err()
		},
		"channel": func(ctx context.Context, ch *CompletionChannel, cq *CQ, wcs []WC) (int, error) {
			for {
				if n, err := cq.Poll(wcs); n > 0 || err != nil {
					return n, err
				}
				if err := cq.RequestNotify(false); err != nil {
					return 0, err
				}
				if n, err := cq.Poll(wcs); n > 0 || err != nil {
					return n, err
				}
				if _, err := ch.Get(ctx); err != nil {
					return 0, err
				}
			}
		},
	}
	for _, polling := range []bool{false, true} {
		for name, take := range take {
			t.Run(fmt.Sprintf("%s, polling=%v", name, polling), func(t *testing.T) {
				if testing.Short() && polling != (name == "poll") {
					t.Skip("-short: each way to wait on a device that suits it")
				}
				ctx := testContext(t)
				d := openDevice(t, Config{Shards: shards, Polling: polling})
				pd, err := d.AllocPD()
				require.NoError(t, err)
				ch, err := d.CreateCompletionChannel()
				require.NoError(t, err)
				cq, err := d.CreateCQ(4*shards*messages, &CQOptions{Channel: ch, Vector: 1})
				require.NoError(t, err)
				srq, err := pd.CreateSRQ(SRQAttr{MaxWR: depth})
				require.NoError(t, err)
				buf := make([]byte, 8*depth)
				mr, err := pd.RegisterMR(buf, LocalWrite, nil)
				require.NoError(t, err)
				post := func(id uint64) error {
					return srq.PostRecv(&RecvWR{ID: id, SGList: []SGE{mr.SGE(int(8*id), 8)}})
				}
				for i := range uint64(depth) {
					require.NoError(t, post(i))
				}
				var servers []*QP
				for v := range shards {
					own, err := d.CreateCQ(16, &CQOptions{Vector: v})
					require.NoError(t, err)
					for range 2 {
						qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: own, RecvCQ: cq, SRQ: srq})
						require.NoError(t, err)
						require.Same(t, own.s, qp.s)
						servers = append(servers, qp)
					}
				}
				c := newCrowd(t, servers, patient())
				sending := c.run(ctx, messages)
				next := make([]uint64, len(servers))
				wcs := make([]WC, 16)
				for left := messages * len(servers); left > 0; {
					n, err := take(ctx, ch, cq, wcs)
					require.NoError(t, err)
					left -= n
					for i := range wcs[:n] {
						require.NoError(t, WCError(&wcs[i]))
						from, ok := c.num[wcs[i].QPN]
						require.True(t, ok)
						require.Equal(t, next[from], binary.BigEndian.Uint64(buf[8*wcs[i].ID:]))
						next[from]++
						require.NoError(t, post(wcs[i].ID))
					}
				}
				sending.Wait()

				// What others use is not closed before these.
				require.ErrorIs(t, cq.Close(), ErrBusy)
				require.ErrorIs(t, srq.Close(), ErrBusy)
				for _, qp := range servers {
					require.NoError(t, qp.Close())
				}
				require.NoError(t, srq.Close())
				require.NoError(t, cq.Close())
			})
		}
	}
}

// The limit of a shared receive queue is told once, whichever shard takes the receive that goes
// below it, and a completion queue that overflows fails the queue pairs of all shards.
func TestSharedQueueEvents(t *testing.T) {
	ctx := testContext(t)
	d := openDevice(t, Config{Shards: 2})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	recv, err := d.CreateCQ(1, &CQOptions{Vector: 0})
	require.NoError(t, err)
	srq, err := pd.CreateSRQ(SRQAttr{MaxWR: 16})
	require.NoError(t, err)
	buf := make([]byte, 8)
	mr, err := pd.RegisterMR(buf, LocalWrite, nil)
	require.NoError(t, err)
	for range 8 {
		require.NoError(t, srq.PostRecv(&RecvWR{SGList: []SGE{mr.SGE(0, 8)}}))
	}
	require.NoError(t, srq.Modify(8, -1))
	var servers []*QP
	for v := range 2 {
		own, err := d.CreateCQ(16, &CQOptions{Vector: v})
		require.NoError(t, err)
		qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: own, RecvCQ: recv, SRQ: srq})
		require.NoError(t, err)
		servers = append(servers, qp)
	}
	c := newCrowd(t, servers, nil)
	require.NoError(t, c.clients[1].sendNumber(ctx, 0))
	ev, err := d.AsyncEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, Event{Type: EventSRQLimitReached, SRQ: srq}, ev)

	// The queue has room for one completion, and nobody takes it.
	for i := 0; ; i++ {
		if err := c.clients[i%2].sendNumber(ctx, 0); err != nil {
			break
		}
		require.Less(t, i, 8)
	}
	seen := map[EventType]int{}
	for seen[EventCQError] == 0 || seen[EventQPFatal] == 0 {
		ev, err := d.AsyncEvent(ctx)
		require.NoError(t, err)
		if ev.CQ != nil {
			require.Same(t, recv, ev.CQ)
		}
		seen[ev.Type]++
	}
}
