package cm

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Lookup asks for the queue pair of a datagram service.
type Lookup struct {
	Local, Remote netip.Addr
	Service       mad.ServiceID
	Private       []byte // with the CMA header; up to mad.SIDRReqPrivateBytes
	Tries         int    // as in [Request]
	RetryNs       int64
	ListenNs      int64
}

// Resolve sends a SIDR_REQ. EventResolved or EventUnreachable follows; the record of the lookup is
// then gone.
func (a *Agent) Resolve(now int64, l Lookup, userData any) (*Conn, error) {
	if a.conns >= a.cfg.Limits.Conns {
		return nil, fmt.Errorf("cm: %d connections: %w", a.conns, ErrLimit)
	}
	tid, err := a.random()
	if err != nil {
		return nil, err
	}
	c, err := a.newConn(l.Local, l.Remote)
	if err != nil {
		return nil, err
	}
	c.active, c.UserData = true, userData
	c.tid, c.service = mad.TID(tid), l.Service
	c.setRetries(l.Tries, l.RetryNs)
	m := mad.SIDRReq{RequestID: uint32(c.localID), PKey: ib.PKeyDefault, ServiceID: l.Service, Private: l.Private}
	if err := c.keep(mad.AttrSIDRReq, c.tid, &m); err != nil {
		c.remove()
		return nil, err
	}
	c.listenEndNs = listenUntil(now, l.ListenNs)
	c.setState(SIDRReqSent)
	c.startRetries(now)
	return c, nil
}

// handleSIDRReq handles a lookup of a peer.
func (a *Agent) handleSIDRReq(in *message) {
	var m mad.SIDRReq
	m.Decode(in.data)
	k := sidrKey{in.src, m.RequestID}
	c := a.sidr[k]
	if c != nil && c.state == SIDRRepSent && (c.tid != in.tid || c.service != m.ServiceID) {
		c.remove() // another lookup, of a peer that restarted its numbers
		c = nil
	}
	if c != nil {
		// Until the application has answered there is nothing to send; lookups have no MRA.
		a.stats.Duplicates++
		c.keepWaiting(in.now)
		c.again()
		return
	}
	refuse := func(s mad.SIDRStatus) {
		a.reply(in, mad.AttrSIDRRep, &mad.SIDRRep{RequestID: m.RequestID, Status: s, ServiceID: m.ServiceID})
	}
	h, user, ok := header(m.ServiceID, m.Private)
	if !ok {
		refuse(mad.SIDRRejected)
		return
	}
	l := a.match(in, m.ServiceID, &h)
	if l == nil || !m.PKey.Match(ib.PKeyDefault) {
		refuse(mad.SIDRUnsupportedService)
		return
	}
	r := unknown
	if a.proven.has(in.src) {
		r = proven
	}
	if !a.admits(l, in, r) {
		return
	}
	c, err := a.newConn(in.dst, in.src)
	if err != nil {
		refuse(mad.SIDRNoQP)
		return
	}
	c.tid, c.service, c.sidrID, c.rank = in.tid, m.ServiceID, m.RequestID, r
	a.sidr[k] = c
	req := m
	req.Private = clone(m.Private)
	c.wait(in.now, l, SIDRReqRcvd, &Event{SIDRReq: &req, CMA: h, Private: req.Private[len(m.Private)-len(user):]})
}

// LookupAnswer is the content of a SIDR_REP.
type LookupAnswer struct {
	Status  mad.SIDRStatus
	QPN     ib.QPN
	QKey    ib.QKey
	Private []byte // up to mad.SIDRRepPrivateBytes
}

// AnswerLookup sends the SIDR_REP. The record is kept for a while, for duplicates.
func (c *Conn) AnswerLookup(now int64, r LookupAnswer) error {
	if c.state != SIDRReqRcvd {
		return &stateError{"SIDR_REP", c.state}
	}
	m := mad.SIDRRep{
		RequestID: c.sidrID, Status: r.Status, QPN: r.QPN, ServiceID: c.service, QKey: r.QKey, Private: r.Private,
	}
	if err := c.keep(mad.AttrSIDRRep, c.tid, &m); err != nil {
		return err
	}
	a := c.a
	c.setState(SIDRRepSent)
	// Longer than a peer waits between two tries, so that a lost answer is repeated. A peer may try
	// for longer than that; but a lookup that the application answers twice does no harm.
	a.setTimer(c, now+int64(c.maxTries)*c.retryNs)
	a.boundTimewait()
	return nil
}

// handleSIDRRep handles the answer to our lookup.
func (a *Agent) handleSIDRRep(in *message) {
	var m mad.SIDRRep
	m.Decode(in.data)
	c := a.byID[mad.CommID(m.RequestID)]
	if c == nil || c.state != SIDRReqSent || c.remote != in.src || !c.answeredBy(in) {
		a.stats.DropUnmatched++
		return
	}
	if m.Status == mad.SIDRUnsupportedService && c.awaitListener(in.now) {
		return
	}
	rep := m
	rep.Private, rep.Info = clone(m.Private), clone(m.Info)
	a.emit(c, Event{Type: EventResolved, SIDRRep: &rep, Private: rep.Private})
	c.remove()
}
