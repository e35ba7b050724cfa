package transport

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An SRQ that is destroyed leaves no event, no room that was reserved for one, no receive request
// and no use of its domain; another's event stays.
func TestSRQDestroyLeavesNothing(t *testing.T) {
	b := newBench(t)
	other := newSRQ(t, b, 2)
	raise := func(s *SRQ) {
		require.NoError(t, s.PostRecv(&RecvWR{ID: 1}))
		require.NoError(t, s.Modify(1, -1))
		s.q.recycle(s.take(b.e))
	}
	refs, bound := b.pd.Refs(), b.e.events.bound
	for range 3 {
		s := newSRQ(t, b, 2)
		require.NoError(t, s.PostRecv(&RecvWR{ID: 7}))
		require.NoError(t, s.PostRecv(&RecvWR{ID: 8}))
		require.NoError(t, s.Modify(2, -1))
		s.q.recycle(s.take(b.e))
		require.EqualValues(t, 1, b.e.events.tail-b.e.events.head)
		require.NoError(t, s.Destroy())
		require.EqualValues(t, 0, b.e.events.tail-b.e.events.head)
		require.Equal(t, bound, b.e.events.bound)
		require.Equal(t, refs, b.pd.Refs())
		require.Equal(t, recvQueue{}, s.q)
	}
	raise(other)
	s := newSRQ(t, b, 2)
	raise(s)
	require.NoError(t, s.Destroy())
	ev, ok := b.e.PollEvent()
	require.True(t, ok)
	require.Equal(t, Event{Type: EventSRQLimitReached, SRQ: other}, ev)
	_, ok = b.e.PollEvent()
	require.False(t, ok)
}
