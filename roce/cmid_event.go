package roce

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
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

	prev, next *CMEvent // in the channel
	sibling    *CMEvent // the next one of the same ID
}

// UDParam is the way to a datagram peer or a multicast group (rdma_ud_param).
type UDParam struct {
	AV   AddressVector // for [PD.CreateAH]
	QPN  ib.QPN
	QKey ib.QKey
}

// dgid returns the GID of an address.
func dgid(a netip.Addr) ib.GID { return ib.GIDFromAddr(a) }
