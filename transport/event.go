package transport

// EventType is a notification for the application or an asynchronous event
// (ibv_event_type where it has one).
type EventType uint8

// The events.
const (
	// EventCompletion: an armed CQ has a completion. Raised once for each Arm.
	EventCompletion EventType = iota
	EventCQError              // CQ overflow
	EventQPFatal
	EventQPRequestError // invalid request at the responder
	EventQPAccessError  // remote access violation at the responder
	EventCommEstablished
	EventSQDrained
	EventLastWQEReached
	EventSRQError
	EventSRQLimitReached
	EventDeviceFatal
	EventPortActive
	EventPortError
	EventPortMTU // the port's largest path MTU changed; new connections use it
	// EventQPUnanswered: the peer of an RC QP does not answer. ACK timeouts and second loss probes
	// raise it, so that a communication manager can ask about the peer: see QP.WatchSilence.
	EventQPUnanswered
)

var eventNames = [...]string{
	"completion", "CQ error", "QP fatal", "QP request error", "QP access error",
	"communication established", "SQ drained", "last WQE reached", "SRQ error",
	"SRQ limit reached", "device fatal", "port active", "port error", "port MTU changed",
	"QP unanswered",
}

func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "unknown event"
}

// Event is one notification. Fields that its type does not use are nil.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}
