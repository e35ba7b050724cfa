package transport

// eventQueue holds the events that PollEvent has not returned yet. Every object has at most one
// event of each type queued, a shared object in all queues together. So the number of objects
// bounds the length. Creating an object reserves room, and so does creating a QP that uses another
// engine's, so that raising an event does not allocate.
type eventQueue struct {
	ring  []Event // length is a power of two, or 0
	head  uint64
	tail  uint64
	bound int // most events that the living objects can have queued
}

// eventSet is the set of event types that an object has queued.
type eventSet uint16

// Number of event types of each kind of object.
const (
	cqEvents  = 2 // completion, error
	qpEvents  = 7 // fatal, request, access, established, drained, last WQE, unanswered
	srqEvents = 2 // error, limit
)

// reserve makes room for n more events.
func (q *eventQueue) reserve(n int) {
	q.bound += n
	size := max(len(q.ring), 16)
	for size < q.bound {
		size *= 2
	}
	q.grow(size)
}

// grow enlarges the ring to size, a power of two.
func (q *eventQueue) grow(size int) {
	if size <= len(q.ring) {
		return
	}
	ring := make([]Event, size)
	for i := q.head; i != q.tail; i++ {
		ring[i&uint64(size-1)] = q.ring[i&uint64(len(q.ring)-1)]
	}
	q.ring = ring
}

// release gives back the room of a destroyed object.
func (q *eventQueue) release(n int) { q.bound -= n }

// push adds ev unless its object, which owns the set pending, has an event of that type queued. The
// caller holds the lock of a shared object.
func (q *eventQueue) push(pending *eventSet, ev Event) {
	bit := eventSet(1) << ev.Type
	if *pending&bit != 0 {
		return
	}
	*pending |= bit
	if q.tail-q.head == uint64(len(q.ring)) {
		// A shared CQ's event is still queued, but the QP that had reserved room for it is gone.
		q.grow(max(2*len(q.ring), 16))
	}
	q.ring[q.tail&uint64(len(q.ring)-1)] = ev
	q.tail++
}

// pop removes the oldest event. It drops events of objects that their home has destroyed.
func (q *eventQueue) pop() (Event, bool) {
	for q.head != q.tail {
		slot := &q.ring[q.head&uint64(len(q.ring)-1)]
		ev := *slot
		*slot = Event{}
		q.head++
		if ev.taken() {
			return ev, true
		}
	}
	return Event{}, false
}

// purge drops the events of an object that is being destroyed.
func (q *eventQueue) purge(match func(*Event) bool) {
	mask := uint64(len(q.ring) - 1)
	to := q.head
	for i := q.head; i != q.tail; i++ {
		if ev := q.ring[i&mask]; !match(&ev) {
			q.ring[to&mask] = ev
			to++
		}
	}
	for i := to; i != q.tail; i++ {
		q.ring[i&mask] = Event{}
	}
	q.tail = to
}

// taken notes that the event has left the queue, and reports whether its object still exists.
func (ev *Event) taken() bool {
	var pending *eventSet
	var s *shared
	switch {
	case ev.CQ != nil:
		pending, s = &ev.CQ.pending, &ev.CQ.shared
	case ev.SRQ != nil:
		pending, s = &ev.SRQ.pending, &ev.SRQ.shared
	default:
		ev.QP.pending &^= 1 << ev.Type
		return true
	}
	locked := s.lock()
	*pending &^= 1 << ev.Type
	s.unlock(locked)
	return !s.destroyed()
}

// raise queues an asynchronous event of the QP.
func (qp *QP) raise(t EventType) {
	qp.e.events.push(&qp.pending, Event{Type: t, QP: qp})
}

// commEstablished raises EventCommEstablished, once, when a packet of the peer arrives in RTR, or
// later on a watched QP (IBTA 11.6.3.2). The caller has checked that the PSN is one of the peer's.
func (qp *QP) commEstablished() {
	if !qp.established && (qp.state == StateRTR || qp.watchFirst) {
		qp.established = true
		qp.watchFirst = false
		qp.raise(EventCommEstablished)
	}
}

// WatchSilence turns on EventQPUnanswered.
func (qp *QP) WatchSilence() { qp.watchSilence = true }

// unanswered raises EventQPUnanswered if it is turned on.
func (qp *QP) unanswered() {
	if qp.watchSilence {
		qp.raise(EventQPUnanswered)
	}
}

// WatchEstablished makes the first packet in RTS raise EventCommEstablished as well, not only in
// RTR. A communication manager needs it if it moves its QP to RTS before the peer confirms the
// connection.
func (qp *QP) WatchEstablished() { qp.watchFirst = !qp.established }
