package cm

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// handleREQ handles a request for a connection.
func (a *Agent) handleREQ(in *message) {
	var m mad.REQ
	m.Decode(in.data)
	k := remoteKey{in.src, m.CAGUID, m.LocalCommID}
	if c := a.byRemote[k]; c != nil {
		if c.tid == in.tid && c.remoteQPN == m.QPN && c.service == m.ServiceID {
			a.stats.Duplicates++
			c.duplicateREQ(in)
			return
		}
		c.askPeer(in.now)
		a.refuse(in, &m, mad.RejectStaleConnection, nil)
		return
	}
	if c := a.byQPN[qpnKey{in.src, m.CAGUID, uint32(m.QPN)}]; c.holdsPeer() {
		c.askPeer(in.now)
		a.refuse(in, &m, mad.RejectStaleConnection, nil)
		return
	}
	if reason, info := a.checkREQ(in, &m); reason != 0 {
		a.refuse(in, &m, reason, info)
		return
	}
	h, user, ok := header(m.ServiceID, m.Private)
	if !ok {
		a.refuse(in, &m, mad.RejectConsumer, nil) // Linux's RDMA-CM answers a bad header like this
		return
	}
	l := a.match(in, m.ServiceID, &h)
	if l == nil {
		a.refuse(in, &m, mad.RejectInvalidServiceID, nil)
		return
	}
	r := a.rankOf(k)
	if !a.admits(l, in, r) {
		a.missed.add(k)
		// Stay silent, as Linux does (ucma returns ENOMEM when the backlog is full, and
		// cm_destroy_id "does not reject to allow future retries"): the client tries again, and
		// gets in if the crowd has gone by then.
		return
	}
	c, err := a.newConn(in.dst, in.src)
	if err != nil {
		a.refuse(in, &m, mad.RejectNoResources, nil)
		return
	}
	c.remoteID, c.remoteGUID, c.remoteQPN = m.LocalCommID, m.CAGUID, m.QPN
	c.tid, c.service, c.rank = in.tid, m.ServiceID, r
	c.setAckTimeout(m.Primary.AckTimeout)
	c.peerRetryNs = m.RemoteCMTimeout.Ns()
	c.peerAnswerNs = min(m.LocalCMTimeout.Ns(), maxPeerAnswerNs)
	c.enter()
	req := m
	req.Private = clone(m.Private)
	c.wait(in.now, l, ReqRcvd,
		&Event{REQ: &req, CMA: h, ECE: in.eceOf(m.VendorID), Private: req.Private[len(m.Private)-len(user):]})
}

// checkREQ returns why a REQ cannot be accepted by any listener, and what the peer should know
// about it.
func (a *Agent) checkREQ(in *message, m *mad.REQ) (mad.RejectReason, []byte) {
	switch {
	case m.LocalCommID == 0:
		return mad.RejectInvalidCommID, nil
	case m.Transport != mad.TransportRC && m.Transport != mad.TransportUC:
		return mad.RejectInvalidTransport, nil
	case m.QPN <= ib.QPNGSI || m.QPN >= ib.QPNMulticast:
		return mad.RejectUnsupported, nil
	case !m.PKey.Match(ib.PKeyDefault):
		return mad.RejectUnsupported, nil
	case m.Primary.RemoteGID.Addr() != in.dst || !a.local[in.dst] || m.Primary.LocalGID.Addr() != in.src:
		// The path must be the one that the REQ took: with another address in it, the connection
		// would make us send to a node that never asked.
		gid := ib.GIDFromAddr(in.dst)
		return mad.RejectInvalidGID, gid[:]
	case m.MTU > a.cfg.MTU || !m.MTU.Valid():
		return mad.RejectInvalidMTU, []byte{byte(a.cfg.MTU)}
	case m.Alternate.RemoteGID != ib.GID{} || m.Alternate.LocalGID != ib.GID{}:
		gid := ib.GIDFromAddr(in.dst)
		return mad.RejectInvalidAltGID, gid[:]
	}
	return 0, nil
}

// refuse answers a REQ without keeping a record.
func (a *Agent) refuse(in *message, m *mad.REQ, reason mad.RejectReason, info []byte) {
	a.reply(in, mad.AttrREJ, &mad.REJ{
		RemoteCommID: m.LocalCommID, Rejected: mad.SubjectREQ, Reason: reason, Info: info, InfoLen: uint8(len(info)),
	})
}

// duplicateREQ answers a repeated REQ.
func (c *Conn) duplicateREQ(in *message) {
	switch c.state {
	case ReqRcvd:
		c.cameAgain()
		c.sendMRA(mad.SubjectREQ)
		c.keepWaiting(in.now)
	case RepSent, MRARepRcvd:
		c.again()
	case Timewait:
		if c.out != nil && !c.up { // if it was up, out is its DREQ
			c.again() // the REJ
			c.a.setTimer(c, in.now+c.timewaitNs)
			return
		}
		c.a.reply(in, mad.AttrREJ, &mad.REJ{
			RemoteCommID: c.remoteID, Rejected: mad.SubjectREQ, Reason: mad.RejectStaleConnection,
		})
	}
}

// holdsPeer reports whether the peer's queue pair is connected as far as we know. Once a connection
// is over, the peer may reuse its queue pair at any time: some adapters hand out the number that
// was freed last. TIMEWAIT protects our own number, and a delayed REQ is recognised by its
// communication ID. (Linux also forgets the peer's number when TIMEWAIT begins.)
func (c *Conn) holdsPeer() bool { return c != nil && c.state != Timewait }

// Accept sends the REP. The queue pair must be ready to receive. It must also be ready to send,
// because the peer's first message may ask for an answer before its RTU arrives.
func (c *Conn) Accept(now int64, r Accept) error {
	if c.state != ReqRcvd {
		return &stateError{"REP", c.state}
	}
	m := mad.REP{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, QKey: r.QKey, QPN: r.QPN, StartingPSN: r.StartingPSN,
		ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth, TargetAckDelay: r.TargetAckDelay,
		FlowControl: r.FlowControl, RNRRetryCount: r.RNRRetryCount, SRQ: r.SRQ, VendorID: r.ECE.VendorID,
		CAGUID: c.a.cfg.GUID, Private: r.Private,
	}
	if err := c.keep(mad.AttrREP, c.tid, extended{&m, r.ECE.Options}); err != nil {
		return err
	}
	c.localQPN, c.bytes = r.QPN, max(r.Bytes, 0)
	c.listener.need = c.bytes // the next one will hardly differ
	c.setState(RepSent)
	c.beginHalfOpen(now)
	c.startRetries(now)
	c.watch(now)
	return nil
}

// handleRTU handles the confirmation of our REP.
func (a *Agent) handleRTU(in *message) {
	var m mad.RTU
	m.Decode(in.data)
	c := a.find(in, m.RemoteCommID, m.LocalCommID)
	switch {
	case c == nil:
		a.stats.DropUnmatched++
	case c.state.halfOpen():
		c.established(clone(m.Private))
	case c.state == Timewait && !c.up:
		a.stats.Duplicates++
		c.tooLate()
	default:
		a.stats.Duplicates++
	}
}

// CommEstablished says that the queue pair received something from the peer, so the peer must have
// the REP even if its RTU was lost. It does nothing in other states.
func (c *Conn) CommEstablished() {
	if c.state.halfOpen() {
		c.established(nil)
	}
}

func (c *Conn) established(private []byte) {
	c.a.stopTimer(c)
	c.out = nil
	c.prove()
	c.setState(Established)
	c.a.morePatient()
	c.a.calm()
	c.a.emit(c, Event{Type: EventEstablished, Private: private})
}
