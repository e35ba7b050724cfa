package cm

import "github.com/goroce/goroce/ib/mad"

// Disconnect ends an established or half-open connection: it sends a DREQ. EventDisconnected
// follows when the peer has answered, or the tries are used up. If the connection is already
// ending, Disconnect does nothing.
func (c *Conn) Disconnect(now int64, private []byte) error {
	switch c.state {
	case Established, RepSent, MRARepRcvd:
	case DReqSent, Timewait:
		return nil
	default:
		return &stateError{"DREQ", c.state}
	}
	if err := c.sendDREQ(private); err != nil {
		return err
	}
	c.setState(DReqSent)
	c.startRetries(now)
	return nil
}

func (c *Conn) sendDREQ(private []byte) error {
	tid, err := c.a.random()
	if err != nil {
		return err
	}
	return c.keep(mad.AttrDREQ, mad.TID(tid), c.dreq(private))
}

func (c *Conn) dreq(private []byte) *mad.DREQ {
	return &mad.DREQ{LocalCommID: c.localID, RemoteCommID: c.remoteID, RemoteQPN: c.remoteQPN, Private: private}
}

// disconnected ends a connection that the peer knows to be over; e says how.
func (c *Conn) disconnected(now int64, e Event) {
	c.out = nil // nothing is left to repeat
	e.Type = EventDisconnected
	c.a.emit(c, e)
	c.enterTimewait(now)
}

// handleDREQ answers every DREQ, whether or not the connection exists: the peer has no other way to
// stop asking.
func (a *Agent) handleDREQ(in *message) {
	var m mad.DREQ
	m.Decode(in.data)
	c := a.find(in, m.RemoteCommID, m.LocalCommID)
	switch {
	case c == nil:
	case m.RemoteQPN == mad.NobodysQPN:
		if a.stats.Asked++; c.state != Timewait {
			if c.node != nil {
				c.node.heardNs = in.now
			}
			return // it exists, and needs no answer
		}
	case m.RemoteQPN != c.localQPN:
		a.stats.DropUnmatched++ // forged, or for an earlier connection
		return
	}
	if c != nil {
		switch c.state {
		case RepRcvd, RepSent, MRARepRcvd, Established, DReqSent:
			c.disconnected(in.now,
				Event{Private: clone(m.Private), Gone: in.tid == goneTID(m.LocalCommID, m.RemoteCommID)})
		case Timewait:
			a.stats.Duplicates++
		default:
			a.stats.DropUnmatched++
			return
		}
	}
	a.reply(in, mad.AttrDREP, &mad.DREP{LocalCommID: m.RemoteCommID, RemoteCommID: m.LocalCommID})
}

// handleDREP handles the answer to our DREQ.
func (a *Agent) handleDREP(in *message) {
	var m mad.DREP
	m.Decode(in.data)
	c := a.find(in, m.RemoteCommID, m.LocalCommID)
	_, told := a.told[in.tid]
	switch {
	case c == nil && told:
		delete(a.told, in.tid)
	case c == nil:
		a.stats.DropUnmatched++
	case c.state == Established && c.asked && in.tid == c.askedTID:
		c.forgotten(in.now)
	case c.state == DReqSent:
		c.disconnected(in.now, Event{Private: clone(m.Private)})
	default:
		a.stats.Duplicates++
	}
}

// handleLAP refuses alternate paths: a RoCE port has one path to a peer. (On RoCE, Linux does not
// answer at all.)
func (a *Agent) handleLAP(in *message) {
	var m mad.LAP
	m.Decode(in.data)
	status := mad.PathUnsupported
	if c := a.find(in, m.RemoteCommID, m.LocalCommID); c == nil || c.state != Established {
		status = mad.PathInvalidCommID
	}
	a.reply(in, mad.AttrAPR, &mad.APR{LocalCommID: m.RemoteCommID, RemoteCommID: m.LocalCommID, Status: status})
}
