package transport

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

func TestPostRecv(t *testing.T) {
	b := newBench(t)
	qp := b.qp(t, ib.RC, nil)
	require.ErrorIs(t, qp.PostRecv(&RecvWR{}), ErrInvalidState)
	moveTo(t, qp, StateInit)
	sges := []SGE{{Addr: 1, Length: 1 << 31, LKey: 7}, {Addr: 9, Length: 1 << 31, LKey: 8}}
	require.NoError(t, qp.PostRecv(&RecvWR{ID: 10, SGList: sges}))
	sges[0].Addr = 99 // the request was copied
	for id := range uint64(3) {
		require.NoError(t, qp.PostRecv(&RecvWR{ID: 11 + id}))
	}
	require.ErrorIs(t, qp.PostRecv(&RecvWR{}), ErrQueueFull)

	w := qp.takeRecv()
	require.Equal(t, uint64(10), w.id)
	require.Equal(t, []SGE{{Addr: 1, Length: 1 << 31, LKey: 7}, {Addr: 9, Length: 1 << 31, LKey: 8}}, w.sges)
	require.Equal(t, uint64(1<<32), w.total)
	require.ErrorIs(t, qp.PostRecv(&RecvWR{}), ErrQueueFull, "taken is not completed")
	qp.recycleRecv(w)
	require.ErrorIs(t, qp.PostRecv(&RecvWR{SGList: make([]SGE, 3)}), ErrTooManySGE)
	require.NoError(t, qp.PostRecv(&RecvWR{ID: 14}))
	for id := range uint64(4) {
		w := qp.takeRecv()
		require.Equal(t, 11+id, w.id)
		require.Empty(t, w.sges)
		qp.recycleRecv(w)
	}
	require.Nil(t, qp.takeRecv())
	require.NoError(t, qp.Destroy())
	require.ErrorIs(t, qp.PostRecv(&RecvWR{}), ErrDestroyed)
}

func TestPostRecvNoAllocs(t *testing.T) {
	b := newBench(t)
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateInit)
	wr := RecvWR{SGList: []SGE{{Length: 5}}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = qp.PostRecv(&wr)
		qp.recycleRecv(qp.takeRecv())
	}))
}

// All receives that are not completed are flushed in order, the one that a
// message was being received into first.
func TestFlushRecv(t *testing.T) {
	b := newBench(t)
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateRTS)
	for id := range uint64(4) {
		require.NoError(t, qp.PostRecv(&RecvWR{ID: id}))
	}
	qp.takeRecv()
	qp.fatal(5, EventQPAccessError)
	require.Equal(t, StateErr, qp.State())
	flushed := func(id uint64) WC {
		return WC{ID: id, Status: WCFlushErr, Opcode: WCRecv, QPN: qp.Number()}
	}
	require.Equal(t, []WC{flushed(0), flushed(1), flushed(2), flushed(3)}, pollAll(b.cq))
	require.Equal(t, []EventType{EventQPAccessError}, drainEvents(b.e))
	qp.fatal(6, EventQPFatal)
	require.Empty(t, drainEvents(b.e), "once in ERR there is nothing to tell")

	require.NoError(t, qp.PostRecv(&RecvWR{ID: 9}))
	require.Equal(t, []WC{flushed(9)}, pollAll(b.cq), "posted in ERR: flushed at once")
}

func TestResetDropsReceives(t *testing.T) {
	b := newBench(t)
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateRTS)
	for range 4 {
		require.NoError(t, qp.PostRecv(&RecvWR{}))
	}
	qp.takeRecv()
	require.NoError(t, qp.Modify(0, QPAttr{State: StateReset}, AttrState))
	require.Empty(t, pollAll(b.cq))
	moveTo(t, qp, StateInit)
	for range 4 {
		require.NoError(t, qp.PostRecv(&RecvWR{}), "all slots are back")
	}
}

// Requests without memory that are equal share a slot, and are taken one by one.
func TestEqualReceivesTakeNoMemory(t *testing.T) {
	const n = 1000
	b := newBench(t)
	qp, err := b.e.CreateQP(QPInitAttr{
		Type: ib.RC, PD: b.pd, SendCQ: b.cq, RecvCQ: b.cq, Caps: QPCaps{MaxSendWR: 1, MaxRecvWR: n, MaxRecvSGE: 1},
	})
	require.NoError(t, err)
	moveTo(t, qp, StateInit)
	for round := range 3 {
		for range n {
			require.NoError(t, qp.PostRecv(&RecvWR{ID: 5}))
		}
		require.ErrorIs(t, qp.PostRecv(&RecvWR{ID: 5}), ErrQueueFull)
		for i := range n {
			require.Equal(t, n-i, qp.rq.posted(), "round %d", round)
			w := qp.takeRecv()
			require.Equal(t, recvWQE{id: 5, sges: []SGE{}}, *w)
			qp.recycleRecv(w)
		}
		require.Nil(t, qp.takeRecv())
	}
	require.Equal(t, minRecvSlots, qp.rq.alloc)
}

// A queue is a queue, whatever is posted, taken, given back and recycled, and in which order.
func TestRecvQueueModel(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q recvQueue
		capacity := 1 + rng.IntN(40)
		q.init(capacity, rng.IntN(3))
		var posted []RecvWR
		var taken []*recvWQE
		var ids []uint64 // of taken
		for range 2000 {
			switch rng.IntN(5) {
			case 0, 1:
				wr := RecvWR{ID: rng.Uint64N(2), SGList: make([]SGE, rng.IntN(q.maxSGE+1)*rng.IntN(2))}
				for i := range wr.SGList {
					wr.SGList[i] = SGE{Addr: rng.Uint64(), Length: rng.Uint32()}
				}
				err := q.check(&wr)
				require.Equal(t, len(posted)+len(taken) == capacity, err != nil)
				if err == nil {
					q.post(&wr)
					posted = append(posted, wr)
				}
			case 2, 3:
				w := q.take()
				require.Equal(t, len(posted) == 0, w == nil)
				if w == nil {
					continue
				}
				require.Equal(t, posted[0].ID, w.id)
				require.Equal(t, posted[0].SGList, w.sges[:len(w.sges):len(w.sges)])
				var total uint64
				for _, s := range w.sges {
					total += uint64(s.Length)
				}
				require.Equal(t, total, w.total)
				posted = posted[1:]
				if rng.IntN(4) == 0 {
					q.giveBack(w)
					posted = append([]RecvWR{{ID: w.id, SGList: append([]SGE{}, w.sges...)}}, posted...)
					continue
				}
				taken, ids = append(taken, w), append(ids, w.id)
			case 4:
				if len(taken) == 0 {
					continue
				}
				i := rng.IntN(len(taken))
				require.Equal(t, ids[i], taken[i].id, "others have not touched it")
				q.recycle(taken[i])
				taken, ids = append(taken[:i], taken[i+1:]...), append(ids[:i], ids[i+1:]...)
			}
			require.Equal(t, len(posted), q.posted())
			require.LessOrEqual(t, q.alloc, capacity)
		}
		q.clear()
		require.Zero(t, q.posted())
		require.Equal(t, len(taken), q.used)
	}
}
