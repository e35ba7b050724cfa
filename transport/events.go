package transport

// eventQueue holds the events that PollEvent has not taken yet. Every object
// has at most one event of each type in a queue, so its length is bounded
// by the number of objects, and room for them is made when they are created:
// raising an event does not allocate. An object that is shared has at most one event
// of each type in all queues together, and room in the queue of each engine that has a QP with it.
type eventQueue struct {
	ring  []Event // length is a power of two, or 0
	head  uint64
	tail  uint64
	bound int // most events that the living objects can have in the queue
}

// eventSet is the set of types that an object has in the queue.
type eventSet uint16

// How many types of events an object can raise.
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

// grow makes the ring at least as large as a power of two.
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

// release gives back the room of an object that was destroyed.
func (q *eventQueue) release(n int) { q.bound -= n }

// push adds ev unless its object, whose set is given, has one of that type in
// a queue already. The lock of an object that is shared is held.
func (q *eventQueue) push(pending *eventSet, ev Event) {
	bit := eventSet(1) << ev.Type
	if *pending&bit != 0 {
		return
	}
	*pending |= bit
	if q.tail-q.head == uint64(len(q.ring)) {
		// The event of a CQ that is shared is still here, but not the QP that had reserved room for it.
		q.grow(max(2*len(q.ring), 16))
	}
	q.ring[q.tail&uint64(len(q.ring)-1)] = ev
	q.tail++
}

// pop takes the oldest event. Those of an object that its home has destroyed are dropped.
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

// purge drops the events of an object that goes away.
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

// taken notes that the event has left the queue, and reports whether its object is still there.
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

// commEstablished tells that a packet of the peer arrived for a QP in RTR, or for
// one that is watched; the event comes once (IBTA 11.6.3.2). The caller has seen
// that the PSN is one of the peer's.
func (qp *QP) commEstablished() {
	if !qp.established && (qp.state == StateRTR || qp.watchFirst) {
		qp.established = true
		qp.watchFirst = false
		qp.raise(EventCommEstablished)
	}
}

// WatchSilence has EventQPUnanswered come.
func (qp *QP) WatchSilence() { qp.watchSilence = true }

// unanswered tells that the peer does not answer.
func (qp *QP) unanswered() {
	if qp.watchSilence {
		qp.raise(EventQPUnanswered)
	}
}

// WatchEstablished makes EventCommEstablished come for the first packet in RTS
// as well as in RTR. A communication manager that gets its QP ready to send
// before the peer has confirmed the connection needs it.
func (qp *QP) WatchEstablished() { qp.watchFirst = !qp.established }
