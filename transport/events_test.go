package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

func TestEventsOrderAndMerge(t *testing.T) {
	b := newBench(t)
	q1, q2 := b.qp(t, ib.RC, nil), b.qp(t, ib.RC, nil)
	q1.raise(EventQPFatal)
	q2.raise(EventQPFatal)
	q1.raise(EventQPAccessError)
	q1.raise(EventQPFatal) // still in the queue: merged
	var got []Event
	for ev, ok := b.e.PollEvent(); ok; ev, ok = b.e.PollEvent() {
		got = append(got, ev)
	}
	require.Equal(t, []Event{
		{Type: EventQPFatal, QP: q1}, {Type: EventQPFatal, QP: q2}, {Type: EventQPAccessError, QP: q1},
	}, got)
	q1.raise(EventQPFatal)
	require.Equal(t, []EventType{EventQPFatal}, drainEvents(b.e), "taken, so it can come again")
}

func TestEventsOfDestroyedObjectsAreDropped(t *testing.T) {
	b := newBench(t)
	q1, q2 := b.qp(t, ib.RC, nil), b.qp(t, ib.RC, nil)
	q1.raise(EventQPFatal)
	q2.raise(EventQPRequestError)
	q1.raise(EventSQDrained)
	require.NoError(t, q1.Destroy())
	ev, ok := b.e.PollEvent()
	require.True(t, ok)
	require.Equal(t, Event{Type: EventQPRequestError, QP: q2}, ev)
	require.Empty(t, drainEvents(b.e))
}

// Every object may raise all its events at once without making the queue overrun or grow.
func TestEventsRoomForAll(t *testing.T) {
	b := newBench(t)
	var qps []*QP
	for range 100 {
		qps = append(qps, b.qp(t, ib.RC, nil))
	}
	all := []EventType{EventQPFatal, EventQPRequestError, EventQPAccessError,
		EventCommEstablished, EventSQDrained, EventLastWQEReached, EventQPUnanswered}
	require.Len(t, all, qpEvents)
	room := len(b.e.events.ring)
	for range 3 {
		for _, qp := range qps {
			for _, ev := range all {
				qp.raise(ev)
			}
		}
	}
	require.Len(t, b.e.events.ring, room)
	require.Len(t, drainEvents(b.e), len(qps)*len(all))
}

func TestCommEstablishedOnce(t *testing.T) {
	b := newBench(t)
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateInit)
	qp.commEstablished()
	require.Empty(t, drainEvents(b.e))
	a := goodAttr(StateInit)
	a.State = StateRTR
	require.NoError(t, qp.Modify(0, a, AttrState|transitions[ib.RC][StateInit][StateRTR].required))
	qp.commEstablished()
	qp.commEstablished()
	require.Equal(t, []EventType{EventCommEstablished}, drainEvents(b.e))
	qp.commEstablished()
	require.Empty(t, drainEvents(b.e))
}
