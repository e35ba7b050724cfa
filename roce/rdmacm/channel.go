package rdmacm

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/verbs"
)

// EventChannel delivers the events of one or more [ID]s (rdma_event_channel).
//
// Connection requests come after all other events: what frees memory comes before what takes some.
// They wait in the backlog of their listener until Poll or Get takes them; a request that the peer
// has taken back by then does not come at all. So what waits for a slow application is bounded: the
// backlogs, and a few events for each of its IDs.
type EventChannel struct {
	d         *verbs.Device
	s         *shard.Shard
	mu        sync.Mutex
	events    eventList
	listeners []*ID       // with requests to take
	none      atomic.Bool // Poll has found nothing since the last push and offer; not with notify or take
	dead      bool
	sig       *shard.Signal
	also      *shard.Signal // set with sig, if not nil
	notify    func()        // called with sig, if not nil
	take      func() bool   // see channelCore.Gate; nil: always
	give      func()
}

// CreateEventChannel makes a channel for IDs of a device (rdma_create_event_channel).
func CreateEventChannel(d *verbs.Device) (*EventChannel, error) {
	s := access.Shard(d)
	switch {
	case s == nil:
		return nil, access.ErrZero
	case s.Closed():
		return nil, s.ClosedErr()
	}
	return &EventChannel{d: d, s: s, sig: shard.NewSignal()}, nil
}

// Core is for the packages of this repository that build on this one; it is of no use to others.
func (c *EventChannel) Core() core.Of[*channelCore] { return core.New((*channelCore)(c)) }

// channelCore is a channel for callers that wait for events and for something else.
type channelCore EventChannel

// Signal is set when there are events.
func (w *channelCore) Signal() *shard.Signal { return w.sig }

// Also sets another signal together with Signal.
func (w *channelCore) Also(s *shard.Signal) {
	w.mu.Lock()
	w.also = s
	w.mu.Unlock()
}

// Gate makes the channel take a connection request only after take has allowed it; give undoes that
// if there was no request. The caller sets the signal when take would allow one again. Call Gate
// before the channel is used.
func (w *channelCore) Gate(take func() bool, give func()) { w.take, w.give = take, give }

// Notify makes f called when an event or a request has come. The goroutine or thread that drives
// the device calls it, with the device's lock held: f must not wait, or call anything of the device
// but Pending and Urgent. It serves programs that wait for a file descriptor, say, rather than in
// Get. nil ends it; a call that has begun may still be in progress then.
func (w *channelCore) Notify(f func()) {
	w.mu.Lock()
	w.notify = f
	w.none.Store(false)
	w.mu.Unlock()
}

// Pending reports whether there is something for Poll. A request may still be taken back.
func (w *channelCore) Pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events.head != nil || len(w.listeners) > 0
}

// Urgent is Pending without events that say that a connection has ended.
func (w *channelCore) Urgent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events.len > w.events.ends || len(w.listeners) > 0
}

// Ended returns IDs whose EventDisconnected is there for Poll, at most n of them, first those that
// Poll returns first.
func (w *channelCore) Ended(n int) (of []*ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.events.head; e != nil && len(of) < n; e = e.next {
		if e.Type == EventDisconnected {
			of = append(of, e.ID)
		}
	}
	return of
}

// PollEvent is Poll without connection requests.
func (w *channelCore) PollEvent() *Event { return (*EventChannel)(w).pollEvent() }

// PollRequest is Poll for connection requests, and for an event that has come since PollEvent: that
// precedes them. A caller calls it after PollEvent: if it finds nothing, the caller is assumed to
// wait next.
func (w *channelCore) PollRequest() *Event { return (*EventChannel)(w).pollRequest() }

// eventList is a list of events, oldest first. It can remove those of one ID without examining the
// others.
type eventList struct {
	head, tail *Event
	len        int
	ends       int // of type EventDisconnected
}

func (q *eventList) push(e *Event) {
	e.prev = q.tail
	if q.tail != nil {
		q.tail.next = e
	} else {
		q.head = e
	}
	q.tail = e
	q.len++
	if e.Type == EventDisconnected {
		q.ends++
	}
	if id := e.ID; id.lastEvent != nil {
		id.lastEvent.sibling = e
		id.lastEvent = e
	} else {
		id.firstEvent, id.lastEvent = e, e
	}
}

// take takes the first event of an ID; nil if there is none.
func (q *eventList) take(id *ID) *Event {
	e := id.firstEvent
	if e == nil {
		return nil
	}
	if id.firstEvent = e.sibling; id.firstEvent == nil {
		id.lastEvent = nil
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		q.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		q.tail = e.prev
	}
	e.prev, e.next, e.sibling = nil, nil, nil
	q.len--
	if e.Type == EventDisconnected {
		q.ends--
	}
	return e
}

// push adds an event; it is lost if the channel is closed. The lock of the device is held.
func (c *EventChannel) push(e *Event) {
	c.mu.Lock()
	c.none.Store(false)
	if !c.dead {
		c.events.push(e)
	}
	c.mu.Unlock()
	c.wake()
}

func (c *EventChannel) wake() {
	c.sig.Set()
	c.mu.Lock()
	also, notify := c.also, c.notify
	c.mu.Unlock()
	if also != nil {
		also.Set()
	}
	if notify != nil {
		notify()
	}
}

// offer records that a listener has requests. It returns false if the channel is closed, so that
// they will never be taken. The lock of the device is held.
func (c *EventChannel) offer(id *ID) bool {
	c.mu.Lock()
	dead := c.dead
	if !dead && !id.offered {
		id.offered = true
		c.none.Store(false)
		c.listeners = append(c.listeners, id)
	}
	c.mu.Unlock()
	c.wake()
	return !dead
}

// forget drops the events and requests of an ID.
func (c *EventChannel) forget(id *ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.events.take(id) != nil {
	}
	c.unlist(id)
}

// unlist removes a listener from the list. c.mu is held.
func (c *EventChannel) unlist(id *ID) {
	if id.offered {
		id.offered = false
		c.listeners = slices.DeleteFunc(c.listeners, func(x *ID) bool { return x == id })
	}
}

// Poll returns the next event, or nil. In polling mode it makes no progress by itself.
func (c *EventChannel) Poll() *Event {
	if c.none.Load() { // a Conn asks for each message
		return nil
	}
	if e := c.pollEvent(); e != nil {
		return e // without the gate
	}
	return c.pollRequest()
}

func (c *EventChannel) pollEvent() *Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events.head == nil {
		return nil
	}
	e := c.events.take(c.events.head.ID)
	if c.events.head != nil || len(c.listeners) > 0 {
		c.sig.Set() // wake another waiting goroutine
	}
	return e
}

func (c *EventChannel) pollRequest() *Event {
	if c.take == nil {
		return c.nextRequest()
	}
	if !c.take() {
		return nil
	}
	e := c.nextRequest()
	if e == nil || e.Type != EventConnectRequest {
		c.give()
	}
	return e
}

// nextRequest is pollRequest without the gate. If it finds nothing and the program uses Notify, the
// device's goroutine makes progress from then on.
func (c *EventChannel) nextRequest() *Event {
	for {
		if e := c.pollEvent(); e != nil {
			return e
		}
		c.mu.Lock()
		if c.events.head != nil {
			c.mu.Unlock()
			continue
		}
		if len(c.listeners) == 0 {
			notified := c.notify != nil && !c.dead
			c.none.Store(c.notify == nil && c.take == nil && c.events.head == nil)
			c.mu.Unlock()
			if notified {
				c.s.Unattended() // the program probably waits in its own way
			}
			return nil
		}
		id := c.listeners[0]
		c.unlist(id)
		c.mu.Unlock()
		if e := id.takeRequest(c); e != nil {
			return e
		}
	}
}

// Get waits for the next event (rdma_get_cm_event). Events need no acknowledgement. The error is
// that of the context or ErrClosed.
func (c *EventChannel) Get(ctx context.Context) (*Event, error) {
	if c.s == nil {
		return nil, access.ErrZero
	}
	c.s.Turn(nil)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		if e := c.Poll(); e != nil {
			return e, nil
		}
		c.mu.Lock()
		dead := c.dead
		c.mu.Unlock()
		if dead {
			c.sig.Set() // wake the next waiter
			return nil, verbs.ErrClosed
		}
		if err := c.s.Wait(ctx, c.sig.C(), tries); err != nil {
			if c.s.Barrier() {
				if e := c.pollEvent(); e != nil {
					return e, nil
				}
			}
			return nil, err
		}
	}
}

// Close ends the channel; calls of Get return ErrClosed. IDs that use it go on without events:
// close them first. Connection requests that were not taken, or come later, are refused.
func (c *EventChannel) Close() error {
	c.mu.Lock()
	c.dead = true
	for c.events.head != nil {
		c.events.take(c.events.head.ID)
	}
	left := slices.Clone(c.listeners)
	for _, id := range left {
		c.unlist(id)
	}
	c.mu.Unlock()
	c.sig.Set()
	return doIfOpen(c.s, func(now int64) {
		for _, id := range left {
			if id.ch == c && !id.closed {
				id.refuseRequests(now)
			}
		}
	})
}
