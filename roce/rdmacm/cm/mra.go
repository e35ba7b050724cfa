package cm

import "github.com/goroce/goroce/ib/mad"

// sendMRA tells the peer that its message has come and is with the application. It is only
// sent for duplicates, as Linux does: most applications are faster than that.
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

// handleMRA makes the next repetition wait for as long as the peer asks. The
// peer is there: the tries begin anew.
func (a *Agent) handleMRA(in *message) {
	var m mad.MRA
	m.Decode(in.data)
	c := a.findAnswered(in, m.RemoteCommID, m.LocalCommID)
	if c == nil {
		a.stats.DropUnmatched++
		return
	}
	wait := min(m.ServiceTimeout, maxServiceTimeout).Ns() + c.retryNs
	switch {
	case (c.state == ReqSent || c.state == MRAReqRcvd) && m.Acknowledged == mad.SubjectREQ:
		c.setState(MRAReqRcvd)
	case c.state.halfOpen() && m.Acknowledged == mad.SubjectREP:
		// The memory of the connection is held meanwhile, so that there is an end.
		if wait = min(wait, c.holdNs-in.now); wait <= 0 {
			a.stats.DropMRA++
			return
		}
		c.heard = true
		c.leaveUntaken()
		c.setState(MRARepRcvd)
	default:
		a.stats.DropUnmatched++
		return
	}
	c.tries = 1
	a.setTimer(c, in.now+wait)
}
