package verbs

import (
	"context"
	"slices"
	"sync"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// EventType is the type of an [Event] (ibv_event_type).
type EventType = transport.EventType

// The asynchronous events.
const (
	EventCQError         EventType = transport.EventCQError         // CQ: it overflowed; its queue pairs go to ERR
	EventQPFatal         EventType = transport.EventQPFatal         // QP: it failed, but not because of a work request
	EventQPRequestError  EventType = transport.EventQPRequestError  // QP: the peer sent a request that is not valid
	EventQPAccessError   EventType = transport.EventQPAccessError   // QP: the peer asked for memory that it may not use
	EventCommEstablished EventType = transport.EventCommEstablished // QP: in RTR, and the peer's first packet came
	EventSQDrained       EventType = transport.EventSQDrained       // QP: in SQD, and nothing is on its way any more
	// QP: in ERR, and it takes no more receives from its SRQ.
	EventLastWQEReached  EventType = transport.EventLastWQEReached
	EventSRQError        EventType = transport.EventSRQError        // SRQ: it failed; not raised by this stack
	EventSRQLimitReached EventType = transport.EventSRQLimitReached // SRQ: fewer receives than SRQAttr.Limit are left
	// The link is broken: the queue pairs are in ERR, and the device can only be closed.
	EventDeviceFatal EventType = transport.EventDeviceFatal
	EventPortActive  EventType = transport.EventPortActive // the interfaces under the link are up again
	EventPortError   EventType = transport.EventPortError  // the interfaces went down
	// The MTU of [Device.Port] has changed; new connections use it.
	EventPortMTU EventType = transport.EventPortMTU
)

// Event is an asynchronous event (ibv_async_event): its type and the object concerned.
type Event struct {
	Type EventType
	QP   *QP  // for events of a queue pair, else nil
	CQ   *CQ  // for EventCQError, else nil
	SRQ  *SRQ // for events of a shared receive queue, else nil
}

// eventQueue holds asynchronous events until the application takes them.
type eventQueue struct {
	mu      sync.Mutex
	events  []Event
	dropped uint64
	sig     *shard.Signal
	onEvent func(Event) // called with mu held
}

func newEventQueue() *eventQueue { return &eventQueue{sig: shard.NewSignal()} }

func (q *eventQueue) push(e Event) {
	q.mu.Lock()
	switch {
	case e.CQ != nil && e.CQ.dead.Load() || e.SRQ != nil && e.SRQ.dead.Load():
		// Another shard raised it while the object was being closed.
	case q.onEvent != nil:
		q.onEvent(e)
	case len(q.events) >= maxAsyncEvents:
		q.dropped++
	default:
		q.events = append(q.events, e)
	}
	q.mu.Unlock()
	q.sig.Set()
}

// handTo passes queued and future events to f; with nil, events are queued again.
func (q *eventQueue) handTo(f func(Event)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.onEvent = f
	if f == nil {
		return
	}
	for _, e := range q.events {
		f(e)
	}
	q.events = nil
}

func (q *eventQueue) pop() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return Event{}, false
	}
	e := q.events[0]
	q.events = slices.Delete(q.events, 0, 1)
	if len(q.events) > 0 {
		q.sig.Set() // wake another waiting goroutine
	}
	return e, true
}

// forget drops the events of an object that has ended: they are of no use any more, and would keep
// the object alive if the application takes no events. When it returns, none of them is being
// passed on.
func (q *eventQueue) forget(of func(*Event) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = slices.DeleteFunc(q.events, func(e Event) bool { return of(&e) })
}

// lost returns how many events were dropped.
func (q *eventQueue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// AsyncEvent waits for the next asynchronous event (ibv_get_async_event). A device keeps up to 4096
// events that the application has not taken, and drops later ones, which Counters.LostAsyncEvents
// counts.
func (d *Device) AsyncEvent(ctx context.Context) (Event, error) {
	if d.unmade() {
		return Event{}, access.ErrZero
	}
	if err := ctx.Err(); err != nil {
		return Event{}, err
	}
	for tries := 0; ; tries++ {
		if e, ok := d.async.pop(); ok {
			return e, nil
		}
		if err := d.waitFor(ctx, d.async.sig, tries); err != nil {
			if d.s.Barrier() {
				if e, ok := d.async.pop(); ok {
					return e, nil
				}
			}
			return Event{}, err
		}
	}
}
