package cm

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Conn is a connection, or a datagram lookup, seen from one end.
type Conn struct {
	a      *Agent
	state  State
	active bool // this end sent the REQ
	orphan bool // the owner has destroyed it: no events
	gone   bool // no longer in any table
	up     bool // has been established
	mra    bool // this end has sent an MRA
	willed bool // its will was reported

	localID, remoteID mad.CommID
	remoteGUID        mad.GUID
	localQPN          ib.QPN
	remoteQPN         ib.QPN
	local, remote     netip.Addr
	tid               mad.TID // of the REQ, or of the SIDR_REQ
	service           mad.ServiceID
	sidrID            uint32
	timewaitNs        int64
	peerRetryNs       int64 // how long the peer may wait before it repeats its REQ
	peerAnswerNs      int64 // how long the peer may take to answer, as its REQ or ours says; 0: unknown

	// out is the message to repeat, when the timer expires, or for duplicates of the message that
	// it answers; nil if there is none.
	out         *Packet
	tries       int // how often out was sent
	maxTries    int
	retryNs     int64
	heard       bool    // half-open: the peer has shown that it is there
	retryAt     int64   // half-open: when to repeat the REP, if the timer comes earlier
	repNs       int64   // half-open: when the REP was first sent
	endNs       int64   // half-open: when the tries end if the peer stays silent
	farewells   int     // given up: how often to tell the peer again
	holdNs      int64   // half-open, or with a REQ on its way: MRAs postpone the end no further than this
	listenEndNs int64   // a refusal because nothing listens does not count until then: awaitListener
	asked       bool    // the peer was asked whether it knows the connection,
	askedNs     int64   // most recently at this time,
	askedTID    mad.TID // with this transaction ID

	deadline  int64
	heapIndex int // in Agent.timers; -1: no timer

	node               *peerNode // Established
	nodePrev, nodeNext *Conn

	list       *ageList
	prev, next *Conn

	listener *Listener // passive: the listener it came from
	request  *Event    // waits in the queue of listener
	queued   bool      // counts in the backlog of listener
	open     bool      // counts in the connections of listener
	untaken  bool      // counts in those of listener that the application does not have
	taken    bool      // see Taken
	inHand   bool      // counts in those of listener that the owner has not answered
	rank     rank      // of the request
	counted  bool      // counts in Agent.peers
	bytes    int       // that the owner holds for it

	// UserData is for the owner.
	UserData any
}

// State returns the state.
func (c *Conn) State() State { return c.state }

// LocalID returns the communication ID of this end.
func (c *Conn) LocalID() mad.CommID { return c.localID }

// RemoteID returns the communication ID of the peer; 0 if it is unknown.
func (c *Conn) RemoteID() mad.CommID { return c.remoteID }

// Local returns the local address.
func (c *Conn) Local() netip.Addr { return c.local }

// Remote returns the address of the peer.
func (c *Conn) Remote() netip.Addr { return c.remote }

// newConn makes a connection with an ID of its own and enters it.
func (a *Agent) newConn(local, remote netip.Addr) (*Conn, error) {
	id, err := a.newID()
	if err != nil {
		return nil, err
	}
	c := &Conn{
		a: a, localID: id, local: canonical(local), remote: canonical(remote), heapIndex: -1,
		maxTries: a.cfg.Tries, retryNs: a.cfg.RetryNs, timewaitNs: a.cfg.TimewaitNs,
	}
	a.byID[id] = c
	a.conns++
	return c, nil
}

func (c *Conn) remoteKey() remoteKey { return remoteKey{c.remote, c.remoteGUID, c.remoteID} }
func (c *Conn) qpnKey() qpnKey       { return qpnKey{c.remote, c.remoteGUID, uint32(c.remoteQPN)} }

// enter enters the connection under its peer's numbers.
func (c *Conn) enter() {
	c.a.byRemote[c.remoteKey()] = c
	c.a.byQPN[c.qpnKey()] = c
}

// setState changes the state and updates everything that counts connections by state.
func (c *Conn) setState(s State) {
	a, old := c.a, c.state
	c.recount(old, s)
	if old.waitsForApplication() && !s.waitsForApplication() {
		a.waiting--
	} else if !old.waitsForApplication() && s.waitsForApplication() {
		a.waiting++
	}
	if s.halfOpen() != old.halfOpen() {
		c.unlist()
		if s.halfOpen() {
			a.halfOpen.push(c)
			a.halfOpenUse += c.bytes
		} else {
			a.halfOpenUse -= c.bytes
		}
	}
	if pending := s.waitsForApplication() || s.halfOpen(); pending != c.counted {
		c.counted = pending
		if pending {
			a.peers[c.remote]++
		} else if a.peers[c.remote]--; a.peers[c.remote] == 0 {
			delete(a.peers, c.remote)
		}
	}
	if over := s == Timewait || s == SIDRRepSent; over && c.list != &a.timewait {
		a.conns--
		a.timewait.push(c)
	}
	if s == Established && old != Established {
		c.watchNode()
	} else if old == Established && s != Established {
		c.leaveNode()
	}
	c.state = s
	c.up = c.up || s == Established
	c.updateWill()
	if old.halfOpen() && !s.halfOpen() || old == ReqRcvd {
		a.unblock()
	}
}

// remove deletes the record.
func (c *Conn) remove() {
	if c.gone {
		return
	}
	a := c.a
	over := c.list == &a.timewait
	a.stopTimer(c)
	c.setState(Idle)
	c.unlist()
	if !over {
		a.conns--
	}
	c.gone = true
	delete(a.byID, c.localID)
	if k := c.remoteKey(); a.byRemote[k] == c {
		delete(a.byRemote, k)
	}
	if k := c.qpnKey(); a.byQPN[k] == c {
		delete(a.byQPN, k)
	}
	if k := (sidrKey{c.remote, c.sidrID}); a.sidr[k] == c {
		delete(a.sidr, k)
	}
	c.out = nil
}

// keep sends m and makes it the message to repeat.
func (c *Conn) keep(at mad.Attribute, tid mad.TID, m putter) error {
	p := &Packet{Src: c.local, Dst: c.remote}
	if err := encode(&p.Data, at, tid, m); err != nil {
		return err
	}
	c.out, c.tries = p, 1
	c.a.enqueue(p)
	return nil
}

// again sends the message to repeat because of a duplicate.
func (c *Conn) again() {
	if c.out != nil {
		c.a.enqueue(c.out)
	}
}

// startRetries arms the timer that repeats c.out.
func (c *Conn) startRetries(now int64) {
	if c.quiet() {
		c.a.setTimer(c, c.quietTimer(now))
		return
	}
	c.a.setTimer(c, now+c.retryWaitNs(c.tries))
}

// retryWaitNs returns the time to the next repetition. It doubles each time, up to the time that
// the peer may take, if that is longer. Otherwise a crowd of connections to a slow peer would keep
// it from ever answering, and giving up earlier would break the promise made to it.
func (c *Conn) retryWaitNs(tries int) int64 {
	wait := c.retryNs
	for i := 1; i < tries && 2*wait <= c.peerAnswerNs; i++ {
		wait *= 2
	}
	return wait
}

// expire does what is due when the timer has run out.
func (c *Conn) expire(now int64) {
	a := c.a
	switch c.state {
	case Timewait, SIDRRepSent:
		if !c.farewell(now) {
			c.forget()
		}
		return
	case ReqRcvd, SIDRReqRcvd:
		a.stats.Expired++
		c.remove()
		return
	}
	if c.state.halfOpen() && now < c.retryAt {
		c.leaveUntaken() // the peer is slow, or not there
		a.setTimer(c, c.retryAt)
		return
	}
	if c.tries == 1 && c.state.halfOpen() && c.wanted() {
		a.stats.Evicted++
		c.giveUp(now)
		return
	}
	if c.triesLeft() {
		c.tries++
		a.stats.Retries++
		a.enqueue(c.out)
		switch c.state {
		case MRAReqRcvd:
			c.setState(ReqSent)
		case MRARepRcvd:
			c.setState(RepSent)
		}
		c.startRetries(now)
		return
	}
	a.stats.Timeouts++
	switch c.state {
	case ReqSent, MRAReqRcvd:
		c.rejectTimeout()
		a.emit(c, Event{Type: EventUnreachable})
		c.remove()
	case RepSent, MRARepRcvd:
		c.giveUp(now)
		a.calm()
	case DReqSent:
		// The peer may not know: the DREQ stays, and answers its repetitions.
		a.emit(c, Event{Type: EventDisconnected})
		c.enterTimewait(now)
	case SIDRReqSent:
		a.emit(c, Event{Type: EventUnreachable})
		c.remove()
	}
}

// Destroy ends the owner's interest in the connection: it raises no more events. The peer is told,
// repeatedly if necessary: by a REJ before the connection is established, by a DREQ afterwards.
// Destroying again does nothing.
func (c *Conn) Destroy(now int64) {
	if c.orphan {
		return
	}
	switch c.state {
	case ReqSent, MRAReqRcvd:
		c.rejectTimeout()
		c.remove()
	case ReqRcvd, RepRcvd, RepSent, MRARepRcvd:
		_ = c.Reject(now, mad.RejectConsumer, nil, nil) // cannot fail without private data
	case Established:
		_ = c.Disconnect(now, nil)
	case SIDRReqSent:
		c.remove()
	case SIDRReqRcvd:
		_ = c.AnswerLookup(now, LookupAnswer{Status: mad.SIDRRejected})
	}
	c.orphan = true // drops events that were not taken
	c.UserData = nil
	c.leaveUntaken()
	c.leaveConns()
}

// enterTimewait ends the connection, but keeps its record for a while.
func (c *Conn) enterTimewait(now int64) {
	c.setState(Timewait)
	c.a.setTimer(c, now+c.timewaitNs)
	c.a.boundTimewait()
}

// boundTimewait drops the oldest records beyond the limit.
func (a *Agent) boundTimewait() {
	for a.timewait.len > a.cfg.Limits.Timewait {
		a.stats.TimewaitEvicted++
		a.timewait.head.forget()
	}
}

// forget ends the record of a connection that is over.
func (c *Conn) forget() {
	if c.up {
		c.a.emit(c, Event{Type: EventTimewaitExit})
	}
	c.remove()
}

// setAckTimeout derives the time in TIMEWAIT from the ACK timeout of the path, which covers the way
// there and back: nothing sent before TIMEWAIT arrives after it.
func (c *Conn) setAckTimeout(t ib.TimeoutCode) {
	c.timewaitNs = min(max(2*t.Ns(), c.a.cfg.TimewaitNs), maxTimewaitNs)
}

// Shutdown ends all connections at once because the node goes away: each peer is told once. Only
// PollTransmit and PollWill may be called afterwards.
func (a *Agent) Shutdown() {
	for _, id := range slices.Sorted(maps.Keys(a.byID)) { // in an order that a simulation repeats
		c := a.byID[id]
		c.revokeWill()
		switch c.state {
		case Established, DReqSent:
			_ = c.sendDREQ(nil) // fails only without random numbers; then the peer cannot be told
		case RepSent, MRARepRcvd, RepRcvd:
			c.sendREJ(mad.SubjectOther, mad.RejectConsumer, nil)
		case ReqRcvd:
			c.sendREJ(mad.SubjectREQ, mad.RejectConsumer, nil)
		case ReqSent, MRAReqRcvd:
			c.rejectTimeout()
		}
	}
	a.timers, a.events, a.offers, a.blocked = nil, nil, nil, nil
}
