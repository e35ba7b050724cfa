package rdmacm

import (
	"errors"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// Connect asks the peer for a connection or, in port space UDP, for its queue pair (rdma_connect).
// One of the events EventEstablished (EventConnectResponse if the ID has no queue pair),
// EventRejected, EventUnreachable and EventConnectError follows. nil means DefaultConnParam.
func (id *ID) Connect(param *ConnParam) error {
	return id.do(func(now int64, a *agent) error {
		if err := id.requireState("connect", idRouteResolved, idAddrResolved); err != nil {
			return err
		}
		if err := param.Check("connect"); err != nil {
			return err
		}
		p := param.withDefaults(id.s)
		var err error
		if id.ps == PortSpaceUDP {
			err = id.lookup(now, a, &p)
		} else {
			err = id.request(now, a, &p)
		}
		if err == nil {
			id.param = p
		}
		return err
	})
}

// private returns private data behind the header that RDMA-CM puts in front of it.
func (id *ID) private(user []byte, limit int) ([]byte, error) {
	if len(user) > limit {
		return nil, argError("connect", "private data", errPrivate(len(user), limit))
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
func (id *ID) request(now int64, a *agent, p *ConnParam) error {
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
		FlowLabel: ib.FlowLabelFromPorts(id.local.Port(), id.remote.Port()), TrafficClass: id.tos,
		HopLimit: defaultHopLimit, ECE: p.ECE, Private: private, Tries: id.tries, RetryNs: id.retryNs,
		ListenNs: int64(p.ListenWait),
	}
	if p.UC {
		r.Transport = mad.TransportUC
	}
	if qp := id.qp; qp != nil {
		if err = id.onQP(now, func(int64) error {
			r.QPN, r.StartingPSN, r.SRQ = qp.Num(), qp.PSN(), hasSRQ(qp)
			return nil
		}); err != nil {
			return err
		}
		r.Transport = mad.TransportRC
		if qp.Type() == verbs.UC {
			r.Transport = mad.TransportUC
		}
	}
	if r.QPN == 0 {
		return argError("connect", "QP", "missing, and no number given")
	}
	id.conn, err = a.core.Connect(now, r, id)
	return err
}

// Accept accepts a connection request (rdma_accept). The ID must have a queue pair, or param the
// numbers of one. EventEstablished follows, or EventUnreachable or EventRejected if the peer has
// lost interest. In port space UDP it answers the lookup, and no event follows. nil means
// DefaultConnParam.
func (id *ID) Accept(param *ConnParam) error {
	return id.do(func(now int64, a *agent) error {
		if err := id.requireState("accept", idRequested); err != nil {
			return err
		}
		if err := param.Check("accept"); err != nil {
			return err
		}
		p := param.withDefaults(id.s)
		var err error
		if id.ps == PortSpaceUDP {
			err = id.answerLookup(now, &p)
		} else {
			err = id.accept(now, &p)
		}
		return err
	})
}

// accept prepares the queue pair and sends the REP.
func (id *ID) accept(now int64, p *ConnParam) error {
	m := id.req.REQ
	if len(p.PrivateData) > MaxAcceptPrivate {
		return argError("accept", "private data", errPrivate(len(p.PrivateData), MaxAcceptPrivate))
	}
	p.ResponderResources = min(p.ResponderResources, m.InitiatorDepth)
	p.InitiatorDepth = min(p.InitiatorDepth, m.ResponderResources)
	r := cm.Accept{
		QPN: p.QPN, QKey: p.QKey, StartingPSN: p.StartingPSN, SRQ: p.SRQ,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		TargetAckDelay: cmAckDelay, FlowControl: p.FlowControl, RNRRetryCount: p.RNRRetryCount, ECE: p.ECE,
		Private: p.PrivateData, Bytes: id.memory,
	}
	if qp := id.qp; qp != nil {
		c := verbs.ConnAttr{
			SGIDIndex: id.sgid, MTU: m.MTU, Timeout: m.Primary.AckTimeout,
			RetryCnt: m.RetryCount, RNRRetry: m.RNRRetryCount, MinRNRTimer: p.MinRNRTimer,
			MaxRdAtomic: p.InitiatorDepth, MaxDestRdAtomic: p.ResponderResources,
			FlowLabel: m.Primary.FlowLabel, TrafficClass: m.Primary.TrafficClass, HopLimit: m.Primary.HopLimit,
			Access: p.access(), PSN: m.StartingPSN, SetPSN: true, SilenceTimeout: id.silence,
		}
		if c.Timeout == 0 {
			c.Timeout = p.AckTimeout // "no timer" would never repeat anything
		}
		c.Timeout = min(c.Timeout, maxPeerTimeout)
		if id.tos != 0 {
			c.TrafficClass = id.tos
		}
		if (m.Transport == mad.TransportUC) != (qp.Type() == verbs.UC) {
			return argError("accept", "QP", "of another service type than the request")
		}
		if err := id.onQP(now, func(now int64) error {
			if err := connectQP(qp, now,
				verbs.RemoteInfo{QPN: m.QPN, PSN: qp.PSN(), GID: dgid(id.conn.Remote())}, &c); err != nil {
				return err
			}
			core.Open(qp).QP().WatchEstablished()
			r.QPN, r.StartingPSN, r.SRQ = qp.Num(), qp.PSN(), hasSRQ(qp)
			return nil
		}); err != nil {
			return err
		}
	}
	if r.QPN == 0 {
		return argError("accept", "QP", "missing, and no number given")
	}
	if err := id.conn.Accept(now, r); err != nil {
		id.failQP(now)
		return err
	}
	return nil
}

// connectQP moves a queue pair from INIT to RTS, connected to a peer. The lock of its shard is
// held, and now is that shard's time.
func connectQP(qp *verbs.QP, now int64, remote verbs.RemoteInfo, c *verbs.ConnAttr) error {
	a, mask, err := core.Open(qp).RTRAttr(remote, c)
	if err != nil {
		return err
	}
	a.Access = c.Access
	if err := core.Open(qp).Modify(now, &a, mask|verbs.AttrAccess); err != nil {
		return err
	}
	a, mask = core.Open(qp).RTSAttr(c)
	core.Open(qp).QP().WatchSilence()
	return core.Open(qp).Modify(now, &a, mask)
}

// failQP flushes the connected queue pair, if there is one.
func (id *ID) failQP(now int64) {
	if id.qp == nil || id.qp.Type() == verbs.UD {
		return
	}
	// It fails if the application has already destroyed the queue pair, or the device closes.
	_ = id.onQP(now, func(now int64) error {
		return core.Open(id.qp).QP().Modify(now, transport.QPAttr{State: transport.StateErr}, transport.AttrState)
	})
}

// Reject refuses a connection request, or a reply (EventConnectResponse), with private data for the
// peer's EventRejected (rdma_reject).
func (id *ID) Reject(private []byte) error { return id.RejectReason(mad.RejectConsumer, private) }

// RejectReason is Reject with a reason other than "rejected by the application". In port space UDP
// the reason is not sent.
func (id *ID) RejectReason(reason mad.RejectReason, private []byte) error {
	return id.do(func(now int64, _ *agent) error {
		if err := id.requireState("reject", idRequested, idResponded); err != nil {
			return err
		}
		if id.ps == PortSpaceUDP {
			return id.conn.AnswerLookup(now, cm.LookupAnswer{Status: mad.SIDRRejected, Private: private})
		}
		return id.conn.Reject(now, reason, nil, private)
	})
}

// Establish completes the connection of an ID without a queue pair, once the application has
// prepared its own after EventConnectResponse (rdma_establish).
func (id *ID) Establish() error {
	return id.do(func(now int64, _ *agent) error {
		if err := id.requireState("establish", idResponded); err != nil {
			return err
		}
		return id.conn.Ready(now, nil)
	})
}

// commEstablished is called by the engine when the peer has sent something. The lock is held. The
// ID may have been closed since.
func (id *ID) commEstablished() {
	if id.conn != nil && !id.closed {
		id.conn.CommEstablished()
		id.a.ready = true
	}
}

// unanswered is called by the engine when the peer does not answer. The lock is held.
func (id *ID) unanswered() {
	if id.conn != nil && !id.closed {
		id.conn.Suspect(id.s.Now())
		id.a.ready = true
	}
}

// Disconnect ends the connection (rdma_disconnect): what was posted leaves, as far as the window
// and the peer's credits let it; the queue pair goes to ERR, which flushes its work requests; and
// the peer is told. It waits for no acknowledgement: what has left and is lost is not sent again.
// EventDisconnected follows on both sides; on this side after half a minute (or the time set by
// SetRetries) if the peer does not answer. EventTimewaitExit comes only after Disconnect. If the
// connection is over already, Disconnect does nothing else.
func (id *ID) Disconnect(private []byte) error {
	return id.do(func(now int64, _ *agent) error {
		if id.ps == PortSpaceUDP {
			return nil
		}
		if id.state() == idOver {
			id.exit(true, id.exited)
			return nil
		}
		if err := id.requireState("disconnect", idConnected, idConnecting); err != nil {
			return err
		}
		if err := id.conn.Disconnect(now, private); err != nil {
			return err
		}
		id.exit(true, false)
		id.failQP(now)
		return nil
	})
}

// exit makes EventTimewaitExit when the program has called Disconnect and the time is over. With a
// kernel rdma_disconnect answers the peer's DREQ, and the time begins with that: programs that
// never call it do not expect this event, and ps-lite ends by it. Here the answer leaves at once,
// and the event waits for the call. The lock is held.
func (id *ID) exit(ended, exited bool) {
	id.ended, id.exited = id.ended || ended, exited
	if id.ended && id.exited {
		id.exited = false
		id.event(Event{Type: EventTimewaitExit})
	}
}

// hasSRQ reports whether the queue pair uses a shared receive queue. The lock of its shard is held.
func hasSRQ(qp *verbs.QP) bool {
	_, init := core.Open(qp).QP().Query()
	return init.SRQ != nil
}

// event turns an event of the core into one of librdmacm. The lock is held.
func (a *agent) event(now int64, e *cm.Event) {
	id, _ := e.Conn.UserData.(*ID)
	if id == nil {
		return
	}
	switch e.Type {
	case cm.EventReply:
		id.onReply(now, e)
	case cm.EventEstablished:
		id.event(Event{Type: EventEstablished, Conn: paramOfREQ(id.req.REQ, id.req.ECE, e.Private),
			PrivateData: e.Private})
	case cm.EventRejected:
		id.over(now, Event{
			Type: EventRejected, Err: &RejectedError{Reason: e.Reason, Info: e.Info, PrivateData: e.Private,
				Remote: id.remote},
			PrivateData: e.Private,
		})
	case cm.EventUnreachable:
		err := errNoAnswer
		switch {
		case e.NoPort:
			err = errNoProcess
		case e.NoHost:
			err = errNoHost
		}
		id.over(now, Event{Type: EventUnreachable, Err: &verbs.AddrError{Op: "connect", Addr: id.remote, Err: err}})
	case cm.EventDisconnected:
		ev := Event{Type: EventDisconnected, PrivateData: e.Private}
		if e.Gone {
			ev.Err = verbs.ErrPeerGone
		}
		id.overAfterArrivals(now, ev)
	case cm.EventTimewaitExit:
		id.exit(false, true)
	case cm.EventResolved:
		id.onResolved(now, e)
	}
}

// over ends the connection of the ID.
func (id *ID) over(now int64, e Event) {
	id.failQP(now)
	id.event(e)
}

// overAfterArrivals is over, but first handles everything that has come for the queue pair: when
// the peer says that it has gone, its last messages may still wait in another shard's link.
func (id *ID) overAfterArrivals(now int64, e Event) {
	if id.qp == nil || core.Open(id.qp).Shard() == id.s || !core.Open(id.qp).Shard().AfterArrivals(func() {
		// If it was closed meanwhile, the event does not matter.
		_ = id.do(func(now int64, _ *agent) error { id.over(now, e); return nil })
	}) {
		id.over(now, e)
	}
}

// onReply handles the acceptance by the peer.
func (id *ID) onReply(now int64, e *cm.Event) {
	ev := Event{Type: EventConnectResponse, Conn: paramOfREP(e.REP, e.ECE), PrivateData: e.Private}
	if id.qp == nil {
		id.reply = e.REP
		id.event(ev)
		return
	}
	p, m := &id.param, e.REP
	c := verbs.ConnAttr{
		SGIDIndex: id.sgid, MTU: p.MTU, Timeout: p.AckTimeout,
		RetryCnt: p.RetryCount, RNRRetry: m.RNRRetryCount, MinRNRTimer: p.MinRNRTimer,
		MaxRdAtomic: min(p.InitiatorDepth, m.ResponderResources), MaxDestRdAtomic: m.InitiatorDepth,
		FlowLabel: ib.FlowLabelFromPorts(id.local.Port(), id.remote.Port()), TrafficClass: id.tos,
		HopLimit: defaultHopLimit, Access: p.access(), PSN: m.StartingPSN, SetPSN: true, SilenceTimeout: id.silence,
	}
	err := id.onQP(now, func(now int64) error {
		return connectQP(id.qp, now, verbs.RemoteInfo{QPN: m.QPN, PSN: id.qp.PSN(), GID: dgid(id.conn.Remote())}, &c)
	})
	if err == nil {
		if err = id.conn.Ready(now, nil); errors.Is(err, cm.ErrState) {
			return // the peer has already taken it back, which the next event reports
		}
	}
	if err != nil {
		err = errors.Join(err, id.conn.Reject(now, mad.RejectConsumer, nil, nil))
		id.over(now, Event{Type: EventConnectError, Err: err})
		return
	}
	ev.Type = EventEstablished
	id.event(ev)
}
