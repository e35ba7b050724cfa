package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// QP is a queue pair. Its parts live in files of their own:
//
//	qp.go, qp_state.go    the object, its attributes and state transitions
//	post.go               posting of work requests, validation, inline copies
//	requester.go          segmentation, window, retransmission (send queue)
//	completer.go          responses: ACK, NAK, RNR, READ data, atomics
//	responder.go          requests: the chain of checks, execution, ACK and NAK
//	responder_replay.go   duplicates: saved READ, atomic and FLUSH resources
//	uc.go, ud.go          the unreliable transports
type QP struct {
	e        *Engine
	num      ib.QPN
	typ      ib.Transport
	state    QPState
	attr     QPAttr
	caps     QPCaps
	sigAll   bool
	pd       *mem.PD
	sendCQ   *CQ
	recvCQ   *CQ
	srq      *SRQ
	path     Path
	mtu      int // path MTU in bytes
	userData any

	sq   requester // send queue: requester and completer
	rq   recvQueue // own receive queue, unused with an SRQ
	resp responder

	link   qpLink           // membership of the engine's ready list
	timers [numTimers]timer // see timer.go
}

// CreateQP makes a QP in state RESET. A QPN of 0 in the attributes means a
// random one.
func (e *Engine) CreateQP(a QPInitAttr) (*QP, error) { panic("contract only") }

// Destroy ends the QP: nothing is sent or completed any more, timers stop, its
// completions stay in the CQs.
func (qp *QP) Destroy() error { panic("contract only") }

// Modify changes the attributes that mask selects, by the table of required
// and optional attributes for the transition.
func (qp *QP) Modify(now int64, a QPAttr, mask AttrMask) error { panic("contract only") }

// Query returns all attributes as they are now.
func (qp *QP) Query() (QPAttr, QPInitAttr) { panic("contract only") }

// PostSend queues a send work request. An error means that nothing was queued.
func (qp *QP) PostSend(now int64, wr *SendWR) error { panic("contract only") }

// PostRecv queues a receive work request.
func (qp *QP) PostRecv(now int64, wr *RecvWR) error { panic("contract only") }

// Number returns the QPN.
func (qp *QP) Number() ib.QPN { return qp.num }

// State returns the current state.
func (qp *QP) State() QPState { return qp.state }

// UserData returns what QPInitAttr.UserData was.
func (qp *QP) UserData() any { return qp.userData }
