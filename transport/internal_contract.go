package transport

import "github.com/goroce/goroce/mem"

// The contracts between the parts of the engine. Each part is written against
// these; this file goes away when every type has its own.
//
// Ready list. qp.markReady() puts the QP on the engine's ready list (no-op if
// it is there). PollTransmit takes QPs round robin; for each it calls
//
//	n := qp.resp.pollTransmit(now, batch) // responses and ACKs first
//	n += qp.sq.pollTransmit(now, batch[n:]) // then requests, up to a quantum
//
// and keeps the QP on the list if either has more to send now.
//
// Receive. HandlePacket decodes into e.rx, runs the checks of wire-spec 2.4
// and calls, with p = &e.rx:
//
//	qp.resp.handleRequest(now, p)   RC requests            (responder.go)
//	qp.sq.handleResponse(now, p)    RC ACK, READ, atomics  (completer.go)
//	qp.handleUC(now, p), qp.handleUD(now, p, rx)
//	qp.handleCNP(now, p)
//
// Timers. qp.setTimer(id, at), qp.stopTimer(id), qp.timerSet(id) bool. Expiry
// calls qp.onTimer(now, id), which dispatches to the part that owns the id.
//
// Errors. qp.fatal(now, ev): moves the QP to ERR, flushes both queues with
// WCFlushErr and raises the event. sq.failHead(now, status, vendor) completes
// the oldest send request with status and then calls qp.fatal.
//
// Completions. cq.push(wc *WC, solicited bool) bool; false means overflow, in
// which case the CQ has raised its event and the caller moves the QP to ERR.
//
// Receive queue. qp.takeRecv() (*recvWQE) returns the next receive request
// from the QP's queue or its SRQ, nil if there is none; it stays valid until
// qp.recycleRecv(w). The responder holds at most one at a time.
type (
	readyList struct{ head, tail *QP }
	qpLink    struct {
		next   *QP
		queued bool
	}
	timerQueue struct{}
	timer      struct{ at int64 }
	eventQueue struct{}
	requester  struct{}
	responder  struct{}
	recvQueue  struct{}
	recvWQE    struct{}
)

// timerID names the timers of a QP.
type timerID uint8

const (
	timerAck    timerID = iota // requester: oldest unacknowledged packet
	timerRNR                   // requester: wait after an RNR NAK
	timerNAK                   // responder: repeat the sequence NAK of a gap
	timerLinger                // responder: end of the linger after a fatal NAK
	numTimers
)

// CQ is a completion queue.
type CQ struct{}

// SRQ is a shared receive queue.
type SRQ struct{}

// AH is an address handle.
type AH struct{}

// CreateCQ makes a CQ for at least n completions.
func (e *Engine) CreateCQ(n int, userData any) (*CQ, error) { panic("contract only") }

// Poll moves up to len(wcs) completions out of the CQ and returns how many.
func (cq *CQ) Poll(wcs []WC) int { panic("contract only") }

// Arm asks for one EventCompletion at the next completion, or, with
// solicitedOnly, at the next solicited or failed one. As with ibv_req_notify_cq,
// poll once more after arming.
func (cq *CQ) Arm(solicitedOnly bool) { panic("contract only") }

// Resize changes the capacity to at least n; it fails if more completions are
// waiting.
func (cq *CQ) Resize(n int) error { panic("contract only") }

// Destroy fails with ErrBusy while QPs use the CQ.
func (cq *CQ) Destroy() error { panic("contract only") }

// SRQAttr describes a shared receive queue.
type SRQAttr struct {
	MaxWR  int
	MaxSGE int
	Limit  int // raise EventSRQLimitReached when fewer are left; 0 is off
}

// UserData returns what was given to CreateCQ.
func (cq *CQ) UserData() any { panic("contract only") }

// CreateSRQ makes a shared receive queue.
func (e *Engine) CreateSRQ(pd *mem.PD, a SRQAttr, userData any) (*SRQ, error) { panic("contract only") }

// PostRecv queues a receive work request. QPs that wait in RNR are not
// notified: the peer tries again.
func (s *SRQ) PostRecv(now int64, wr *RecvWR) error { panic("contract only") }

// Modify arms the limit event or resizes the queue (ibv_modify_srq).
func (s *SRQ) Modify(limit, maxWR int) error { panic("contract only") }

// Query returns the attributes.
func (s *SRQ) Query() SRQAttr { panic("contract only") }

// Destroy fails with ErrBusy while QPs use the SRQ.
func (s *SRQ) Destroy() error { panic("contract only") }

// CreateAH makes an address handle for UD sends.
func (e *Engine) CreateAH(pd *mem.PD, av AddressVector) (*AH, error) { panic("contract only") }

// Destroy releases the handle; sends that were posted with it still go out.
func (a *AH) Destroy() error { panic("contract only") }
