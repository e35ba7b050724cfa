package transport

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport/cc"
)

// QP is a queue pair. Its parts live in files of their own:
//
//	qp.go, qp_state.go    the object, its life and state transitions
//	qp_attr.go            checks of attributes
//	recvqueue.go, srq.go  receive work requests
//	post_send.go          posting of send work requests, inline copies
//	requester.go          segmentation, window, retransmission (send queue)
//	completer.go          responses: ACK, NAK, RNR, READ data, atomics
//	responder.go          requests: the chain of checks, execution, ACK and NAK
//	responder_replay.go   duplicates: saved READ, atomic and FLUSH resources
//	responder_*.go        the rest of it, listed at the type
//	uc.go, ud.go          receiving on the unreliable transports
//	mcast.go, cnp.go      multicast groups, congestion notification
//	congestion.go         rate limit and pacing
//	delay.go              congestion control by round trips
//	room.go               what may be on its way, over all QPs
//
// Fields are ordered as packets meet them, with those that every packet needs together. With
// thousands of busy QPs they are not in the cache, and each 64-byte line costs as much as handling
// a packet.
type QP struct {
	e     *Engine
	num   ib.QPN
	typ   ib.Transport
	state QPState

	pending      eventSet
	established  bool // EventCommEstablished was raised
	watchFirst   bool // raise it in RTS as well: see WatchEstablished
	watchSilence bool // raise EventQPUnanswered
	sqDraining   bool // SQD, and not drained yet
	gone         bool // Destroy was called
	sigAll       bool
	delayed      bool       // congestion control by delay: see delay.go
	control      *cc.Config // nil for UD

	link    qpLink      // membership of the engine's ready list
	cc      *congestion // nil: no congestion control, or it sets no limit
	delay   *byDelay    // nil: no long round trip yet, or no such control
	share   qpShare     // of budgets: see room.go
	sendCQ  *CQ
	pd      *mem.PD
	timers  qpTimers // see timer.go
	path    Path
	carried uint32    // bytes in long messages; lightBytes and more: see carry
	attr    QPAttr    // State and CurState are unused: see state
	mtu     int       // path MTU in bytes
	sq      requester // send queue: requester and completer
	resp    responder

	caps     QPCaps
	recvCQ   *CQ
	srq      *SRQ
	rq       recvQueue // own receive queue, unused with an SRQ
	curRecv  *recvWQE  // taken from rq or srq, not completed yet
	noRecv   uint64    // this QP's part of Counters.DropNoRecv
	userData any
}

// CreateQP makes a QP in state RESET. A QPN of 0 in the attributes selects a random number, because
// a predictable one invites forged packets.
func (e *Engine) CreateQP(a QPInitAttr) (*QP, error) {
	if err := e.checkInitAttr(&a); err != nil {
		return nil, err
	}
	n, err := e.allocQPN(a.QPN)
	if err != nil {
		return nil, err
	}
	if err := e.retain(&a); err != nil {
		return nil, err
	}
	qp := &QP{
		e: e, num: n, typ: a.Type, caps: a.Caps, sigAll: a.SigAll, pd: a.PD,
		sendCQ: a.SendCQ, recvCQ: a.RecvCQ, srq: a.SRQ, userData: a.UserData,
	}
	if qp.srq != nil {
		qp.caps.MaxRecvWR, qp.caps.MaxRecvSGE = 0, 0
	} else {
		qp.rq.init(a.Caps.MaxRecvWR, a.Caps.MaxRecvSGE)
	}
	qp.sq.init(qp)
	qp.resp.init(qp)
	if a.Type != ib.UD {
		qp.control = &e.cfg.Tuning.Congestion
		if a.Congestion != nil {
			own := *a.Congestion
			qp.control = &own
		}
		qp.cc = newCongestion(qp.control)
		qp.delayed = a.Type == ib.RC && qp.control.ByRoundTrips()
	}
	e.events.reserve(qp.eventRoom())
	e.qps[n] = qp
	return qp, nil
}

// allocQPN returns want, or a random free number if want is 0.
func (e *Engine) allocQPN(want ib.QPN) (ib.QPN, error) {
	const op = "create QP"
	if want != 0 {
		if want >= ib.QPNMulticast {
			return 0, argError(op, "qp_num", fmt.Sprintf("%v is not a QP number", want))
		}
		if !e.cfg.Slot.Has(want) {
			return 0, argError(op, "qp_num", fmt.Sprintf("%v belongs to another device at the same address", want))
		}
		if e.qps[want] != nil {
			return 0, argError(op, "qp_num", fmt.Sprintf("%v is in use", want))
		}
		return want, nil
	}
	for range maxQPNAttempts {
		var b [4]byte
		if _, err := io.ReadFull(e.cfg.Rand, b[:]); err != nil {
			return 0, opErr(op, err, "random number")
		}
		n := e.cfg.Slot.QPN(binary.BigEndian.Uint32(b[:]))
		if n >= minQPN && n != ib.QPNMulticast && e.qps[n] == nil {
			return n, nil
		}
	}
	return 0, opErr(op, ErrLimit, "no free number found")
}

// Destroy ends the QP: it stops sending, completions and timers, and discards the QP's events that
// were not taken. Completions stay in the CQs; a request taken from an SRQ goes back there. Destroy
// unbinds type 2B windows bound to the QP; a type 2A window makes it fail with mem.ErrBusy.
func (qp *QP) Destroy() error {
	if qp.gone {
		return &EngineError{Op: "destroy QP", Err: ErrDestroyed}
	}
	e := qp.e
	if err := e.cfg.Mem.DetachQP(qp.num); err != nil {
		return err
	}
	qp.quiesce()
	e.mcast.detachAll(qp)
	qp.leaveRecv()
	qp.sq.reset()
	qp.resp.reset()
	qp.state = StateReset
	qp.gone = true
	qp.pd.Release()
	qp.sendCQ.leave()
	qp.recvCQ.leave()
	if qp.srq != nil {
		qp.srq.leave()
	}
	delete(e.qps, qp.num)
	if e.lastQP == qp {
		e.lastQP = nil
	}
	e.events.purge(func(ev *Event) bool { return ev.QP == qp })
	e.events.release(qp.eventRoom())
	return nil
}

// retain notes that a new QP uses its PD, CQs and SRQ, or reports which of them is unusable.
func (e *Engine) retain(a *QPInitAttr) error {
	const op = "create QP"
	exist := len(e.qps)
	if err := e.retainPD(op, a.PD, &exist); err != nil {
		return err
	}
	// checkInitAttr has checked them, but another engine may have destroyed a shared one since.
	gone := ""
	switch {
	case !a.SendCQ.use():
		gone = "send_cq"
	case !a.RecvCQ.use():
		a.SendCQ.leave()
		gone = "recv_cq"
	case a.SRQ != nil && !a.SRQ.use():
		a.SendCQ.leave()
		a.RecvCQ.leave()
		gone = "srq"
	}
	if gone != "" {
		a.PD.Release()
		return argError(op, gone, "destroyed")
	}
	return nil
}

// eventRoom returns how many events the QP can have in its engine's queue: its own, and those of
// objects whose home is another engine.
func (qp *QP) eventRoom() int {
	n := qpEvents
	for _, cq := range []*CQ{qp.sendCQ, qp.recvCQ} {
		if cq.e != qp.e {
			n += cqEvents
		}
	}
	if qp.srq != nil && qp.srq.e != qp.e {
		n += srqEvents
	}
	return n
}

// quiesce stops the timers and takes the QP off the ready list.
func (qp *QP) quiesce() {
	qp.dropTimers()
	qp.unready()
}

// Query returns all current attributes.
func (qp *QP) Query() (QPAttr, QPInitAttr) {
	a := qp.attr
	a.State, a.CurState = qp.state, qp.state
	a.SQDraining = qp.sqDraining
	if qp.state >= StateRTS {
		a.SQPSN = qp.sq.nextPSN()
	}
	if qp.state >= StateRTR {
		a.RQPSN = qp.resp.expectedPSN()
	}
	return a, QPInitAttr{
		Type: qp.typ, PD: qp.pd, SendCQ: qp.sendCQ, RecvCQ: qp.recvCQ, SRQ: qp.srq,
		Caps: qp.caps, SigAll: qp.sigAll, QPN: qp.num, UserData: qp.userData,
	}
}

// InFlight reports whether unacknowledged packets are on their way to the peer: any of this RC QP,
// or a few of other QPs. A request posted now need not leave at once then: the peer is busy, and
// messages to it share datagrams across QPs.
func (qp *QP) InFlight() bool {
	if qp.typ != ib.RC {
		return false
	}
	f := qp.sq.flight
	return qp.sq.una != qp.sq.psn || f != nil && f.used >= fewPackets*f.single.packet
}

// Number returns the QPN.
func (qp *QP) Number() ib.QPN { return qp.num }

// Type returns the service type.
func (qp *QP) Type() ib.Transport { return qp.typ }

// State returns the current state.
func (qp *QP) State() QPState { return qp.state }

// UserData returns QPInitAttr.UserData.
func (qp *QP) UserData() any { return qp.userData }

// NoRecv returns this queue pair's part of Counters.DropNoRecv.
func (qp *QP) NoRecv() uint64 { return qp.noRecv }

// Unreachable returns how many packets the link could not send on the path of a connected QP; see
// [Path].
func (qp *QP) Unreachable() uint64 { return qp.path.Unreachable }
