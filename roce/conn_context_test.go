package roce

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// A call whose context is over already does nothing: it sends no packet, takes no
// message, no completion, no event and no connection, and leaves nothing behind.
func TestContextOver(t *testing.T) {
	ctx := rocetest.Context(t)
	over, cancel := context.WithCancel(ctx)
	cancel()
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	l := listenOn(t, ds[1], ListenConfig{})
	shut := listenOn(t, ds[1], ListenConfig{})
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	mr, err := c.Register(make([]byte, 4096), verbs.AccessAll)
	require.NoError(t, err)
	theirs, err := s.Share(ctx, make([]byte, 1<<20), RemoteRead|RemoteWrite|RemoteAtomic)
	require.NoError(t, err)
	remote := theirs.Remote()
	channel, err := ds[0].CreateCompletionChannel()
	require.NoError(t, err)
	events, err := rdmacm.CreateEventChannel(ds[0])
	require.NoError(t, err)
	e := rocetest.NewEnd(t, ds[0], 64, verbs.QPInitAttr{})
	dialer := Dialer{ConnConfig: ConnConfig{Device: ds[0]}}
	// For Completion.
	require.NoError(t, c.qp.PostSend(&verbs.SendWR{ID: 7, Opcode: verbs.WRWrite, Flags: verbs.SendSignaled}))
	two := func(_ any, err error) error { return err }
	short, long := make([]byte, 100), make([]byte, 1<<20)
	for {
		n, err := access.Waiting(c.cq).Len(), ctx.Err()
		require.NoError(t, err)
		if n == 2 { // the completion, and the message of Share
			break
		}
		require.True(t, access.Shard(ds[0]).Step())
	}
	sent := func() uint64 { return ds[0].Counters().SentPkts + ds[1].Counters().SentPkts }
	sentBefore, regions := sent(), ds[0].MemCounts()
	_, buffers := c.pool.Stats()
	for name, call := range map[string]func(ctx context.Context) error{
		"send":          func(ctx context.Context) error { return c.Send(ctx, short) },
		"send, pooled":  func(ctx context.Context) error { return c.Send(ctx, long) },
		"send imm":      func(ctx context.Context) error { return c.SendImm(ctx, short, 1) },
		"write":         func(ctx context.Context) error { return c.Write(ctx, short, remote) },
		"write, pooled": func(ctx context.Context) error { return c.Write(ctx, long, remote) },
		"write nothing": func(ctx context.Context) error { return c.Write(ctx, nil, remote) },
		"read":          func(ctx context.Context) error { return c.Read(ctx, long, remote) },
		"read nothing":  func(ctx context.Context) error { return c.Read(ctx, nil, remote) },
		"fetch and add": func(ctx context.Context) error { return two(c.FetchAdd(ctx, remote, 1)) },
		"compare, swap": func(ctx context.Context) error { return two(c.CompareSwap(ctx, remote, 1, 2)) },
		"start":         func(ctx context.Context) error { return two(c.Start(ctx, verbs.SendWR{})) },
		"start send":    func(ctx context.Context) error { return two(c.StartSend(ctx, mr.SGE(0, 1))) },
		"start write":   func(ctx context.Context) error { return two(c.StartWrite(ctx, remote, mr.SGE(0, 1))) },
		"start write imm": func(ctx context.Context) error {
			return two(c.StartWriteImm(ctx, remote, 1, mr.SGE(0, 1)))
		},
		"start read":    func(ctx context.Context) error { return two(c.StartRead(ctx, remote, mr.SGE(0, 1))) },
		"share":         func(ctx context.Context) error { return two(c.Share(ctx, short, RemoteRead)) },
		"shared":        func(ctx context.Context) error { return two(c.Shared(ctx)) },
		"recv":          func(ctx context.Context) error { return two(c.Recv(ctx, short)) },
		"recv message":  func(ctx context.Context) error { return two(c.RecvMsg(ctx)) },
		"completion":    func(ctx context.Context) error { return two(c.Completion(ctx)) },
		"wait":          func(ctx context.Context) error { return c.Wait(ctx) },
		"shared memory": func(ctx context.Context) error { return SharedMemory(short, RemoteRead)(ctx, c) },
		"dial":          func(ctx context.Context) error { return two(dialer.Dial(ctx, l.Addr().String())) },
		"dial address":  func(ctx context.Context) error { return two(dialer.DialAddr(ctx, l.Addr())) },
		"accept":        func(ctx context.Context) error { return two(l.Accept(ctx)) },
		"serve":         func(ctx context.Context) error { return shut.Serve(ctx, SharedMemory(short, RemoteRead)) },
		"CQ":            func(ctx context.Context) error { return two(e.CQ.Wait(ctx, make([]verbs.WC, 1))) },
		"channel":       func(ctx context.Context) error { return two(channel.Get(ctx)) },
		"event channel": func(ctx context.Context) error { return two(events.Get(ctx)) },
		"async event":   func(ctx context.Context) error { return two(ds[0].AsyncEvent(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			err := call(over)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrMaybeDone)
			require.Equal(t, sentBefore, sent(), "a packet was sent")
			require.Equal(t, regions, ds[0].MemCounts(), "a region is left")
			_, n := c.pool.Stats()
			require.Equal(t, buffers, n, "a buffer is left")
		})
	}
	_, err = c.Shared(ctx)
	require.NoError(t, err, "the message is still there")
	wc, err := c.Completion(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 7, wc.ID)
	require.NoError(t, c.Send(ctx, []byte("hello")), "and nothing is in its way")
	n, err := s.Recv(ctx, short)
	require.NoError(t, err)
	require.Equal(t, "hello", string(short[:n]))
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
}

// A call whose context is over takes nothing that is there to be taken: no completion, no event,
// no request for a connection, which would be answered.
func TestContextOverTakesNothing(t *testing.T) {
	ctx := rocetest.Context(t)
	over, cancel := context.WithCancel(ctx)
	cancel()
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	two := func(_ any, err error) error { return err }

	e := rocetest.NewEnd(t, ds[0], 64, verbs.QPInitAttr{})
	channel, err := ds[0].CreateCompletionChannel()
	require.NoError(t, err)
	cq, err := ds[0].CreateCQ(1, &verbs.CQOptions{Channel: channel})
	require.NoError(t, err)
	require.NoError(t, cq.RequestNotify(false))
	srq, err := e.PD.CreateSRQ(verbs.SRQAttr{})
	require.NoError(t, err)
	qp, err := e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: e.CQ, SRQ: srq})
	require.NoError(t, err)
	// It completes with an error, and tells that it needs the SRQ no more.
	require.NoError(t, qp.Connect(verbs.RemoteInfo{GID: ds[1].GIDs()[0], QPN: 5}, nil))
	require.NoError(t, qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState))
	require.NoError(t, qp.PostSend(&verbs.SendWR{ID: 5, Opcode: verbs.WRWrite, Flags: verbs.SendSignaled}))

	events, err := rdmacm.CreateEventChannel(ds[0])
	require.NoError(t, err)
	id, err := rdmacm.CreateID(events, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	l := listenOn(t, ds[1], ListenConfig{})
	require.NoError(t, id.ResolveAddr(netip.AddrPort{}, l.Addr()))

	clients(t, rocetest.PeerOn(t, ds[0]), 1, l.Addr())
	f.RunFor(1e6)
	require.Equal(t, 1, rdmacm.CountersOf(ds[1]).Now.Waiting)

	for name, call := range map[string]func(ctx context.Context) error{
		"CQ":            func(ctx context.Context) error { return two(cq.Wait(ctx, make([]verbs.WC, 1))) },
		"channel":       func(ctx context.Context) error { return two(channel.Get(ctx)) },
		"event channel": func(ctx context.Context) error { return two(events.Get(ctx)) },
		"async event":   func(ctx context.Context) error { return two(ds[0].AsyncEvent(ctx)) },
		"accept":        func(ctx context.Context) error { return two(l.Accept(ctx)) },
	} {
		require.ErrorIs(t, call(over), context.Canceled, name)
		if name == "accept" {
			require.Equal(t, 1, rdmacm.CountersOf(ds[1]).Now.Waiting, "somebody has answered")
		}
		require.NoError(t, call(ctx), "%s: it is there still", name)
	}
}

// hookLink calls a function before it sends.
type hookLink struct {
	link.Link
	sending *atomic.Pointer[func()]
}

func (h *hookLink) Unwrap() link.Link { return h.Link }

func (h *hookLink) Send(batch []transport.TxPacket) {
	if f := h.sending.Swap(nil); f != nil {
		(*f)()
	}
	h.Link.Send(batch)
}

// When the context ends while an operation is on its way, the error says that it
// may be carried out, and it is; buffers come back when it is complete.
func TestContextEndsUnderWay(t *testing.T) {
	ctx := rocetest.Context(t)
	f := sim.New(sim.Config{Seed: 1})
	var sending atomic.Pointer[func()]
	l, err := f.Link(rocetest.SimAddr(1))
	require.NoError(t, err)
	a := rocetest.OpenDevice(t, verbs.Config{Link: l, Rand: f.Rand(), WrapLink: func(l link.Link) (link.Link, error) {
		return &hookLink{l, &sending}, nil
	}})
	l, err = f.Link(rocetest.SimAddr(2))
	require.NoError(t, err)
	b := rocetest.OpenDevice(t, verbs.Config{Link: l, Rand: f.Rand()})
	c, s := connPair(t, a, b, ConnConfig{})
	memory := make([]byte, 1<<20)
	theirs, err := s.Register(memory, verbs.AccessAll)
	require.NoError(t, err)
	remote := theirs.Remote()
	_, buffers := c.pool.Stats()
	long := make([]byte, 4096)
	long[0] = 7
	for name, call := range map[string]func(ctx context.Context) error{
		"send":          func(ctx context.Context) error { return c.Send(ctx, long) },
		"send inline":   func(ctx context.Context) error { return c.Send(ctx, long[:1]) },
		"write":         func(ctx context.Context) error { return c.Write(ctx, make([]byte, 3*connChunk), remote) },
		"read":          func(ctx context.Context) error { return c.Read(ctx, make([]byte, 3*connChunk), remote) },
		"fetch and add": func(ctx context.Context) error { _, err := c.FetchAdd(ctx, remote, 1); return err },
		"pending": func(ctx context.Context) error {
			p, err := c.Start(ctx, verbs.SendWR{Opcode: verbs.WRWrite})
			require.NoError(t, err)
			return p.Wait(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			short, cancel := context.WithCancel(ctx)
			stop := func() { cancel() }
			sending.Store(&stop)
			err := call(short)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, ErrMaybeDone)
			require.Contains(t, err.Error(), "may be carried out")
		})
	}
	// What was under way completes before what comes later.
	require.NoError(t, c.Write(ctx, nil, remote))
	_, n := c.pool.Stats()
	require.Equal(t, buffers, n)
	require.Len(t, c.ops, 0)
	got := make([]byte, 8192)
	for range 2 { // both messages
		n, err := s.Recv(ctx, got)
		require.NoError(t, err)
		require.NotZero(t, n)
		require.EqualValues(t, 7, got[0])
	}
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
}

// The outcome of an operation that is complete is told whatever the context.
func TestPendingDoneAndContextOver(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	p, err := c.Start(ctx, verbs.SendWR{Opcode: verbs.WRWrite})
	require.NoError(t, err)
	require.NoError(t, c.Write(ctx, nil, RemoteMemory{})) // comes after it
	over, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, p.Wait(over))
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
}

// Operations that a lost connection cuts short may have been carried out, those
// that were never started were not.
func TestMaybeDoneOfLostConnection(t *testing.T) {
	ctx := rocetest.Context(t)
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	first, err := c.Start(ctx, verbs.SendWR{Opcode: verbs.WRWrite})
	require.NoError(t, err)
	require.NoError(t, first.Wait(ctx))
	f.Partition(ds[0].Addrs()[0], ds[1].Addrs()[0], true)
	second, err := c.Start(ctx, verbs.SendWR{Opcode: verbs.WRWrite})
	require.NoError(t, err)
	err = c.Send(ctx, nil) // flushed behind the other
	require.ErrorIs(t, err, ErrMaybeDone)
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorIs(t, second.Wait(ctx), ErrMaybeDone)
	err = c.Send(ctx, nil)
	require.ErrorIs(t, err, ErrUnreachable)
	require.NotErrorIs(t, err, ErrMaybeDone)
	require.NoError(t, c.Close())
	require.NotErrorIs(t, c.Send(ctx, nil), ErrMaybeDone)
	require.NoError(t, s.Close())
}
