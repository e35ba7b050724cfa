package cm

import "fmt"

// State is the state of a [Conn] (IBTA 12.9.5, 12.9.6, 12.11).
type State uint8

// The states.
//
//	               takes                                    repeats
//	ReqSent        REP REJ MRA(REQ)                         REQ
//	MRAReqRcvd     REP REJ MRA(REQ)                         REQ, after the peer's service time
//	ReqRcvd        REQ* REJ                                 - (gone if no REQ* comes)
//	RepRcvd        REP* REJ DREQ                            -
//	RepSent        RTU REQ* REJ MRA(REP) DREQ, COMM_EST     REP
//	MRARepRcvd     as RepSent                               REP, after the peer's service time
//	Established    REP* DREQ REJ LAP, DREP after a question -
//	DReqSent       DREP DREQ REJ                            DREQ
//	Timewait       REQ* REP* DREQ*                          -
//	SIDRReqSent    SIDR_REP                                 SIDR_REQ
//	SIDRReqRcvd    SIDR_REQ*                                - (gone if no SIDR_REQ* comes)
//	SIDRRepSent    SIDR_REQ*                                -
//
// A star marks duplicates: they are answered as the first message was (with an MRA while the
// application has not answered), and change nothing.
const (
	Idle        State = iota // over, or never begun
	ReqSent                  // active: waiting for REP
	MRAReqRcvd               // active: the peer asked for time
	ReqRcvd                  // passive: waiting for the application
	RepRcvd                  // active: waiting for the application to get ready
	RepSent                  // passive: waiting for RTU, half open
	MRARepRcvd               // passive: the peer asked for time
	Established              // both ends know
	DReqSent                 // waiting for DREP
	Timewait                 // over; remembered for delayed duplicates
	SIDRReqSent              // active lookup: waiting for SIDR_REP
	SIDRReqRcvd              // passive lookup: waiting for the application
	SIDRRepSent              // passive lookup: answered; remembered for duplicates
	numStates
)

var stateNames = [numStates]string{
	"IDLE", "REQ_SENT", "MRA_REQ_RCVD", "REQ_RCVD", "REP_RCVD", "REP_SENT", "MRA_REP_RCVD",
	"ESTABLISHED", "DREQ_SENT", "TIMEWAIT", "SIDR_REQ_SENT", "SIDR_REQ_RCVD", "SIDR_REP_SENT",
}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// waitsForApplication reports whether the next move is the application's.
func (s State) waitsForApplication() bool {
	return s == ReqRcvd || s == SIDRReqRcvd
}

// halfOpen reports whether the peer has yet to show that it knows of the connection.
func (s State) halfOpen() bool { return s == RepSent || s == MRARepRcvd }
