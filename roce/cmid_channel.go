package roce

import (
	"context"
	"slices"
	"sync"
)

// EventChannel delivers the events of one or more [CMID] (rdma_event_channel).
//
// Connection requests come after all other events: what frees memory comes before
// what takes some. They wait in the backlog of their listener until Poll or Get takes
// them; one that is over by then, because the peer took it back, does not come at all.
// So what waits for an application that does not look is bounded: the backlogs, and a few events of
// each ID that it has.
type EventChannel struct {
	d         *Device
	mu        sync.Mutex
	events    cmQueue
	listeners []*CMID // that have requests to take
	dead      bool
	sig       signal
	also      signal // set with sig, if not nil
}

// CreateEventChannel makes a channel for IDs of the device.
func (d *Device) CreateEventChannel() (*EventChannel, error) {
	if d.isClosed() {
		return nil, d.closedErr()
	}
	return &EventChannel{d: d, sig: newSignal()}, nil
}

// cmQueue is a list of events, oldest first, that gives up those of one ID without a look at
// the others.
type cmQueue struct {
	head, tail *CMEvent
	len        int
}

func (q *cmQueue) push(e *CMEvent) {
	e.prev = q.tail
	if q.tail != nil {
		q.tail.next = e
	} else {
		q.head = e
	}
	q.tail = e
	q.len++
	if id := e.ID; id.lastEvent != nil {
		id.lastEvent.sibling = e
		id.lastEvent = e
	} else {
		id.firstEvent, id.lastEvent = e, e
	}
}

// take takes the first event of an ID; nil if there is none.
func (q *cmQueue) take(id *CMID) *CMEvent {
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
	return e
}

// push adds an event; it is lost if the channel is closed. The lock of the device is
// held.
func (c *EventChannel) push(e *CMEvent) {
	c.mu.Lock()
	if !c.dead {
		c.events.push(e)
	}
	c.mu.Unlock()
	c.wake()
}

func (c *EventChannel) wake() {
	c.sig.set()
	if c.also != nil {
		c.also.set()
	}
}

// offer notes that a listener has requests. It reports false if the channel is closed:
// nobody will take them. The lock of the device is held.
func (c *EventChannel) offer(id *CMID) bool {
	c.mu.Lock()
	dead := c.dead
	if !dead && !id.offered {
		id.offered = true
		c.listeners = append(c.listeners, id)
	}
	c.mu.Unlock()
	c.wake()
	return !dead
}

// forget drops what the channel has of an ID.
func (c *EventChannel) forget(id *CMID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.events.take(id) != nil {
	}
	c.unlist(id)
}

// unlist takes a listener off the list. c.mu is held.
func (c *EventChannel) unlist(id *CMID) {
	if id.offered {
		id.offered = false
		c.listeners = slices.DeleteFunc(c.listeners, func(x *CMID) bool { return x == id })
	}
}

// Poll returns the next event if there is one (nil otherwise). In polling mode
// it makes no progress by itself.
func (c *EventChannel) Poll() *CMEvent {
	if e := c.pollEvent(); e != nil {
		return e
	}
	return c.pollRequest()
}

// pollEvent is Poll without requests.
func (c *EventChannel) pollEvent() *CMEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events.head == nil {
		return nil
	}
	e := c.events.take(c.events.head.ID)
	if c.events.head != nil || len(c.listeners) > 0 {
		c.sig.set() // for another goroutine that waits
	}
	return e
}

// pollRequest is Poll for nothing but requests.
func (c *EventChannel) pollRequest() *CMEvent {
	for {
		c.mu.Lock()
		if len(c.listeners) == 0 {
			c.mu.Unlock()
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

// Get waits for the next event (rdma_get_cm_event). Events need no
// acknowledgement. The error is that of the context or ErrClosed.
func (c *EventChannel) Get(ctx context.Context) (*CMEvent, error) {
	c.d.turn()
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
			c.sig.set() // for the next waiter
			return nil, ErrClosed
		}
		if err := c.d.pause(ctx, c.sig, tries); err != nil {
			return nil, err
		}
	}
}

// Close ends the channel; calls of Get return ErrClosed. IDs that use it go on
// without events: close them first. Connection requests that nobody has taken,
// or that still come, are refused.
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
	c.sig.set()
	return c.d.doIfOpen(func(now int64) {
		for _, id := range left {
			if id.ch == c && !id.closed {
				id.refuseRequests(now)
			}
		}
	})
}
