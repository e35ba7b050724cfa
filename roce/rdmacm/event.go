package rdmacm

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// EventType is the type of an [Event] (rdma_cm_event_type, same values).
type EventType uint8

// The events of the communication manager.
const (
	EventAddrResolved EventType = iota
	EventAddrError
	EventRouteResolved
	EventRouteError
	EventConnectRequest  // on a new ID of a listener
	EventConnectResponse // the peer accepted; only for an ID without a queue pair: call Establish
	EventConnectError
	EventUnreachable // the peer does not answer
	EventRejected
	EventEstablished
	EventDisconnected
	EventDeviceRemoval // its link is broken: close the ID, and the device
	EventMulticastJoin
	EventMulticastError
	EventAddrChange
	EventTimewaitExit
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
	"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL",
	"MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
}

// String returns the text of rdma_event_str.
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return "RDMA_CM_EVENT_" + eventNames[t]
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is an event of an [ID] (rdma_cm_event).
type Event struct {
	Type EventType
	// ID is the ID concerned; for EventConnectRequest a new one, which shares the listener's
	// channel and must be closed.
	ID *ID
	// ListenID is the listener, for EventConnectRequest.
	ListenID *ID
	// Err is the cause, for events that are errors: a *RejectedError for EventRejected; ErrPeerGone
	// for an EventDisconnected of a peer that vanished without a goodbye; otherwise an error that
	// matches ErrUnreachable or ErrConnRefused, or says more.
	Err error
	// Conn has the peer's parameters, from this side's point of view, for EventConnectRequest,
	// EventConnectResponse and EventEstablished: ResponderResources is how many requests the peer
	// wants to have in flight to us, InitiatorDepth how many it can serve.
	Conn ConnParam
	// UD tells how to send to the peer or the group: for EventEstablished of port space UDP, and
	// EventMulticastJoin.
	UD UDParam
	// PrivateData is what the peer sent, padded with zeros; nil if there was no message with room
	// for it.
	PrivateData []byte

	prev, next *Event // in the channel
	sibling    *Event // the next one of the same ID
}

// UDParam is the path to a datagram peer or a multicast group (rdma_ud_param).
type UDParam struct {
	AV   verbs.AddressVector // for [verbs.PD.CreateAH]
	QPN  ib.QPN              // for SendWR.RemoteQPN
	QKey ib.QKey             // for SendWR.RemoteQKey
}

// dgid returns the GID of an address.
func dgid(a netip.Addr) ib.GID { return ib.GIDFromAddr(a) }
