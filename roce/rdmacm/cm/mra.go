package cm

import "github.com/goroce/goroce/ib/mad"

// sendMRA tells the peer that its message has come and is with the application. It is sent only for
// duplicates, as Linux does: most applications are faster than that.
func (c *Conn) sendMRA(subject mad.Subject) {
	if wait := c.a.cfg.ServiceTimeout.Ns(); !c.mra {
		c.mra = true
		c.peerRetryNs += wait
	}
	m := mad.MRA{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, Acknowledged: subject, ServiceTimeout: c.a.cfg.ServiceTimeout,
	}
	if c.a.send(c.local, c.remote, mad.AttrMRA, c.tid, &m) != nil {
		c.a.stats.DropTx++
	}
}

// handleMRA delays the next repetition for as long as the peer asks. The peer is there, so the
// tries start over. But MRAs postpone the end no further than maxServiceTimeout: a REP holds
// memory, and the sender of a REQ must learn at some time that there will be no answer.
func (a *Agent) handleMRA(in *message) {
	var m mad.MRA
	m.Decode(in.data)
	c := a.findAnswered(in, m.RemoteCommID, m.LocalCommID)
	if c == nil {
		a.stats.DropUnmatched++
		return
	}
	wait := min(min(m.ServiceTimeout, maxServiceTimeout).Ns()+c.retryNs, c.holdNs-in.now)
	asked := (c.state == ReqSent || c.state == MRAReqRcvd) && m.Acknowledged == mad.SubjectREQ
	switch {
	case !asked && !(c.state.halfOpen() && m.Acknowledged == mad.SubjectREP):
		a.stats.DropUnmatched++
		return
	case wait <= 0:
		a.stats.DropMRA++
		return
	case asked:
		c.setState(MRAReqRcvd)
	default:
		c.heard = true
		c.leaveUntaken()
		c.setState(MRARepRcvd)
	}
	c.tries = 1
	a.setTimer(c, in.now+wait)
}
