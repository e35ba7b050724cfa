package cm

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib/mad"
)

// Reject refuses a request, or ends a connection that is not established yet.
func (c *Conn) Reject(now int64, reason mad.RejectReason, info, private []byte) error {
	subject := mad.SubjectOther
	switch c.state {
	case ReqRcvd:
		subject = mad.SubjectREQ
	case RepRcvd:
		subject = mad.SubjectREP
	case RepSent, MRARepRcvd:
	default:
		return &stateError{"REJ", c.state}
	}
	m := c.rej(subject, reason, info, private)
	if err := c.keep(mad.AttrREJ, c.tid, &m); err != nil {
		return err
	}
	// If the REJ is lost the peer asks again; its request must not reach the application twice.
	c.timewaitNs = min(max(c.timewaitNs, 2*c.peerRetryNs), maxTimewaitNs)
	c.enterTimewait(now)
	return nil
}

func (c *Conn) rej(subject mad.Subject, reason mad.RejectReason, info, private []byte) mad.REJ {
	m := mad.REJ{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, Rejected: subject, Reason: reason,
		Info: info, InfoLen: uint8(min(len(info), mad.InfoBytes)), Private: private,
	}
	if subject == mad.SubjectREQ {
		m.LocalCommID = 0 // the peer has not seen it
	}
	return m
}

// sendREJ sends a REJ once. Its content must fit.
func (c *Conn) sendREJ(subject mad.Subject, reason mad.RejectReason, info []byte) {
	m := c.rej(subject, reason, info, nil)
	if c.a.send(c.local, c.remote, mad.AttrREJ, c.tid, &m) != nil {
		c.a.stats.DropTx++
	}
	c.out = nil
}

// rejectTimeout takes a REQ back. The peer finds its record by our GUID, since we do not know its
// communication ID.
func (c *Conn) rejectTimeout() {
	guid := binary.BigEndian.AppendUint64(nil, uint64(c.a.cfg.GUID))
	c.sendREJ(mad.SubjectOther, mad.RejectTimeout, guid)
}

// rejected returns the connection that a REJ is about. Its sender may not know our ID, or have none
// of its own.
func (a *Agent) rejected(in *message, m *mad.REJ) *Conn {
	if m.Reason == mad.RejectTimeout && m.RemoteCommID == 0 {
		guid := mad.GUID(binary.BigEndian.Uint64(m.Info))
		return a.byRemote[remoteKey{in.src, guid, m.LocalCommID}]
	}
	if c := a.byID[m.RemoteCommID]; c != nil && c.remote == in.src && m.Rejected == mad.SubjectREQ && c.answeredBy(in) {
		return c // the sender has chosen no ID for it
	}
	return a.findAnswered(in, m.RemoteCommID, m.LocalCommID)
}

// handleREJ handles a refusal.
func (a *Agent) handleREJ(in *message) {
	var m mad.REJ
	m.Decode(in.data)
	c := a.rejected(in, &m)
	if c == nil {
		a.stats.DropUnmatched++
		return
	}
	if c.request != nil {
		// The owner has not seen the request, and need not see it any more. Keep no record:
		// TIMEWAIT would be room that anyone can take with two datagrams.
		a.stats.Withdrawn++
		c.remove()
		return
	}
	e := Event{
		Type: EventRejected, Reason: m.Reason, Private: clone(m.Private),
		Info: clone(m.Info[:min(int(m.InfoLen), len(m.Info))]),
	}
	switch c.state {
	case ReqSent, MRAReqRcvd:
		if m.Reason == mad.RejectInvalidServiceID && c.awaitListener(in.now) {
			return
		}
		a.emit(c, e)
		c.remove()
	case ReqRcvd, RepRcvd, RepSent, MRARepRcvd:
		if c.state == RepRcvd && m.Rejected == mad.SubjectREQ {
			a.stats.DropUnmatched++ // a delayed one, as below: of a try before the listener existed
			return
		}
		c.out = nil
		a.emit(c, e)
		c.enterTimewait(in.now)
	case Established, DReqSent:
		if m.Rejected == mad.SubjectREQ || c.state == Established && m.RemoteCommID == 0 {
			// A delayed one: the REQ was accepted after all. A sender that took it back before it
			// knew our ID cannot have confirmed the connection.
			a.stats.DropUnmatched++
			return
		}
		c.disconnected(in.now, Event{Reason: m.Reason, Private: e.Private})
	default:
		a.stats.Duplicates++
	}
}
