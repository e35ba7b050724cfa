package transport

import (
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
