package verbs

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// foreignWC is struct ibv_wc, for a consumer that knows nothing but the documentation of Ring.
type foreignWC struct {
	id                                                uint64
	status, opcode, vendor, bytes, imm, qpn, src, flg uint32
	pkey, slid                                        uint16
	sl, path                                          uint8
	_                                                 [2]byte
	ns                                                int64
	_                                                 uint64
}

// foreignPoll is what the documentation of Ring tells a program in C to do.
func foreignPoll(base unsafe.Pointer, wcs []foreignWC) int {
	head := (*atomic.Uint64)(unsafe.Add(base, 64))
	mask := *(*uint64)(unsafe.Add(base, 128))
	h := head.Load()
	n := int(min((*atomic.Uint64)(base).Load()-h, uint64(len(wcs))))
	for i := range n {
		wcs[i] = *(*foreignWC)(unsafe.Add(base, 192+(h+uint64(i))&mask*64))
	}
	head.Store(h + uint64(n))
	return n
}

// onRing gives an end a queue with a ring, and a queue pair that completes there.
func (e *end) onRing(t testing.TB, n int, o CQOptions) *end {
	e = &end{d: e.d, pd: e.pd, mr: e.mr, buf: e.buf}
	var err error
	e.cq, err = core.Open(e.d).CreateRingCQ(n, &o)
	require.NoError(t, err)
	require.NotNil(t, core.Open(e.cq).Ring())
	e.qp, err = e.pd.CreateQP(
		QPInitAttr{Type: RC, SendCQ: e.cq, Caps: QPCaps{MaxSendWR: n, MaxRecvWR: n, MaxInline: 64}})
	require.NoError(t, err)
	return e
}

// await polls as C does, until there are n completions.
func (e *end) await(t testing.TB, f *sim.Fabric, n int) []foreignWC {
	ctx := testContext(t)
	var all []foreignWC
	wcs := make([]foreignWC, n)
	for looks := 1; len(all) < n; looks++ {
		all = append(all, wcs[:foreignPoll(core.Open(e.cq).Ring(), wcs[:n-len(all)])]...)
		if looks%16 != 0 {
			continue
		}
		core.Open(e.cq).Progress(1)
		if f != nil && !f.Step() {
			require.Len(t, all, n, "nothing happens any more")
		}
		require.NoError(t, ctx.Err())
		runtime.Gosched()
	}
	return all
}

func (e *end) sends(t testing.TB, flags SendFlags, from, n uint64) {
	for i := range n {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], from+i)
		require.NoError(t, e.qp.PostSend(&SendWR{
			ID: from + i, Opcode: WRSendImm, Imm: 0x01020304, Flags: flags | SendSignaled | SendInline, Inline: b[:],
		}))
	}
}

func (e *end) recvs(t testing.TB, from, n uint64) {
	for i := range n {
		require.NoError(t, e.qp.PostRecv(&RecvWR{ID: from + i, SGList: []SGE{e.mr.SGE(0, 8)}}))
	}
}

// All operations, with queues that Go polls although they have rings.
func TestRingOperations(t *testing.T) {
	a, b := simPair(t, sim.New(sim.Config{Seed: 1}), 1<<16)
	a, b = a.onRing(t, 64, CQOptions{}), b.onRing(t, 64, CQOptions{})
	connect(t, a, b)
	exercise(t, a, b, []int{0, 1, 5000, 1 << 16})
}

// A consumer that is not Go finds completions in the ring, resizes it, and closes it.
func TestRing(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (a, b *end, f *sim.Fabric){
		"sim": func(t *testing.T) (*end, *end, *sim.Fabric) {
			f := sim.New(sim.Config{Seed: 1})
			a, b := simPair(t, f, 64)
			return a, b, f
		},
		"event": func(t *testing.T) (*end, *end, *sim.Fabric) { a, b := pair(t, 64, Config{}); return a, b, nil },
		"polling": func(t *testing.T) (*end, *end, *sim.Fabric) {
			a, b := pair(t, 64, Config{Polling: true})
			return a, b, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, f := open(t)
			a, b = a.onRing(t, 32, CQOptions{UserData: "mine"}), b.onRing(t, 32, CQOptions{})
			require.Equal(t, "mine", a.cq.UserData())
			connect(t, a, b)
			size := 32
			for round := range uint64(20) {
				b.recvs(t, round*16, 16)
				a.sends(t, 0, round*16, 16)
				var last int64
				for i, wc := range a.await(t, f, 16) {
					require.Equal(t, round*16+uint64(i), wc.id)
					require.Zero(t, wc.opcode)
					require.Equal(t, uint32(a.qp.Num()), wc.qpn)
				}
				for i, wc := range b.await(t, f, 16) {
					require.Equal(t, round*16+uint64(i), wc.id)
					require.EqualValues(t, 128, wc.opcode)
					require.EqualValues(t, 2, wc.flg)
					require.EqualValues(t, 8, wc.bytes)
					require.Equal(t, binary.NativeEndian.Uint32([]byte{1, 2, 3, 4}), wc.imm)
					require.Equal(t, uint32(b.qp.Num()), wc.qpn)
					require.GreaterOrEqual(t, wc.ns, last)
					last = wc.ns
				}
				size = 32 + int(round)*7%40
				require.NoError(t, b.cq.Resize(size))
				require.Equal(t, size, b.cq.t.Cap())
			}
			require.ErrorIs(t, a.cq.Close(), ErrBusy)
			require.NotNil(t, core.Open(a.cq).Ring(), "it is still there")
			require.NoError(t, a.qp.Close())
			require.NoError(t, a.cq.Close())
			require.Nil(t, core.Open(a.cq).Ring())
			require.Nil(t, a.cq.memory)
			core.Open(a.cq).Progress(1)
			require.NoError(t, a.cq.Close())
			require.Error(t, a.cq.Resize(64))

			// A device that is closed leaves the memory to who reads it.
			base := core.Open(b.cq).Ring()
			require.NoError(t, b.d.Close())
			require.Zero(t, foreignPoll(base, make([]foreignWC, 1)))
			require.Equal(t, base, core.Open(b.cq).Ring())
			require.NoError(t, b.cq.Close())
			require.Nil(t, core.Open(b.cq).Ring())
		})
	}
	require.Nil(t, core.Open(new(CQ)).Ring())
	core.Open(new(CQ)).Progress(1)
}

// Bad sizes are refused as ever, and nothing stays mapped or changed.
func TestRingArguments(t *testing.T) {
	a, _ := simPair(t, sim.New(sim.Config{Seed: 1}), 64)
	for _, n := range []int{-1, 0, transport.MaxCQE + 1} {
		_, err := core.Open(a.d).CreateRingCQ(n, nil)
		var arg *ArgError
		require.ErrorAs(t, err, &arg)
		require.Equal(t, "cqe", arg.Arg)
		r := a.onRing(t, 4, CQOptions{})
		base := core.Open(r.cq).Ring()
		require.ErrorAs(t, r.cq.Resize(n), &arg)
		require.Equal(t, base, core.Open(r.cq).Ring())
	}
	ch, err := a.d.CreateCompletionChannel()
	require.NoError(t, err)
	_, err = a.d.CreateCQ(1, &CQOptions{Channel: ch, OnEvent: func(*CQ) {}})
	var arg *ArgError
	require.ErrorAs(t, err, &arg)
	require.Equal(t, "OnEvent", arg.Arg)
	require.NoError(t, a.d.Close())
	_, err = core.Open(a.d).CreateRingCQ(1, nil)
	require.ErrorIs(t, err, ErrClosed)
}

// Completions that are not taken are lost, as in any queue, and the ring says so.
func TestRingOverflow(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := simPair(t, f, 64)
	a = a.onRing(t, 2, CQOptions{})
	require.NoError(t, a.qp.ToInit(0))
	a.recvs(t, 0, 2)
	var events []Event
	require.NoError(t, core.Open(a.d).OnAsyncEvent(func(e Event) { events = append(events, e) }))
	require.NoError(t, core.Open(b.d).OnAsyncEvent(func(e Event) { t.Error(e) }))
	two, err := a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq, Caps: QPCaps{MaxRecvWR: 1}})
	require.NoError(t, err)
	require.NoError(t, two.ToInit(0))
	require.NoError(t, two.PostRecv(&RecvWR{ID: 7}))
	require.NoError(t, a.qp.Modify(QPAttr{State: StateErr}, AttrState))
	state := (*atomic.Uint32)(unsafe.Add(core.Open(a.cq).Ring(), 136))
	require.Zero(t, state.Load())
	require.NoError(t, two.Modify(QPAttr{State: StateErr}, AttrState))
	require.EqualValues(t, transport.RingOverflowed, state.Load())
	require.Equal(t, []Event{{Type: EventCQError, CQ: a.cq}}, events)
	wcs := make([]foreignWC, 4)
	require.Equal(t, 2, foreignPoll(core.Open(a.cq).Ring(), wcs))
	require.EqualValues(t, WCFlushErr, wcs[0].status)
	require.EqualValues(t, 1, wcs[1].id)
}

// Queue pairs of several shards complete in one ring, while it is read, resized, and
// told of by callbacks.
func TestRingOfSeveralShards(t *testing.T) {
	const n, messages = 3, 400
	d := openDevice(t, Config{Shards: n})
	server := newEnd(t, d, 64, QPInitAttr{})
	var told atomic.Uint32
	woken := make(chan struct{}, 1)
	cq, err := core.Open(d).CreateRingCQ(64, &CQOptions{OnEvent: func(*CQ) {
		told.Add(1)
		select {
		case woken <- struct{}{}:
		default:
		}
	}})
	require.NoError(t, err)
	var servers []*QP
	for v := range n {
		own, err := d.CreateCQ(1, &CQOptions{Vector: v})
		require.NoError(t, err)
		qp, err := server.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: own, RecvCQ: cq})
		require.NoError(t, err)
		servers = append(servers, qp)
	}
	c := newCrowd(t, servers, nil)
	byQP := map[uint32]func(){}
	for i, qp := range servers {
		byQP[uint32(qp.Num())] = func() {
			require.NoError(t, qp.PostRecv(&RecvWR{SGList: []SGE{server.mr.SGE(8*i, 8)}}))
		}
		for range 16 {
			byQP[uint32(qp.Num())]()
		}
	}
	ctx := testContext(t)
	wg := c.run(ctx, messages)
	got := map[uint32]int{}
	var wcs [8]foreignWC
	for done := 0; done < n*messages; {
		k := foreignPoll(core.Open(cq).Ring(), wcs[:])
		for _, wc := range wcs[:k] {
			require.Zero(t, wc.status)
			got[wc.qpn]++
			byQP[wc.qpn]()
		}
		done += k
		switch {
		case done%7 == 0:
			require.NoError(t, cq.Resize(64+done%64))
		case k == 0 && done%2 == 0:
			core.Open(cq).Progress(1)
		case k == 0:
			require.NoError(t, cq.RequestNotify(false))
			if foreignPollable(core.Open(cq).Ring()) {
				continue
			}
			select {
			case <-woken:
			case <-ctx.Done():
				t.Fatal("nobody has called")
			}
		}
	}
	wg.Wait()
	for num := range byQP {
		require.Equal(t, messages, got[num])
	}
	// Closed while others complete there, the ring is not touched any more.
	for _, qp := range servers {
		require.NoError(t, qp.PostRecv(&RecvWR{}))
		require.NoError(t, qp.Close())
	}
	require.NoError(t, cq.Close())
	before := told.Load()
	runtime.Gosched()
	require.Equal(t, before, told.Load())
}

// foreignPollable reports whether a poll would find something.
func foreignPollable(base unsafe.Pointer) bool {
	return (*atomic.Uint64)(base).Load() != (*atomic.Uint64)(unsafe.Add(base, 64)).Load()
}

// A device that closes while packets come in, and queues that are closed beside it, leave the
// memory alone.
func TestRingClosedBesideItsDevice(t *testing.T) {
	for range 20 {
		a, b := pair(t, 64, Config{})
		a, b = a.onRing(t, 64, CQOptions{}), b.onRing(t, 64, CQOptions{})
		connect(t, a, b)
		b.recvs(t, 0, 64)
		a.sends(t, 0, 0, 64)
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.d.Close() })
		wg.Go(func() { _ = b.qp.Close(); _ = b.cq.Close() })
		wg.Wait()
		require.NoError(t, b.cq.Close())
		require.Nil(t, core.Open(b.cq).Ring())
		require.NoError(t, a.d.Close())
		require.NoError(t, a.cq.Close())
	}
}
