package roce

import (
	"errors"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/cm"
)

// Connect asks the peer for a connection, or for port space UDP for its queue
// pair (rdma_connect). One of the events CMEstablished (CMConnectResponse if
// the ID has no queue pair), CMRejected, CMUnreachable and CMConnectError
// follows. nil means DefaultConnParam.
func (id *CMID) Connect(param *ConnParam) error {
	return id.do(func(now int64, a *cmAgent) error {
		if err := id.need("connect", idRouteResolved, idAddrResolved); err != nil {
			return err
		}
		if err := param.check("connect"); err != nil {
			return err
		}
		p := param.withDefaults(id.d)
		var err error
		if id.ps == PortSpaceUDP {
			err = id.lookup(now, a, &p)
		} else {
			err = id.request(now, a, &p)
		}
		if err == nil {
			id.param, id.state = p, idConnecting
		}
		return err
	})
}

// private returns private data behind the header that RDMA-CM puts in front of it.
func (id *CMID) private(user []byte, limit int) ([]byte, error) {
	if len(user) > limit {
		return nil, &ArgError{"connect", "private data", errPrivate(len(user), limit)}
	}
	b := make([]byte, mad.CMAHeaderBytes, mad.CMAHeaderBytes+len(user))
	h := mad.CMAHeader{
		SrcPort: id.local.Port(), Src: id.local.Addr().WithZone(""), Dst: id.remote.Addr().WithZone(""),
	}
	if err := h.Put(b); err != nil {
		return nil, err
	}
	return append(b, user...), nil
}

// request sends the REQ.
func (id *CMID) request(now int64, a *cmAgent, p *ConnParam) error {
	private, err := id.private(p.PrivateData, MaxConnectPrivate)
	if err != nil {
		return err
	}
	r := cm.Request{
		Local: id.local.Addr(), Remote: id.remote.Addr(),
		Service: mad.NewServiceID(id.ps, id.remote.Port()),
		QPN:     p.QPN, QKey: p.QKey, StartingPSN: p.StartingPSN, SRQ: p.SRQ,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
		MTU: p.MTU, AckTimeout: p.AckTimeout,
		FlowLabel: ib.FlowLabelFromPorts(id.local.Port(), id.remote.Port()), TrafficClass: id.tos, HopLimit: defaultHopLimit,
		Private: private, Tries: id.tries, RetryNs: id.retryNs,
	}
	if qp := id.qp; qp != nil {
		r.QPN, r.StartingPSN, r.SRQ = qp.num, qp.psn, qp.hasSRQ()
		if qp.typ == UC {
			r.Transport = mad.TransportUC
		}
	}
	if r.QPN == 0 {
		return &ArgError{"connect", "QP", "missing, and no number given"}
	}
	id.conn, err = a.core.Connect(now, r, id)
	return err
}

// Accept accepts a connection request (rdma_accept). The ID must have a queue
// pair, or p the numbers of one. CMEstablished follows, or one of CMUnreachable and CMRejected if the peer
// has lost interest. For port space UDP the lookup is answered, and no event
// follows. nil means DefaultConnParam.
func (id *CMID) Accept(param *ConnParam) error {
	return id.do(func(now int64, a *cmAgent) error {
		if err := id.need("accept", idRequested); err != nil {
			return err
		}
		if err := param.check("accept"); err != nil {
			return err
		}
		p := param.withDefaults(id.d)
		var err error
		if id.ps == PortSpaceUDP {
			err = id.answerLookup(now, &p)
		} else {
			err = id.accept(now, &p)
		}
		return err
	})
}

// accept gets the queue pair ready and sends the REP.
func (id *CMID) accept(now int64, p *ConnParam) error {
	m := id.req.REQ
	if len(p.PrivateData) > MaxAcceptPrivate {
		return &ArgError{"accept", "private data", errPrivate(len(p.PrivateData), MaxAcceptPrivate)}
	}
	p.ResponderResources = min(p.ResponderResources, m.InitiatorDepth)
	p.InitiatorDepth = min(p.InitiatorDepth, m.ResponderResources)
	r := cm.Accept{
		QPN: p.QPN, QKey: p.QKey, StartingPSN: p.StartingPSN, SRQ: p.SRQ,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		TargetAckDelay: cmAckDelay, FlowControl: p.FlowControl, RNRRetryCount: p.RNRRetryCount,
		Private: p.PrivateData, Bytes: id.memory,
	}
	if qp := id.qp; qp != nil {
		c := ConnAttr{
			SGIDIndex: id.sgid, MTU: m.MTU, Timeout: m.Primary.AckTimeout,
			RetryCnt: m.RetryCount, RNRRetry: m.RNRRetryCount, MinRNRTimer: p.MinRNRTimer,
			MaxRdAtomic: p.InitiatorDepth, MaxDestRdAtomic: p.ResponderResources,
			FlowLabel: m.Primary.FlowLabel, TrafficClass: m.Primary.TrafficClass, HopLimit: m.Primary.HopLimit,
			Access: p.access(), PSN: m.StartingPSN, SetPSN: true,
		}
		if c.Timeout == 0 {
			c.Timeout = p.AckTimeout // "no timer" would never repeat anything
		}
		c.Timeout = min(c.Timeout, maxPeerTimeout)
		if id.tos != 0 {
			c.TrafficClass = id.tos
		}
		if (m.Transport == mad.TransportUC) != (qp.typ == UC) {
			return &ArgError{"accept", "QP", "of another service type than the request"}
		}
		if err := id.connectQP(now, RemoteInfo{QPN: m.QPN, PSN: qp.psn, GID: dgid(id.conn.Remote())}, c); err != nil {
			return err
		}
		qp.t.WatchEstablished()
		r.QPN, r.StartingPSN, r.SRQ = qp.num, qp.psn, qp.hasSRQ()
	}
	if r.QPN == 0 {
		return &ArgError{"accept", "QP", "missing, and no number given"}
	}
	if err := id.conn.Accept(now, r); err != nil {
		id.failQP(now)
		return err
	}
	id.state = idConnecting
	return nil
}

// connectQP takes the queue pair to RTS.
func (id *CMID) connectQP(now int64, remote RemoteInfo, c ConnAttr) error {
	qp := id.qp
	a, mask, err := qp.rtrAttr(remote, c)
	if err != nil {
		return err
	}
	a.Access = c.Access
	if err := qp.t.Modify(now, a, mask|AttrAccess); err != nil {
		return err
	}
	a, mask = qp.rtsAttr(c)
	return qp.t.Modify(now, a, mask)
}

// failQP flushes the queue pair, if there is one that was connected.
func (id *CMID) failQP(now int64) {
	if id.qp == nil || id.qp.typ == UD {
		return
	}
	// It fails when the application has destroyed the queue pair already.
	_ = id.qp.t.Modify(now, QPAttr{State: StateErr}, AttrState)
}

// Reject refuses a connection request, or a reply (CMConnectResponse), with
// private data for the peer's event CMRejected (rdma_reject).
func (id *CMID) Reject(private []byte) error { return id.RejectReason(mad.RejectConsumer, private) }

// RejectReason is Reject with a reason other than "rejected by the
// application". For port space UDP the reason is not sent.
func (id *CMID) RejectReason(reason mad.RejectReason, private []byte) error {
	return id.do(func(now int64, _ *cmAgent) error {
		if err := id.need("reject", idRequested, idResponded); err != nil {
			return err
		}
		var err error
		if id.ps == PortSpaceUDP {
			err = id.conn.AnswerLookup(now, cm.LookupAnswer{Status: mad.SIDRRejected, Private: private})
		} else {
			err = id.conn.Reject(now, reason, nil, private)
		}
		if err == nil {
			id.state = idOver
		}
		return err
	})
}

// Establish completes the connection of an ID without queue pair, whose own
// has been made ready after CMConnectResponse (rdma_establish).
func (id *CMID) Establish() error {
	return id.do(func(now int64, _ *cmAgent) error {
		if err := id.need("establish", idResponded); err != nil {
			return err
		}
		if err := id.conn.Ready(now, nil); err != nil {
			return err
		}
		id.state = idConnected
		return nil
	})
}

// NotifyEstablished tells that the queue pair of an ID received something before
// the connection was confirmed (rdma_notify). An ID with a queue pair needs no
// telling.
func (id *CMID) NotifyEstablished() error {
	return id.do(func(int64, *cmAgent) error {
		if id.conn != nil {
			id.conn.CommEstablished()
		}
		return nil
	})
}

// commEstablished is NotifyEstablished from the engine. The lock is held.
func (id *CMID) commEstablished() {
	if id.conn != nil {
		id.conn.CommEstablished()
		id.d.cm.ready = true
	}
}

// Disconnect ends the connection (rdma_disconnect): the queue pair goes to ERR,
// which flushes its work requests, and the peer is told. An event
// CMDisconnected follows here and there; here after half a minute (or what
// SetRetries has set) if the peer does not answer. It does nothing if the connection is over already.
func (id *CMID) Disconnect(private []byte) error {
	return id.do(func(now int64, _ *cmAgent) error {
		if id.ps == PortSpaceUDP || id.state == idOver && id.conn != nil {
			return nil
		}
		if err := id.need("disconnect", idConnected, idConnecting); err != nil {
			return err
		}
		if err := id.conn.Disconnect(now, private); err != nil {
			return err
		}
		id.failQP(now)
		id.state = idOver
		return nil
	})
}

// hasSRQ reports whether the queue pair takes receives from a shared queue.
func (qp *QP) hasSRQ() bool {
	_, init := qp.t.Query()
	return init.SRQ != nil
}

// event turns an event of the core into one of librdmacm. The lock is held.
func (a *cmAgent) event(now int64, e *cm.Event) {
	id, _ := e.Conn.UserData.(*CMID)
	if id == nil {
		return
	}
	switch e.Type {
	case cm.EventReply:
		id.onReply(now, e)
	case cm.EventEstablished:
		id.state = idConnected
		id.event(CMEvent{Type: CMEstablished, Conn: paramOfREQ(id.req.REQ, e.Private), PrivateData: e.Private})
	case cm.EventRejected:
		id.over(now, CMEvent{
			Type: CMRejected, Err: &RejectedError{Reason: e.Reason, Info: e.Info, PrivateData: e.Private, Remote: id.remote},
			PrivateData: e.Private,
		})
	case cm.EventUnreachable:
		id.over(now, CMEvent{Type: CMUnreachable, Err: &AddrError{"connect", id.remote, ErrUnreachable}})
	case cm.EventDisconnected:
		id.over(now, CMEvent{Type: CMDisconnected, PrivateData: e.Private})
	case cm.EventTimewaitExit:
		id.event(CMEvent{Type: CMTimewaitExit})
	case cm.EventResolved:
		id.onResolved(now, e)
	}
}

// over ends the connection of the ID.
func (id *CMID) over(now int64, e CMEvent) {
	id.state = idOver
	id.failQP(now)
	id.event(e)
}

// onReply takes the acceptance of the peer.
func (id *CMID) onReply(now int64, e *cm.Event) {
	ev := CMEvent{Type: CMConnectResponse, Conn: paramOfREP(e.REP), PrivateData: e.Private}
	if id.qp == nil {
		id.state = idResponded
		id.event(ev)
		return
	}
	p, m := &id.param, e.REP
	c := ConnAttr{
		SGIDIndex: id.sgid, MTU: p.MTU, Timeout: p.AckTimeout,
		RetryCnt: p.RetryCount, RNRRetry: m.RNRRetryCount, MinRNRTimer: p.MinRNRTimer,
		MaxRdAtomic: min(p.InitiatorDepth, m.ResponderResources), MaxDestRdAtomic: m.InitiatorDepth,
		FlowLabel: ib.FlowLabelFromPorts(id.local.Port(), id.remote.Port()), TrafficClass: id.tos, HopLimit: defaultHopLimit,
		Access: p.access(), PSN: m.StartingPSN, SetPSN: true,
	}
	err := id.connectQP(now, RemoteInfo{QPN: m.QPN, PSN: id.qp.psn, GID: dgid(id.conn.Remote())}, c)
	if err == nil {
		if err = id.conn.Ready(now, nil); errors.Is(err, cm.ErrState) {
			return // the peer has taken it back already, which the next event tells
		}
	} else {
		err = errors.Join(err, id.conn.Reject(now, mad.RejectConsumer, nil, nil))
	}
	if err != nil {
		id.over(now, CMEvent{Type: CMConnectError, Err: err})
		return
	}
	id.state = idConnected
	ev.Type = CMEstablished
	id.event(ev)
}
