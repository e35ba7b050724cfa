package verbs

import (
	"context"
	"sync"

	"github.com/goroce/goroce/roce/internal/kind"
	"github.com/goroce/goroce/roce/internal/shard"
)

// Event is an asynchronous event (ibv_async_event). The fields that its type
// does not concern are nil.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

// eventQueue holds asynchronous events until the application takes them.
type eventQueue struct {
	mu      sync.Mutex
	events  []Event
	dropped uint64
	sig     shard.Signal
}

func newEventQueue() *eventQueue { return &eventQueue{sig: shard.NewSignal()} }

func (q *eventQueue) push(e Event) {
	q.mu.Lock()
	if len(q.events) >= maxAsyncEvents {
		q.dropped++
	} else {
		q.events = append(q.events, e)
	}
	q.mu.Unlock()
	q.sig.Set()
}

func (q *eventQueue) pop() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return Event{}, false
	}
	e := q.events[0]
	q.events = append(q.events[:0], q.events[1:]...)
	if len(q.events) > 0 {
		q.sig.Set() // for another goroutine that waits
	}
	return e, true
}

// lost returns how many events were dropped.
func (q *eventQueue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// AsyncEvent waits for the next asynchronous event (ibv_get_async_event). A
// device keeps up to 4096 events that nobody takes, and drops later ones, which
// Counters.LostAsyncEvents counts.
func (d *Device) AsyncEvent(ctx context.Context) (Event, error) {
	if d.unmade() {
		return Event{}, kind.Zero
	}
	if err := ctx.Err(); err != nil {
		return Event{}, err
	}
	for tries := 0; ; tries++ {
		if e, ok := d.async.pop(); ok {
			return e, nil
		}
		if err := d.wait(ctx, d.async.sig, tries); err != nil {
			return Event{}, err
		}
	}
}
