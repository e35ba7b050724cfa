package receive

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// left records which packets of a batch were left unchecked, and what their check needs.
type left struct {
	on    bool        // packets may be left unchecked
	rests []link.Rest // of datagrams with more than one packet, the last datagram last
	runs  []leftRun
	cur   int  // index in runs of the last check
	next  int  // place in the batch of the next packet
	ended bool // the batch takes no more
}

// leftRun is a range of packets of one datagram that are adjacent in the batch.
type leftRun struct {
	from, to int // places in the batch
	index    int // index in the datagram of the first
	rest     int // index in rests
	ident    uint16
	known    bool
}

// begin moves to the next datagram.
func (l *left) begin() {
	if !l.on {
		l.rests = l.rests[:0]
	}
}

// follow records what the check of the packets after the first of a datagram needs.
func (l *left) follow(r link.Rest) { l.rests = append(l.rests, r) }

// rest returns the Rest of the last datagram with several packets.
func (l *left) rest() *link.Rest { return &l.rests[len(l.rests)-1] }

// Batch starts a batch that already has n packets. If unverified is set, Split may leave packets to
// be checked by Check. Packets left of the previous batch were checked, or never will be.
func (s *Splitter) Batch(n int, unverified bool) {
	l := &s.left
	l.on, l.next, l.ended = unverified, n, false
	l.runs, l.cur = l.runs[:0], 0
	if s.Pending() { // after the first packet of its datagram
		l.rests[0] = *l.rest()
		l.rests = l.rests[:1]
	} else {
		l.rests = l.rests[:0]
	}
}

// Ended reports whether the batch must take no more packets.
func (s *Splitter) Ended() bool { return s.left.ended }

// leave hands up the next packet unchecked, if that is possible: it must follow others in a
// datagram, and certainly be for this device if it is right. A packet that may be for another
// device must be checked first, and only after all that were left of its datagram; these are
// checked when the batch is taken, so the batch ends.
func (s *Splitter) leave(p *edge.RxPacket) bool {
	c, l := &s.cur, &s.left
	if s.index == 0 || min(len(c.Data), c.Segment) < ib.BTHBytes+ib.ICRCBytes {
		return false
	}
	if s.HandOn != nil && s.foreign(c.Data) {
		l.ended = l.leftOf(len(l.rests) - 1)
		return false
	}
	r := len(l.rests) - 1
	if n := len(l.runs); n == 0 || l.runs[n-1].rest != r || l.runs[n-1].to != l.next {
		l.runs = append(l.runs,
			leftRun{from: l.next, to: l.next, index: s.index, rest: r, ident: c.Ident, known: c.Known})
	}
	l.next++
	l.runs[len(l.runs)-1].to = l.next
	s.describe(p, s.take(), edge.ICRCUnknown)
	s.index++
	return true
}

// leftOf reports whether packets of a datagram were left in this batch.
func (l *left) leftOf(rest int) bool {
	n := len(l.runs)
	return n > 0 && l.runs[n-1].rest == rest
}

// Check implements edge.Checker for packets that Split has left.
func (s *Splitter) Check(i int, p *edge.RxPacket) bool {
	l := &s.left
	for l.cur < len(l.runs) && i >= l.runs[l.cur].to {
		l.cur++
	}
	for l.cur > 0 && i < l.runs[l.cur-1].to { // checks may go back: an ACK may be checked before packets ahead of it
		l.cur--
	}
	if l.cur == len(l.runs) || i < l.runs[l.cur].from {
		return false // not of this batch
	}
	r := &l.runs[l.cur]
	f, index := l.rests[r.rest].Flow(), r.index+i-r.from
	var v link.Verdict
	if r.known {
		v = f.CheckSegment(p.Data, r.ident, index)
	} else {
		v = f.Check(p.Data, index)
	}
	switch v {
	case link.VerdictOK:
		return true
	case link.VerdictSolved:
		s.sum.solved++
		return true
	}
	s.dropped(len(p.Data))
	return false
}
