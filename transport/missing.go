package transport

import "github.com/goroce/goroce/ib"

// missing is the state of selective repeat in a requester: only missing packets are sent again, not
// those behind them.
//
// A peer that knows selective repeat tells in its sequence NAKs which packets it has (keptMap). The
// two sides find out without negotiation: resent requests carry ib.Resv7Selective, and a peer that
// returns the bit knows it. Others ignore the bit. If no answer comes at all, the bit is not used
// again. A stream asks with one packet before anything is lost. If another queue pair to the same
// address has learned of the peer, a queue pair sends the bit from its first packet on, and knows
// by the first answer. Any other goes back once before it repeats selectively.
//
// Missing responses show by later ones, which are kept (sq.kept) until their turn. The requester
// asks only for the missing part of a READ. If the peer may not know selective repeat it asks for
// one such part at a time, since rdma_rxe forgets what precedes the part requested last
// (docs/rxe.md, row 5).
//
// A packet is lost once enough packets sent after it have come (maxReorder). This goes by order and
// not by time, as in RFC 8985 for TCP: new packets count up in PSN, resent ones in order, and each
// of the latter notes where end was. If nothing else is sent, a timer finds the loss
// (timerMissing).
//
// Packets that the peer reports are not sent again, but only acknowledgements complete requests. If
// none comes, the ACK timeout goes back and forgets all reports.
type missing struct {
	on      bool
	newest  ib.PSN      // behind the newest request that the peer has
	seen    ib.PSN      // behind the newest response that has come
	order   uint32      // packets resent so far
	came    uint32      // the newest of these that has come
	past    ib.PSN      // first transmissions before it precede a resent packet that has come
	due     int         // packets to resend now
	flying  int         // packets resent that have neither come nor been lost
	next    ib.PSN      // the first due packet, or one before it
	arrived int         // in [una, top()): the peer has it, and we have its response
	freed   int         // in [una, end): no longer charged
	cutAt   ib.PSN      // end at the start of a round of losses, which may reduce the window
	cutNs   int64       // time of cutAt
	round   bool        // some packets before cutAt are unaccounted for
	cut     bool        // the window has become smaller in the round
	full    bool        // the losses of the round count as losses for want of room
	allow   int         // packets that the round may still send
	got     int         // packets that have come in the round
	lost    int         // packets lost in the round
	wasSize int         // window before the round; 0 if it does not come back
	repeats int         // packets resent once since the round began that have come
	spread  int         // packets that may overtake another before it counts as lost
	losses  int         // losses since spread grew
	again   rttEstimate // of repeated requests, whose responses wait behind no others
	againAt int64       // time of its last sample
	doubt   uint8       // doublings of lateNs
	backoff uint8       // timeouts since the last news
	ring    []sentPacket
}

// sentPacket is what is known of a PSN in [una, end).
type sentPacket struct {
	had    bool   // the peer has the request
	want   bool   // the peer has the request, but its response is missing
	due    bool   // to be sent, or requested, again
	order  uint32 // its number among resent packets; 0 for never
	behind ib.PSN // end when it was resent
	at     int64  // time when it was resent
	first  int64  // time when it was resent first
	twice  bool   // resent more than once
	flying bool   // it has neither come nor been lost since
	freed  bool   // no longer charged
	// lastResent says of the last packet before una with this slot that it was resent.
	lastResent bool
}

func (x *missing) at(psn ib.PSN) *sentPacket { return &x.ring[int(psn)&(len(x.ring)-1)] }

// top returns the end of the PSNs about which something is known.
func (x *missing) top() ib.PSN {
	if x.seen.After(x.newest) {
		return x.seen
	}
	return x.newest
}

// watchMissing begins to watch all packets in flight. It returns false if there are too many.
func (sq *requester) watchMissing() bool {
	n := span(sq.una, sq.end)
	if n > maxMissing {
		return false
	}
	if sq.miss == nil {
		sq.miss = &missing{}
	}
	x := sq.miss
	if n > len(x.ring) {
		size := max(minKeptSlots, len(x.ring))
		for size < n {
			size *= 2
		}
		old := *x
		x.ring = make([]sentPacket, size)
		for psn, i := sq.una, 0; i < len(old.ring); psn, i = psn.Next(), i+1 {
			*x.at(psn) = *old.at(psn)
		}
	}
	if !x.on {
		*x = missing{on: true, ring: x.ring, again: x.again, againAt: x.againAt, doubt: x.doubt,
			spread: max(x.spread, maxReorder), losses: x.losses, newest: sq.una, seen: sq.una, past: sq.una,
			next: sq.una, cutAt: sq.una}
		if sq.retry.back {
			for psn := sq.una; psn != sq.psn && psn != sq.retry.backEnd; psn = psn.Next() {
				s := x.at(psn)
				x.sentAgain(sq.retry.since, s, sq.end) // or later
				s.twice = true
			}
		}
	}
	return true
}

// watching reports whether something is known to be missing.
func (sq *requester) watching() bool { return sq.miss != nil && sq.miss.on }

// dueAgain reports whether a packet is to be resent now.
func (sq *requester) dueAgain() bool {
	return sq.miss != nil && sq.miss.due != 0 && sq.againRoom() > 0
}

// unwatch forgets what is missing, because nothing is or everything is sent again.
func (sq *requester) unwatch() {
	if x := sq.miss; x != nil && x.on {
		for i := range x.ring {
			x.ring[i] = sentPacket{lastResent: x.ring[i].lastResent}
		}
		x.on, x.due, x.flying = false, 0, 0
		sq.qp.stopTimer(timerMissing)
	}
}

// offer marks a request as coming from a side that knows selective repeat.
func (sq *requester) offer(tx *TxPacket) {
	if sq.peerKeeps || !sq.offerRefused && !sq.qp.e.cfg.Tuning.GoBackN {
		tx.Header[8] |= ib.Resv7Selective
		sq.offered = true
	}
}

// learn notes from a response whether the peer knows selective repeat.
func (sq *requester) learn(p *ib.Packet) {
	if p.Resv7 == ib.Resv7Selective && !sq.peerKeeps && !sq.qp.e.cfg.Tuning.GoBackN {
		sq.peerKeeps, sq.offered, sq.refusals = true, false, 0
		sq.stretchWindow()
		if sq.flight != nil {
			sq.flight.keeps = true
		}
	}
}

// forgetPeer forgets what the peer knows, as an ACK timeout has passed. If it got an offer, the
// next try is without: the peer, or what is on the way, may drop packets that have the bit.
func (sq *requester) forgetPeer() {
	sq.offerRefused = sq.refusals == maxRefusals || sq.offered && !sq.peerKeeps
	sq.peerKeeps, sq.offered, sq.asked = false, false, false
	sq.stretchWindow()
}

// answeredWithoutOffer counts answers to such tries. Few of them prove nothing: a round trip may be
// longer than the ACK timeout.
func (sq *requester) answeredWithoutOffer() {
	if sq.offerRefused && sq.refusals < maxRefusals {
		sq.refusals++
		sq.offerRefused = sq.refusals == maxRefusals
	}
}

// introduces reports whether even a first transmission carries the bit of selective repeat, because
// other QPs at that address know it. A stream asks once, by a packet that requests an answer: its
// first loss would otherwise go back. Connections that wait for each answer lose little by that,
// and stay as others expect them.
func (sq *requester) introduces(ackReq bool) bool {
	switch {
	case sq.peerKeeps:
		return false
	case sq.flight != nil && sq.flight.keeps:
		return true
	case !ackReq || sq.asked || sq.win.used < streamWindow || sq.rtt.smoothed == 0:
		return false
	}
	sq.asked = true
	return true
}

// landed takes a packet out of those resent and in flight.
func (x *missing) landed(s *sentPacket) {
	if s.flying {
		s.flying = false
		x.flying--
	}
}

// setDue marks a packet to be resent.
func (x *missing) setDue(s *sentPacket) {
	x.landed(s)
	if !s.due {
		s.due = true
		x.due++
	}
}

// sentAgain notes that a packet was resent, and where end was.
func (x *missing) sentAgain(now int64, s *sentPacket, end ib.PSN) {
	if s.due {
		s.due = false
		x.due--
	}
	x.order++
	if !s.flying {
		s.flying = true
		x.flying++
	}
	x.allow--
	if s.twice = s.order != 0; !s.twice {
		s.first = now
	}
	s.order, s.behind, s.at = x.order, end, now
}
