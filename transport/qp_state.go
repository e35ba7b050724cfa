package transport

import (
	"fmt"

	"github.com/goroce/goroce/ib"
)

// transition is one cell of the table of state transitions: the attributes that Modify requires,
// and those that it accepts besides. Modify refuses a cell that is not ok.
type transition struct {
	ok       bool
	required AttrMask
	optional AttrMask
}

// transitionTable has a row for each state and a column for each next state.
type transitionTable [numQPStates][numQPStates]transition

// transitions are the tables of RC, UC and UD, from IBTA 10.3.1 and table 97 as read by
// ib_modify_qp_is_ok (Linux 6.12). They omit path migration, which RoCE peers do not use, and RESET
// to ERR, as Linux does.
var transitions = map[ib.Transport]*transitionTable{
	ib.RC: buildTransitions(ib.RC),
	ib.UC: buildTransitions(ib.UC),
	ib.UD: buildTransitions(ib.UD),
}

func buildTransitions(t ib.Transport) *transitionTable {
	pick := func(rc, uc, ud AttrMask) AttrMask {
		switch t {
		case ib.RC:
			return rc
		case ib.UC:
			return uc
		}
		return ud
	}
	var tab transitionTable
	set := func(from, to QPState, required, optional AttrMask) {
		tab[from][to] = transition{true, required, optional}
	}
	for from := StateReset; from < numQPStates; from++ {
		set(from, StateReset, 0, 0)
		if from != StateReset {
			set(from, StateErr, 0, 0)
		}
	}
	const (
		setup   = AttrPKeyIndex | AttrPort
		connect = AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	)
	init := pick(setup|AttrAccess, setup|AttrAccess, setup|AttrQKey)
	set(StateReset, StateInit, init, 0)
	set(StateInit, StateInit, 0, init)
	set(StateInit, StateRTR,
		pick(connect|AttrMaxDestRdAtomic|AttrMinRNRTimer, connect, 0),
		pick(AttrAccess|AttrPKeyIndex, AttrAccess|AttrPKeyIndex, AttrPKeyIndex|AttrQKey))

	live := pick(AttrCurState|AttrAccess|AttrMinRNRTimer|AttrWindow|AttrSilence, AttrCurState|AttrAccess,
		AttrCurState|AttrQKey)
	set(StateRTR, StateRTS,
		pick(AttrSQPSN|AttrTimeout|AttrRetryCnt|AttrRNRRetry|AttrMaxRdAtomic, AttrSQPSN, AttrSQPSN), live)
	set(StateRTS, StateRTS, 0, live)
	set(StateRTS, StateSQD, 0, AttrEnSQDNotify)
	set(StateSQD, StateRTS, 0, live)
	set(StateSQD, StateSQD, 0, pick(
		AttrPort|AttrAV|AttrTimeout|AttrRetryCnt|AttrRNRRetry|AttrMaxRdAtomic|AttrMaxDestRdAtomic|
			AttrAccess|AttrPKeyIndex|AttrMinRNRTimer|AttrWindow|AttrSilence,
		AttrAV|AttrAccess|AttrPKeyIndex,
		AttrPKeyIndex|AttrQKey))
	if t != ib.RC {
		// A failed RC send queue takes the whole QP to ERR.
		set(StateSQE, StateRTS, 0, pick(0, AttrCurState|AttrAccess, AttrCurState|AttrQKey))
	}
	return &tab
}

// Modify changes the attributes that mask selects. A table lists the required and optional ones for
// each transition; without AttrState the QP stays in its state. On an error, which is an [ArgError]
// unless the QP was destroyed, nothing changes.
func (qp *QP) Modify(now int64, a QPAttr, mask AttrMask) error {
	if qp.gone {
		return &EngineError{Op: "modify QP", Err: ErrDestroyed}
	}
	qp.e.now = now
	from, to := qp.state, qp.state
	if mask&AttrState != 0 {
		to = a.State
	}
	op := fmt.Sprintf("modify %v QP %v->%v", qp.typ, from, to)
	if to >= numQPStates {
		return argError(op, "qp_state", "unknown state")
	}
	tr := transitions[qp.typ][from][to]
	if !tr.ok {
		return argError(op, "qp_state", "no such transition")
	}
	if missing := tr.required &^ mask; missing != 0 {
		return argError(op, attrName(missing), "required")
	}
	if extra := mask &^ (tr.required | tr.optional | AttrState); extra != 0 {
		return argError(op, attrName(extra), "not allowed")
	}
	if qp.sqDraining && to != StateErr && to != StateReset {
		return argError(op, "qp_state", "the send queue is still draining")
	}
	if err := qp.checkAttrs(op, &a, mask); err != nil {
		return err
	}
	if mask&AttrAV != 0 {
		if err := qp.setPath(op, &a, mask); err != nil {
			return err
		}
	}
	if from == StateRTS && to == StateSQD {
		qp.attr.EnSQDAsyncNotify = false // must be requested again each time
	}
	qp.store(&a, mask)
	if mask&AttrAccess != 0 {
		qp.resp.rightsChanged()
	}
	qp.enter(now, to)
	return nil
}

// setPath derives the path of a connected QP from its address vector.
func (qp *QP) setPath(op string, a *QPAttr, mask AttrMask) error {
	var p Path
	if err := qp.e.resolve(op, &a.AV, false, &p); err != nil {
		return err
	}
	flow := a.AV.FlowLabel
	if flow == 0 {
		peer := qp.attr.DestQPN
		if mask&AttrDestQPN != 0 {
			peer = a.DestQPN
		}
		flow = ib.FlowLabelFromQPNs(qp.num, peer)
	}
	p.SrcPort = ib.SourcePort(flow)
	// On UC an overtaken packet is lost.
	p.Light = qp.typ == ib.RC && qp.carried < lightBytes
	qp.markECT(&p)
	qp.path = p
	return nil
}

// setState changes the state and traces the change.
func (qp *QP) setState(now int64, to QPState) {
	if t := qp.e.cfg.Tracer; t != nil && to != qp.state {
		t.Trace(TraceEvent{Now: now, Kind: TraceState, QPN: qp.num, Detail: qp.state.String() + "->" + to.String()})
	}
	qp.state = to
}

// enter performs a transition that Modify has checked.
func (qp *QP) enter(now int64, to QPState) {
	from := qp.state
	switch {
	case to == StateErr:
		qp.enterErr(now)
		qp.resp.endLinger() // not even the NAK that may have ended the QP earlier
	case to == StateReset:
		qp.reset(now)
	case from == to:
		qp.sq.attrsChanged(now)
		qp.resp.store.deepen(qp.attr.MaxDestRdAtomic)
	case to == StateInit:
		qp.setState(now, to)
	case to == StateRTR:
		qp.mtu = qp.attr.PathMTU.Bytes()
		if qp.typ == ib.UD {
			qp.mtu = qp.e.cfg.MTU.Bytes()
			qp.path.SrcPort = ib.DatagramSourcePort(qp.num)
		}
		if qp.delayed {
			qp.cc, qp.delay = nil, nil
		} else if qp.cc != nil {
			qp.cc.restart()
		}
		qp.setState(now, to)
		qp.resp.start(now)
	case to == StateSQD:
		qp.setState(now, to)
		qp.sqDraining = true
		qp.sq.enterSQD(now)
	case from == StateRTR: // to RTS
		qp.setState(now, to)
		qp.sq.start(now)
	default: // SQD or SQE to RTS
		qp.setState(now, to)
		qp.sq.resume(now)
	}
}

// sqDrained ends the draining of a QP in SQD, once everything begun is complete (IBTA 10.3.1.6).
func (qp *QP) sqDrained(now int64) {
	if qp.state != StateSQD || !qp.sqDraining {
		return
	}
	qp.sqDraining = false
	if qp.attr.EnSQDAsyncNotify {
		qp.raise(EventSQDrained)
	}
}

// reset drops all work without completions and forgets all attributes. A request of an SRQ goes
// back there.
func (qp *QP) reset(now int64) {
	qp.quiesce()
	qp.leaveRecv()
	qp.rq.clear()
	qp.sq.reset()
	qp.resp.reset()
	qp.attr = QPAttr{}
	qp.path, qp.carried = Path{}, 0
	qp.mtu = 0
	qp.established, qp.watchFirst, qp.watchSilence = false, false, false
	qp.sqDraining = false
	qp.setState(now, StateReset)
}
