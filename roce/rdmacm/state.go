package rdmacm

import (
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

// idState is how far an ID has come. It is never assigned: it follows from the connection's state
// machine (see cm.State) or, before there is a connection, from the fields of the ID.
type idState uint8

const (
	idIdle idState = iota
	idBound
	idAddrResolved
	idRouteResolved
	idListening
	idRequested  // passive: the application has the request
	idConnecting // active: REQ sent; passive: REP sent
	idResponded  // active, without a queue pair: the application has the reply
	idConnected
	idOver
)

var idStateNames = [...]string{
	"idle", "bound", "address resolved", "route resolved", "listening", "connection requested", "connecting",
	"connection accepted", "connected", "disconnected",
}

func (s idState) String() string { return idStateNames[s] }

// state returns how far the ID has come. The lock is held.
func (id *ID) state() idState {
	switch {
	case id.conn != nil:
		return stateOf(id.conn.State(), id.met)
	case id.listener != nil:
		return idListening
	case id.routed:
		return idRouteResolved
	case id.remote.IsValid():
		return idAddrResolved
	case id.bound:
		return idBound
	}
	return idIdle
}

// stateOf returns the state of an ID that has a connection. met is for datagrams: the record of
// their lookup ends with the answer, but the result stays.
func stateOf(c cm.State, met bool) idState {
	switch c {
	case cm.ReqRcvd, cm.SIDRReqRcvd:
		return idRequested
	case cm.ReqSent, cm.MRAReqRcvd, cm.RepSent, cm.MRARepRcvd, cm.SIDRReqSent:
		return idConnecting
	case cm.RepRcvd:
		return idResponded
	case cm.Established:
		return idConnected
	case cm.Idle, cm.SIDRRepSent:
		if met {
			return idConnected
		}
	}
	return idOver // also cm.DReqSent, cm.Timewait
}

// requireState returns an error unless the ID is in one of the states.
func (id *ID) requireState(op string, states ...idState) error {
	now := id.state()
	for _, s := range states {
		if now == s {
			return nil
		}
	}
	return &IDStateError{op, now.String()}
}

// IDStateError says that a call does not fit the state of the ID. It matches
// [verbs.ErrInvalidState].
type IDStateError struct {
	Op    string // the call
	State string // such as "connected"
}

func (e *IDStateError) Error() string { return "roce: " + e.Op + ": the ID is " + e.State }

// Is makes every IDStateError match ErrInvalidState.
func (e *IDStateError) Is(target error) bool { return target == verbs.ErrInvalidState }
