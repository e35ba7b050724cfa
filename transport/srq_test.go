package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

func newSRQ(t *testing.T, b *bench, n int) *SRQ {
	t.Helper()
	s, err := b.e.CreateSRQ(b.pd, SRQAttr{MaxWR: n, MaxSGE: 1}, "srq")
	require.NoError(t, err)
	require.Equal(t, "srq", s.UserData())
	return s
}

// The limit event comes once, when fewer than the limit are left, and must be
// armed again (IBTA 10.2.9.2).
func TestSRQLimit(t *testing.T) {
	b := newBench(t)
	s := newSRQ(t, b, 8)
	for id := range uint64(8) {
		require.NoError(t, s.PostRecv(&RecvWR{ID: id}))
	}
	require.ErrorIs(t, s.PostRecv(&RecvWR{}), ErrQueueFull)
	require.NoError(t, s.Modify(6, -1))
	require.Equal(t, SRQAttr{MaxWR: 8, MaxSGE: 1, Limit: 6}, s.Query())
	take := func() { s.q.recycle(s.take(b.e)) }
	take()
	take()
	require.Empty(t, drainEvents(b.e), "six are left")
	take()
	ev, ok := b.e.PollEvent()
	require.True(t, ok)
	require.Equal(t, Event{Type: EventSRQLimitReached, SRQ: s}, ev)
	require.Zero(t, s.Query().Limit)
	take()
	require.Empty(t, drainEvents(b.e))
	require.NoError(t, s.Modify(1, -1))
	for range 4 {
		take()
	}
	require.Equal(t, []EventType{EventSRQLimitReached}, drainEvents(b.e))
	require.Nil(t, s.take(b.e))
}

// Two QPs draw from one SRQ in the order of arrival; what each holds counts
// against the capacity until it is complete.
func TestSRQShared(t *testing.T) {
	b := newBench(t)
	s := newSRQ(t, b, 2)
	q1, q2 := b.qp(t, ib.RC, s), b.qp(t, ib.UD, s)
	moveTo(t, q1, StateRTS)
	moveTo(t, q2, StateRTS)
	require.ErrorIs(t, q1.PostRecv(&RecvWR{}), ErrInvalidState)
	require.NoError(t, s.PostRecv(&RecvWR{ID: 1}))
	require.NoError(t, s.PostRecv(&RecvWR{ID: 2}))
	w2, w1 := q2.takeRecv(), q1.takeRecv()
	require.Equal(t, uint64(1), w2.id)
	require.Equal(t, uint64(2), w1.id)
	require.ErrorIs(t, s.PostRecv(&RecvWR{}), ErrQueueFull)

	q1.fatal(0, EventQPFatal)
	require.Equal(t, []WC{{ID: 2, Status: WCFlushErr, Opcode: WCRecv, QPN: q1.Number()}}, pollAll(b.cq),
		"only what the QP itself held is flushed")
	require.Equal(t, []EventType{EventQPFatal, EventLastWQEReached}, drainEvents(b.e))
	require.NoError(t, s.PostRecv(&RecvWR{ID: 3}))
	q2.recycleRecv(w2)
	require.Equal(t, uint64(3), q2.takeRecv().id)

	require.ErrorIs(t, s.Destroy(), ErrBusy)
	require.NoError(t, q1.Destroy())
	require.NoError(t, q2.Destroy())
	require.NoError(t, s.Destroy())
	require.ErrorIs(t, s.Destroy(), ErrDestroyed)
	require.ErrorIs(t, s.PostRecv(&RecvWR{}), ErrDestroyed)
	require.ErrorIs(t, s.Modify(0, 0), ErrDestroyed)
}

// A QP that ends in the middle of a message gives back the receive request that it
// holds: for the others it was never gone.
func TestSRQGetsBackWhatIsHeld(t *testing.T) {
	for name, end := range map[string]func(*QP) error{
		"reset":   func(qp *QP) error { return qp.Modify(0, QPAttr{State: StateReset}, AttrState) },
		"destroy": (*QP).Destroy,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			s := newSRQ(t, b, 3)
			other := b.qp(t, ib.RC, s)
			moveTo(t, other, StateRTS)
			for id := range uint64(3) {
				require.NoError(t, s.PostRecv(&RecvWR{ID: id}))
			}
			for range 5 {
				qp := b.qp(t, ib.RC, s)
				moveTo(t, qp, StateRTS)
				require.EqualValues(t, 0, qp.takeRecv().id)
				require.NoError(t, end(qp))
			}
			require.ErrorIs(t, s.PostRecv(&RecvWR{}), ErrQueueFull)
			for id := range uint64(3) {
				w := other.takeRecv()
				require.NotNil(t, w)
				require.Equal(t, id, w.id)
				other.recycleRecv(w)
			}
			require.Empty(t, pollAll(b.cq))
		})
	}
}

func TestSRQResize(t *testing.T) {
	b := newBench(t)
	s := newSRQ(t, b, 2)
	qp := b.qp(t, ib.RC, s)
	moveTo(t, qp, StateRTS)
	require.NoError(t, s.PostRecv(&RecvWR{ID: 1, SGList: []SGE{{Length: 5}}}))
	require.NoError(t, s.PostRecv(&RecvWR{ID: 2}))
	w := qp.takeRecv()
	require.NoError(t, s.Modify(-1, 5))
	for id := uint64(3); id < 6; id++ {
		require.NoError(t, s.PostRecv(&RecvWR{ID: id}))
	}
	require.ErrorIs(t, s.PostRecv(&RecvWR{}), ErrQueueFull)
	require.Equal(t, uint64(1), w.id, "a request in use stays where it is")
	qp.recycleRecv(w)
	requireAttr(t, s.Modify(-1, 3), "max_wr")
	for id := uint64(2); id < 6; id++ {
		w := qp.takeRecv()
		require.Equal(t, id, w.id)
		qp.recycleRecv(w)
	}
	require.NoError(t, s.Modify(-1, 1))
	require.NoError(t, s.PostRecv(&RecvWR{}))
	require.ErrorIs(t, s.PostRecv(&RecvWR{}), ErrQueueFull)
}

// The domain of an SRQ is in use for as long as that exists.
func TestSRQHoldsItsPD(t *testing.T) {
	b := newBench(t)
	before := b.pd.Refs()
	s, err := b.e.CreateSRQ(b.pd, SRQAttr{MaxWR: 1, MaxSGE: MaxSGE}, nil)
	require.NoError(t, err)
	require.Equal(t, before+1, b.pd.Refs())
	require.NoError(t, s.Destroy())
	require.ErrorIs(t, s.Destroy(), ErrDestroyed)
	require.Equal(t, before, b.pd.Refs())
}

func TestSRQBadArguments(t *testing.T) {
	b := newBench(t)
	for _, tc := range []struct {
		a    SRQAttr
		attr string
	}{
		{SRQAttr{MaxWR: 0, MaxSGE: 1}, "max_wr"},
		{SRQAttr{MaxWR: MaxQueueWR + 1, MaxSGE: 1}, "max_wr"},
		{SRQAttr{MaxWR: 1, MaxSGE: MaxSGE + 1}, "max_sge"},
		{SRQAttr{MaxWR: 1, MaxSGE: -1}, "max_sge"},
	} {
		_, err := b.e.CreateSRQ(b.pd, tc.a, nil)
		requireAttr(t, err, tc.attr)
	}
	_, err := b.e.CreateSRQ(nil, SRQAttr{MaxWR: 1}, nil)
	requireAttr(t, err, "pd")
	s := newSRQ(t, b, 4)
	requireAttr(t, s.Modify(5, -1), "srq_limit")
	requireAttr(t, s.Modify(-1, 0), "max_wr")
	requireAttr(t, s.Modify(-1, MaxQueueWR+1), "max_wr")
	require.NoError(t, s.Modify(4, -1))
	requireAttr(t, s.Modify(-1, 3), "max_wr")
	require.Equal(t, SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 4}, s.Query(), "refused calls changed nothing")
	require.ErrorIs(t, s.PostRecv(&RecvWR{SGList: make([]SGE, 2)}), ErrTooManySGE)
}
