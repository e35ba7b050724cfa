package cm

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// EventType says what happened to a [Conn].
type EventType uint8

// The events.
const (
	// EventRequest: a listener has a new connection or lookup, in ReqRcvd or
	// SIDRReqRcvd; REQ or SIDRReq is set.
	EventRequest EventType = iota + 1
	// EventReply: the peer accepted; REP is set. Call Conn.Ready or Reject.
	EventReply
	// EventEstablished: the peer knows that the connection is up. Private is that of the RTU, if
	// one brought the news.
	EventEstablished
	// EventRejected: the peer refused or gave up; Reason and Private are set.
	EventRejected
	// EventUnreachable: the peer did not answer.
	EventUnreachable
	// EventDisconnected: the connection is over, whichever side ended it. Private is that of the
	// DREQ or the DREP. If the peer ended it with a REJ, Reason is set, such as
	// mad.RejectStaleConnection.
	EventDisconnected
	// EventTimewaitExit: the record of the connection is gone; the numbers of its queue pair may be
	// reused.
	EventTimewaitExit
	// EventResolved: the answer to a lookup; SIDRRep is set, whatever its status.
	EventResolved
)

var eventNames = [...]string{
	1: "request", "reply", "established", "rejected", "unreachable", "disconnected", "timewait exit", "resolved",
}

func (t EventType) String() string {
	if int(t) < len(eventNames) && eventNames[t] != "" {
		return eventNames[t]
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is an event of a connection or a listener. The receiver owns what its slices refer to.
type Event struct {
	Type     EventType
	Conn     *Conn
	Listener *Listener // EventRequest
	REQ      *mad.REQ
	REP      *mad.REP
	SIDRReq  *mad.SIDRReq
	SIDRRep  *mad.SIDRRep
	CMA      mad.CMAHeader // EventRequest of a service of RDMA-CM
	ECE      ECE           // EventRequest and EventReply of a connection
	Reason   mad.RejectReason
	Info     []byte // EventRejected: additional information
	Private  []byte // without the CMA header

	// EventDisconnected: the peer does not know the connection any more, its process is gone, or
	// another says so for it.
	Gone   bool
	NoPort bool // EventUnreachable: the host reports that no socket there has the port
	NoHost bool // EventUnreachable: the network, or this host, reports that no way leads to the host
}

// Accept is the content of a REP.
type Accept struct {
	QPN                ib.QPN
	QKey               ib.QKey
	StartingPSN        ib.PSN // the first PSN expected from the peer
	ResponderResources uint8
	InitiatorDepth     uint8
	TargetAckDelay     ib.TimeoutCode
	FlowControl        bool
	RNRRetryCount      uint8
	SRQ                bool
	ECE                ECE
	Private            []byte // up to mad.REPPrivateBytes
	// Bytes is the memory that the owner holds for the connection. It counts towards
	// Limits.HalfOpenBytes until the peer has shown that it knows of the connection.
	Bytes int
}

// clone copies b, which may be nil.
func clone(b []byte) []byte { return append([]byte(nil), b...) }
