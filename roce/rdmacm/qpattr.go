package rdmacm

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/verbs"
)

// QPAttr returns the arguments of [verbs.QP.Modify] that move a queue pair of the application to a
// state for this connection (rdma_init_qp_attr). It is for an ID without a queue pair: one that has
// a queue pair moves it by itself.
//
// INIT is available once the ID has a local address; RTR and RTS once both sides have spoken: after
// EventConnectResponse or EventConnectRequest. p is what Accept will be given; an active ID uses
// what Connect was given. nil means DefaultConnParam.
func (id *ID) QPAttr(to verbs.QPState, p *ConnParam) (a verbs.QPAttr, mask verbs.AttrMask, err error) {
	const op = "QP attributes"
	err = id.do(func(int64, *agent) error {
		if s := id.state(); s == idIdle || s == idBound && id.local.Addr().IsUnspecified() {
			return &IDStateError{op, "without local address"}
		}
		if err := p.Check(op); err != nil {
			return err
		}
		q := p.withDefaults(id.s)
		if id.active() {
			q = id.param
		}
		a.State, mask = to, verbs.AttrState
		switch {
		case to == verbs.StateInit || id.ps == PortSpaceUDP:
			id.initAttr(&a, &mask, &q)
			return nil
		case to == verbs.StateRTR || to == verbs.StateRTS:
			peer, err := id.peerAttr(op, &q)
			if err != nil {
				return err
			}
			peer.put(to, &q, &a, &mask)
			if a.SilenceTimeout = id.silence; to == verbs.StateRTS && !peer.uc && id.silence != 0 {
				mask |= verbs.AttrSilence
			}
			return nil
		case to == verbs.StateReset || to == verbs.StateErr:
			return nil
		}
		return argError(op, "state", to.String()+" is none of INIT, RTR and RTS")
	})
	return a, mask, err
}

// active reports whether the ID has asked for its connection.
func (id *ID) active() bool { return id.conn != nil && id.req == nil }

// initAttr fills in the attributes for INIT; a UD queue pair needs no others.
func (id *ID) initAttr(a *verbs.QPAttr, mask *verbs.AttrMask, p *ConnParam) {
	*mask |= verbs.AttrPKeyIndex | verbs.AttrPort
	a.PortNum = 1
	if id.ps == PortSpaceUDP {
		*mask |= verbs.AttrQKey
		a.QKey = UDQKey
		return
	}
	*mask |= verbs.AttrAccess
	if id.conn != nil { // before that there is no peer to have access
		a.Access = p.access()
	}
}

// peerAttr holds the attributes of a queue pair that depend on the peer's message.
type peerAttr struct {
	uc         bool
	av         verbs.AddressVector
	mtu        ib.MTU
	qpn        ib.QPN
	psn        ib.PSN // the first to send
	timeout    ib.TimeoutCode
	retry, rnr uint8
	read, give uint8 // READs and atomics at a time, ours and the peer's
}

// peerAttr returns the attributes that follow from the peer's message.
func (id *ID) peerAttr(op string, p *ConnParam) (peerAttr, error) {
	v := peerAttr{av: verbs.AddressVector{SGIDIndex: id.sgid, TrafficClass: id.tos, HopLimit: defaultHopLimit}}
	switch {
	case id.req != nil && id.req.REQ != nil && id.state() != idOver:
		m := id.req.REQ
		v.uc = m.Transport == mad.TransportUC
		v.mtu, v.qpn, v.psn = m.MTU, m.QPN, m.StartingPSN
		v.timeout, v.retry, v.rnr = m.Primary.AckTimeout, m.RetryCount, m.RNRRetryCount
		if v.timeout == 0 {
			v.timeout = p.AckTimeout // "no timer" would never repeat anything
		}
		v.timeout = min(v.timeout, maxPeerTimeout)
		v.read, v.give = min(p.InitiatorDepth, m.ResponderResources), min(p.ResponderResources, m.InitiatorDepth)
		v.av.FlowLabel, v.av.HopLimit = m.Primary.FlowLabel, m.Primary.HopLimit
		if id.tos == 0 {
			v.av.TrafficClass = m.Primary.TrafficClass
		}
	case id.reply != nil && id.state() != idOver:
		m := id.reply
		v.uc = p.UC
		v.mtu, v.qpn, v.psn = p.MTU, m.QPN, m.StartingPSN
		v.timeout, v.retry, v.rnr = p.AckTimeout, p.RetryCount, m.RNRRetryCount
		v.read, v.give = min(p.InitiatorDepth, m.ResponderResources), m.InitiatorDepth
		v.av.FlowLabel = ib.FlowLabelFromPorts(id.local.Port(), id.remote.Port())
	default:
		return v, id.requireState(op, idRequested, idResponded)
	}
	v.av.DGID = dgid(id.conn.Remote())
	return v, nil
}

// put fills in the attributes of a transition.
func (v *peerAttr) put(to verbs.QPState, p *ConnParam, a *verbs.QPAttr, mask *verbs.AttrMask) {
	if to == verbs.StateRTR {
		*mask |= verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN
		a.AV, a.PathMTU, a.DestQPN, a.RQPSN = v.av, v.mtu, v.qpn, p.StartingPSN
		if !v.uc {
			*mask |= verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer
			a.MaxDestRdAtomic, a.MinRNRTimer = v.give, p.MinRNRTimer
		}
		return
	}
	*mask |= verbs.AttrSQPSN
	a.SQPSN = v.psn
	if !v.uc {
		*mask |= verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic
		a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRdAtomic = v.timeout, v.retry, v.rnr, v.read
	}
}
