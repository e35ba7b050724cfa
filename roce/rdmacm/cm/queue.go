package cm

import "github.com/goroce/goroce/ib/mad"

// The queue of a listener. A request waits here, and only here, until the owner takes it: so a
// request that ends earlier leaves no trace, and all of them can be refused at once.

// SetMaxConns bounds the connections of the listener that exist at a time: those that the owner has
// taken and not destroyed, without half-open ones that failed. At the bound requests stay in the
// queue, and a half-open connection whose peer left the first REP unanswered is given up for a
// waiting request. 0 is no bound.
func (l *Listener) SetMaxConns(n int) { l.maxConns = n }

// SetMaxUntaken bounds the connections of the listener that the owner prepares for the application:
// from Next until [Conn.Taken], or until the owner destroys them. At the bound requests stay in the
// queue. A half-open connection stops counting if its peer leaves the REP unanswered for 50 ms, so
// dead peers cannot keep all others out. 0 is no bound.
func (l *Listener) SetMaxUntaken(n int) { l.maxUntaken = n }

// Taken says that the application has the connection, see [Listener.SetMaxUntaken].
func (c *Conn) Taken() {
	c.taken = true
	c.leaveUntaken()
}

// PollListener returns the next listener that has requests for the owner. It is returned again when
// further ones come.
func (a *Agent) PollListener() (*Listener, bool) {
	for len(a.offers) > 0 {
		l := a.offers[0]
		a.offers[0] = nil
		if a.offers = a.offers[1:]; len(a.offers) == 0 {
			a.offers = nil
		}
		l.offered = false
		if l.Takeable() {
			return l, true
		}
	}
	return nil, false
}

// Next returns the oldest request of the best rank in the queue, an EventRequest. It returns false
// if there is none, or none may be taken now: see SetMaxConns, and Limits.HalfOpenBytes.
func (l *Listener) Next() (Event, bool) {
	if !l.Takeable() {
		l.block()
		return Event{}, false
	}
	c := l.first()
	e := *c.request
	c.request = nil
	c.unlist()
	l.a.stopTimer(c)
	if e.REQ != nil {
		c.open, c.untaken, c.inHand = true, true, true
		l.open++
		l.untaken++
		l.inHand++
	}
	l.block()
	return e, true
}

// Takeable reports whether Next would return a request.
func (l *Listener) Takeable() bool { return l.willing() && !l.lacksRoom() }

// willing is Takeable without regard to the room for half-open connections.
func (l *Listener) willing() bool {
	return l.first() != nil && !l.full() && (l.maxUntaken <= 0 || l.untaken < l.maxUntaken)
}

// full reports whether the listener has as many connections as it may.
func (l *Listener) full() bool { return l.maxConns > 0 && l.open >= l.maxConns }

// offer puts the listener where PollListener finds it, if it has requests to take.
func (l *Listener) offer() {
	switch {
	case !l.Takeable():
		l.block()
	case !l.offered:
		l.offered = true
		l.a.offers = append(l.a.offers, l)
	}
}

// admits reports whether l and the bounds have room for one more request of the peer, and counts
// the drop if not.
func (a *Agent) admits(l *Listener, in *message, r rank) bool {
	switch {
	case l.queued >= l.backlog && !l.displace(r):
		a.stats.DropBacklog++
	case a.peers[in.src] >= a.cfg.Limits.PerPeer:
		a.stats.DropPeer++
	case a.conns >= a.cfg.Limits.Conns:
		a.stats.DropConns++
	default:
		return true
	}
	return false
}

// wait puts the request into the queue of l.
func (c *Conn) wait(now int64, l *Listener, s State, e *Event) {
	e.Type, e.Conn, e.Listener = EventRequest, c, l
	c.listener, c.request = l, e
	c.queued = true
	l.queued++
	l.requests[c.rank].push(c)
	c.setState(s)
	c.keepWaiting(now)
	if l.full() {
		l.makeRoom(now)
	}
	l.offer()
}

// keepWaiting gives a request that the owner has not taken more time, because it has come, or come
// again.
func (c *Conn) keepWaiting(now int64) {
	if c.request != nil {
		c.a.setTimer(c, now+min(max(4*c.peerRetryNs, minQueueNs), maxQueueNs))
	}
}

// leaveQueue removes a request that was not taken from the queue.
func (c *Conn) leaveQueue() {
	if c.request != nil {
		c.request = nil
		c.unlist()
		c.a.stopTimer(c)
	}
}

func (c *Conn) leaveBacklog() {
	if c.queued {
		c.queued = false
		c.listener.queued--
	}
}

func (c *Conn) leaveHand() {
	if c.inHand {
		c.inHand = false
		c.listener.inHand--
	}
}

func (c *Conn) leaveUntaken() {
	if c.untaken {
		c.untaken = false
		c.listener.untaken--
		c.listener.offer()
	}
}

func (c *Conn) leaveConns() {
	if c.open {
		c.open = false
		c.listener.open--
		c.listener.offer()
	}
}

// recount updates the counts of the listener when the state changes from old to s.
func (c *Conn) recount(old, s State) {
	l := c.listener
	if l == nil {
		return
	}
	switch {
	case old.waitsForApplication() && !s.waitsForApplication():
		c.leaveQueue()
		c.leaveBacklog()
		c.leaveHand()
	case s == Established && c.open && !c.taken && !c.untaken:
		c.untaken = true // late, but confirmed
		l.untaken++
	}
	if over := s == Timewait || s == Idle || s == SIDRRepSent; over && !c.up {
		c.leaveUntaken()
		c.leaveConns()
	}
}

// wanted reports whether requests wait for the place of the connection.
func (c *Conn) wanted() bool {
	l := c.listener
	return l != nil && c.open && l.first() != nil && l.full()
}

// makeRoom gives up the oldest half-open connection of the listener whose peer does not answer.
func (l *Listener) makeRoom(now int64) {
	for c := l.a.halfOpen.head; c != nil; c = c.next {
		if c.listener == l && c.open && c.tries > 1 {
			l.a.stats.Evicted++
			c.giveUp(now)
			return
		}
	}
}

// refuseAll refuses the requests in the queue.
func (l *Listener) refuseAll() {
	for c := l.first(); c != nil; c = l.first() {
		if c.state == SIDRReqRcvd {
			m := mad.SIDRRep{RequestID: c.sidrID, Status: mad.SIDRRejected, ServiceID: c.service}
			if l.a.send(c.local, c.remote, mad.AttrSIDRRep, c.tid, &m) != nil {
				l.a.stats.DropTx++
			}
		} else {
			c.sendREJ(mad.SubjectREQ, mad.RejectConsumer, nil)
		}
		c.remove()
	}
}
