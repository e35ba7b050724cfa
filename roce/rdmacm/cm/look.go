package cm

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport/edge"
)

// Peers that are gone. A process that was killed says nothing, and an idle connection to it would
// never find out. So the agent watches each node to which it has established connections; a node is
// one GUID at one address (one opening of a device of this stack, or a host with the kernel's
// stack). Every Config.LookNs it asks about one of the connections. The question is that of
// askPeer, which every CM understands:
//
//   - A CM that knows the connection says nothing. Neither does a host that hangs, or that the
//     network does not reach: silence proves nothing, and is left to the queue pair's retries.
//   - A CM that does not know it answers, with the question's transaction ID: the connection is
//     over, and the node's others are asked about at once.
//   - If no socket has the port, the host's kernel sends the question back (ICMP port unreachable).
//     So does a firewall that is just being changed. So the question is repeated, and when it comes
//     back again, all connections to the node are over.
//
// The transaction ID is 64 random bits, seen only by the network between the two: no one else can
// forge an answer, or a returned message.
//
// A node that asks is alive, and is not asked in that time. So two nodes cost one datagram every
// LookNs, however many connections there are. All nodes are asked together, so that an idle process
// wakes once for them; if there are more than lookBatch they take turns, lookBatch at a time, at
// least leastLookNs apart. So there are at most about a thousand questions a second.
const (
	lookBatch   = 64
	leastLookNs = 64e6
	// suspectNs is the least time between two questions to a node that the clock did not cause.
	suspectNs = 5e6
	// lookOthers is how many other connections are asked about when one turned out to be over. Each
	// of these that is over asks about as many.
	lookOthers = 8
	// askedBefore is how long a connection must not have been asked about to be one of these.
	askedBefore = 100e6
	// returnedNs is how soon a second question must come back after a first. The second is sent at
	// once, but a host limits such ICMP messages, to about one a second.
	returnedNs = 10e9
)

// nodeKey names a node.
type nodeKey struct {
	addr netip.Addr
	guid mad.GUID
}

// peerNode is what the established connections to one node share.
type peerNode struct {
	key        nodeKey
	conns      *Conn // a ring; the next one to ask about
	askedNs    int64 // when the last question was sent
	heardNs    int64 // when the node last asked
	returnedAt int64 // when a question came back
	returned   bool
	prev, next *peerNode
}

// looks has the nodes with established connections, and whose turn it is.
type looks struct {
	nodes map[nodeKey]*peerNode
	ring  *peerNode // the next to ask
	at    int64     // when
}

// watchNode enters a connection that becomes established.
func (c *Conn) watchNode() {
	a := c.a
	k := nodeKey{c.remote, c.remoteGUID}
	n := a.looks.nodes[k]
	if n == nil {
		n = &peerNode{key: k}
		if a.looks.nodes == nil {
			a.looks.nodes = map[nodeKey]*peerNode{}
		}
		a.looks.nodes[k] = n
		if r := a.looks.ring; r == nil {
			n.prev, n.next = n, n
			a.looks.ring, a.looks.at = n, a.clock+a.cfg.LookNs
		} else {
			n.prev, n.next = r.prev, r
			r.prev.next, r.prev = n, n
		}
	}
	c.node = n
	if r := n.conns; r == nil {
		c.nodePrev, c.nodeNext = c, c
		n.conns = c
	} else {
		c.nodePrev, c.nodeNext = r.nodePrev, r
		r.nodePrev.nodeNext, r.nodePrev = c, c
	}
}

// leaveNode removes a connection that is no longer established.
func (c *Conn) leaveNode() {
	n, l := c.node, &c.a.looks
	if n == nil {
		return
	}
	c.nodePrev.nodeNext, c.nodeNext.nodePrev = c.nodeNext, c.nodePrev
	if n.conns == c {
		n.conns = c.nodeNext
	}
	last := n.conns == c
	c.node, c.nodePrev, c.nodeNext = nil, nil, nil
	if !last {
		return
	}
	n.conns = nil
	delete(l.nodes, n.key)
	n.prev.next, n.next.prev = n.next, n.prev
	if l.ring == n {
		l.ring = n.next
	}
	if l.ring == n {
		l.ring = nil
	}
}

// lookAt returns when to ask nodes next.
func (a *Agent) lookAt() (int64, bool) {
	if a.cfg.LookNs <= 0 || a.looks.ring == nil {
		return 0, false
	}
	return a.looks.at, true
}

// look asks the nodes whose turn it is.
func (a *Agent) look(now int64) {
	at, ok := a.lookAt()
	if !ok || now < at {
		return
	}
	all := len(a.looks.nodes)
	for range min(all, lookBatch) {
		n := a.looks.ring
		a.looks.ring = n.next
		if n.heardNs == 0 || now-n.heardNs >= a.cfg.LookNs {
			n.ask(now)
		}
	}
	a.looks.at = now + a.cfg.LookNs
	if all > lookBatch {
		a.looks.at = now + max(a.cfg.LookNs*lookBatch/int64(all), leastLookNs)
	}
}

// ask asks about the connection whose turn it is.
func (n *peerNode) ask(now int64) {
	c := n.conns
	n.conns = c.nodeNext
	c.ask(now)
}

// ask sends the question about an established connection.
func (c *Conn) ask(now int64) {
	a := c.a
	r, err := a.random()
	if err != nil {
		return // try again next time
	}
	c.asked, c.askedNs, c.askedTID = true, now, mad.TID(r)
	c.node.askedNs = now
	if a.send(c.local, c.remote, mad.AttrDREQ, c.askedTID, &mad.DREQ{
		LocalCommID: c.localID, RemoteCommID: c.remoteID, RemoteQPN: mad.NobodysQPN,
	}) != nil {
		a.stats.DropTx++
	}
	a.stats.Looks++
}

// Suspect says that the peer does not answer the queue pair of an established connection: it is
// asked whether it is still there.
func (c *Conn) Suspect(now int64) {
	if c.state == Established && now-c.node.askedNs >= suspectNs && c.a.cfg.LookNs > 0 {
		c.ask(now)
	}
}

// askOthers asks about more connections to a node after one of them turned out to be over.
func (n *peerNode) askOthers(now int64) {
	for range lookOthers {
		c := n.conns
		if c == nil || c.asked && now-c.askedNs < askedBefore {
			return
		}
		n.ask(now)
	}
}

// HandleReturned handles a datagram of this agent that an ICMP message has brought back, without
// the headers of the transport. A request that no way leads to the host ends at once, as a TCP
// connect does. An established connection waits for better times.
func (a *Agent) HandleReturned(now int64, back edge.Returned) {
	b := back.Quote
	const idAt = mad.HeaderBytes
	be := binary.BigEndian
	if len(b) < idAt+4 || mad.Class(b[1]) != mad.ClassCM {
		a.stats.DropUnmatched++
		return
	}
	at, tid, id := mad.Attribute(be.Uint16(b[16:])), mad.TID(be.Uint64(b[8:])), mad.CommID(be.Uint32(b[idAt:]))
	c := a.byID[id]
	switch {
	case c == nil || c.remote != canonical(back.From):
	case at == mad.AttrREQ && tid == c.tid && (c.state == ReqSent || c.state == MRAReqRcvd),
		at == mad.AttrSIDRReq && tid == c.tid && c.state == SIDRReqSent:
		if back.NoHost || !c.awaitListener(now) {
			a.stats.Returned++
			a.emit(c, Event{Type: EventUnreachable, NoPort: !back.NoHost, NoHost: back.NoHost})
			c.remove()
		}
		return
	case back.NoHost:
	case at == mad.AttrDREQ && c.state == Established && c.asked && tid == c.askedTID:
		a.stats.Returned++
		c.asked = false // each counts once
		c.node.cameBack(now)
		return
	case at == mad.AttrDREQ && c.state == DReqSent && c.out != nil && tid == mad.TID(be.Uint64(c.out.Data[8:])):
		a.stats.Returned++
		c.disconnected(now, Event{})
		return
	}
	a.stats.DropUnmatched++
}

// cameBack handles a question that came back.
func (n *peerNode) cameBack(now int64) {
	if n.returned && now-n.returnedAt < returnedNs {
		for n.conns != nil {
			n.conns.lost(now)
		}
		return
	}
	n.returned, n.returnedAt = true, now
	n.ask(now)
}

// lost ends a connection whose peer is gone.
func (c *Conn) lost(now int64) {
	c.a.stats.Lost++
	c.disconnected(now, Event{Gone: true})
}
