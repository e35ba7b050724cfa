package cm

import "github.com/goroce/goroce/ib/mad"

// numMessages is how many attributes the CM class has, from REQ to APR.
const numMessages = int(mad.AttrAPR-mad.AttrREQ) + 1

// Stats are the counters of an [Agent].
type Stats struct {
	Rx [numMessages]uint64 // messages received, by attribute from REQ on
	Tx [numMessages]uint64 // messages sent, repetitions included

	Retries     uint64 // messages sent again because no answer came
	Duplicates  uint64 // messages received again
	Timeouts    uint64 // tries used up
	Stale       uint64 // connections that the peer turned out to have forgotten
	Evicted     uint64 // half-open connections given up for newer ones
	Withdrawn   uint64 // requests that their sender took back before the owner took them
	Expired     uint64 // requests that the owner did not take, and their sender did not repeat
	StaleClaims uint64 // REQs in the name of peers whose queue pair is connected to us

	Looks    uint64 // questions whether the peer knows the connection
	Asked    uint64 // questions of peers about existing connections
	Returned uint64 // messages that came back: no socket has the port there
	Lost     uint64 // connections that ended for that reason

	TimewaitEvicted uint64 // records forgotten early: Limits.Timewait

	DropMalformed uint64 // not a datagram, or one with impossible content
	DropClass     uint64 // of another management class, method or version
	DropUnmatched uint64 // about none of our connections, or from the wrong address
	DropBacklog   uint64 // requests beyond the backlog of their listener
	DropPeer      uint64 // requests beyond Limits.PerPeer
	DropConns     uint64 // requests beyond Limits.Conns
	DropMRA       uint64 // MRAs for a REQ or REP that has waited for as long as one can
	DropTx        uint64 // datagrams not sent: Limits.TxBacklog
}

// Message returns the counters of one kind of message.
func (s *Stats) Message(a mad.Attribute) (rx, tx uint64) {
	i := int(a) - int(mad.AttrREQ)
	if i < 0 || i >= numMessages {
		return 0, 0
	}
	return s.Rx[i], s.Tx[i]
}

// Counts is how much an [Agent] holds now.
type Counts struct {
	Conns     int // without those in TIMEWAIT
	Waiting   int // of these, with the application
	HalfOpen  int // of these, accepted and not confirmed
	HalfBytes int // bytes that the owner holds for those
	Timewait  int
	Listeners int
	Tables    int // entries of all tables: 0 when nothing is left
}

// Counts returns how much the agent holds.
func (a *Agent) Counts() Counts {
	c := Counts{
		Conns: a.conns, HalfOpen: a.halfOpen.len, HalfBytes: a.halfOpenUse, Timewait: a.timewait.len,
		Listeners: a.numListeners, Waiting: a.waiting,
	}
	c.Tables = len(a.looks.nodes) + len(a.byID) + len(a.byRemote) + len(a.byQPN) + len(a.sidr) +
		len(a.peers) + len(a.timers) + len(a.tx) + len(a.events) + len(a.offers) + len(a.blocked)
	return c
}

// Stats returns the counters.
func (a *Agent) Stats() Stats { return a.stats }
