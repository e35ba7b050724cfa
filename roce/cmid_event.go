package roce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// CMEventType is the type of a [CMEvent] (rdma_cm_event_type, same values).
type CMEventType uint8

// The events of the communication manager.
const (
	CMAddrResolved CMEventType = iota
	CMAddrError
	CMRouteResolved
	CMRouteError
	CMConnectRequest  // on a new ID of a listener
	CMConnectResponse // the peer accepted; only for an ID without queue pair: call Establish
	CMConnectError
	CMUnreachable // the peer does not answer
	CMRejected
	CMEstablished
	CMDisconnected
	CMDeviceRemoval
	CMMulticastJoin
	CMMulticastError
	CMAddrChange
	CMTimewaitExit
)

var cmEventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
	"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL",
	"MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
}

// String returns the text of rdma_event_str.
func (t CMEventType) String() string {
	if int(t) < len(cmEventNames) {
		return "RDMA_CM_EVENT_" + cmEventNames[t]
	}
	return fmt.Sprintf("CMEventType(%d)", uint8(t))
}

// CMEvent is something that happened to a [CMID] (rdma_cm_event).
type CMEvent struct {
	Type CMEventType
	// ID is what it happened to; for CMConnectRequest a new ID, which shares the
	// listener's channel and has to be closed.
	ID *CMID
	// ListenID is the listener, for CMConnectRequest.
	ListenID *CMID
	// Err says why, for events that are errors: a *RejectedError for
	// CMRejected, otherwise one that matches ErrUnreachable or says more.
	Err error
	// Conn is what the peer said, from this side's point of view, for
	// CMConnectRequest, CMConnectResponse and CMEstablished: ResponderResources is
	// what the peer wants to have in flight to us, InitiatorDepth how much it can
	// serve.
	Conn ConnParam
	// UD is how to send to the peer or the group: for CMEstablished of port space
	// UDP, and CMMulticastJoin.
	UD UDParam
	// PrivateData is what the peer sent along, filled up with zeros; nil if
	// there was no message with room for it.
	PrivateData []byte
}

// UDParam is the way to a datagram peer or a multicast group (rdma_ud_param).
type UDParam struct {
	AV   AddressVector // for [PD.CreateAH]
	QPN  ib.QPN
	QKey ib.QKey
}

// RejectedError says that the peer refused a connection.
type RejectedError struct {
	Reason      mad.RejectReason // port space TCP
	SIDRStatus  mad.SIDRStatus   // port space UDP
	Info        []byte           // additional information that goes with the reason
	PrivateData []byte           // filled up with zeros
	datagram    bool
}

func (e *RejectedError) Error() string {
	if e.datagram {
		return "roce: rejected: " + e.SIDRStatus.String()
	}
	return fmt.Sprintf("roce: rejected: %v (%d)", e.Reason, uint16(e.Reason))
}

// Is makes the reasons that net has errors for match them: nobody listens is
// ErrConnRefused.
func (e *RejectedError) Is(target error) bool {
	refused := e.Reason == mad.RejectInvalidServiceID
	if e.datagram {
		refused = e.SIDRStatus == mad.SIDRUnsupportedService
	}
	return refused && target == ErrConnRefused
}

var (
	// ErrConnRefused is matched by a *RejectedError when nobody listens.
	ErrConnRefused = errors.New("roce: connection refused: nobody listens on the port")
	// ErrUnreachable is wrapped when the peer did not answer.
	ErrUnreachable = errors.New("roce: the peer does not answer")
	// ErrAddrNotLocal is wrapped when an address to speak from is none of the
	// device's.
	ErrAddrNotLocal = errors.New("roce: not an address of this device")
	// ErrAddrInUse is wrapped when a port is taken.
	ErrAddrInUse = errors.New("roce: address already in use")
)

// EventChannel delivers the events of one or more [CMID] (rdma_event_channel).
type EventChannel struct {
	d      *Device
	mu     sync.Mutex
	events []*CMEvent
	dead   bool
	sig    signal
	also   signal // set with sig, if not nil
}

// CreateEventChannel makes a channel for IDs of the device.
func (d *Device) CreateEventChannel() (*EventChannel, error) {
	if d.isClosed() {
		return nil, d.closedErr()
	}
	return &EventChannel{d: d, sig: newSignal()}, nil
}

// push adds an event. It is called with the lock of the device held. It reports
// false if the channel is closed: the event is lost.
func (c *EventChannel) push(e *CMEvent) bool {
	c.mu.Lock()
	dead := c.dead
	if !dead {
		c.events = append(c.events, e)
	}
	c.mu.Unlock()
	c.sig.set()
	if c.also != nil {
		c.also.set()
	}
	return !dead
}

// forget drops the events of an ID that is closed, and returns the connection
// requests among them, whose IDs nobody has seen yet.
func (c *EventChannel) forget(id *CMID) (orphans []*CMID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := c.events[:0]
	for _, e := range c.events {
		switch {
		case e.ListenID == id:
			orphans = append(orphans, e.ID)
		case e.ID != id:
			keep = append(keep, e)
		}
	}
	clear(c.events[len(keep):])
	c.events = keep
	return orphans
}

// Poll returns the next event if there is one (nil otherwise). In polling mode
// it makes no progress by itself.
func (c *EventChannel) Poll() *CMEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return nil
	}
	e := c.events[0]
	c.events[0] = nil
	c.events = c.events[1:]
	if len(c.events) == 0 {
		c.events = nil
	} else {
		c.sig.set() // for another goroutine that waits
	}
	return e
}

// Get waits for the next event (rdma_get_cm_event). Events need no
// acknowledgement. The error is that of the context or ErrClosed.
func (c *EventChannel) Get(ctx context.Context) (*CMEvent, error) {
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
	left := c.events
	c.events = nil
	c.mu.Unlock()
	c.sig.set()
	var errs []error
	for _, e := range left {
		if e.Type == CMConnectRequest {
			errs = append(errs, e.ID.Close()) // nobody else knows of it
		}
	}
	return errors.Join(errs...)
}

// dgid returns the GID of an address.
func dgid(a netip.Addr) ib.GID { return ib.GIDFromAddr(a) }
