package transport

import "github.com/goroce/goroce/ib"

// Selective repeat of a requester: it sends again what is missing, and not what is behind it.
//
// What is missing at the peer, the peer tells, in its sequence NAKs, if it knows selective repeat
// (keptMap). Whether it does is found out without being agreed on: what is sent again has
// ib.Resv7Selective, and a peer that has it in its answers knows. Others ignore the bit. If no
// answer comes at all, the bit is not used again. So a queue pair goes back once before it repeats
// selectively, unless another one to that address has found out: then it says so from its first
// packet on, and knows by the first answer.
//
// What is missing of responses shows by those behind it, which are kept (sq.kept) until their turn.
// A READ is asked for in the part that is missing: of a peer that is not known to know, the first
// such part alone, until it has come, since rdma_rxe forgets what is before the part that it was
// asked for last (docs/rxe.md, row 5).
//
// A packet is lost if enough that were sent after it have come (maxReorder), as RFC 8985 has it for
// TCP, by order and not by time: new packets count up in PSN, those that are sent again in order,
// and each of these has noted where the end was. What that does not find, because nothing else is
// sent, a timer finds (timerMissing).
//
// What a peer says that it has is not sent again, and no more: only what it acknowledges completes.
// If that does not come, the ACK timeout goes back, and everything that was said is forgotten.
type missing struct {
	on      bool
	newest  ib.PSN      // behind the newest request that the peer has
	seen    ib.PSN      // behind the newest response that has come
	order   uint32      // packets that were sent again so far
	came    uint32      // the newest of these that has come
	past    ib.PSN      // what was sent for the first time before this, was sent before one of these that has come
	due     int         // to be sent again now
	flying  int         // sent again, and neither come nor lost
	next    ib.PSN      // the first that is due, or before it
	arrived int         // in [una, top()): the peer has it, and so do we its response
	freed   int         // in [una, end): nothing is charged for them any more
	cutAt   ib.PSN      // end when a round of losses began: the window was made smaller, or need not be
	cutNs   int64       // when that was
	round   bool        // what was sent before cutAt is not all accounted for
	allow   int         // packets that may be sent in the round
	got     int         // packets that have come in the round
	lost    int         // that were lost in it
	wasSize int         // of the window before the round; 0 if that is not to come back
	repeats int         // packets that were sent again since the round began, and have come
	spread  int         // so many may overtake a packet that is not taken to be lost
	losses  int         // since spread was made larger
	again   rttEstimate // of responses that were asked for again, which wait behind no others at the peer
	doubt   uint8       // doublings of what is late for one of these
	backoff uint8       // timeouts since there was news
	ring    []sentPacket
}

// sentPacket is what is known of a PSN in [una, end).
type sentPacket struct {
	had    bool   // the peer has the request
	want   bool   // had, and its response is missing
	due    bool   // to be sent, or asked for, again
	order  uint32 // when that was last; 0 for never
	behind ib.PSN // end then
	at     int64  // the time then
	twice  bool   // it was sent again more than once
	flying bool   // it has neither come since, nor was it lost
	freed  bool   // nothing is charged for it any more
}

func (x *missing) at(psn ib.PSN) *sentPacket { return &x.ring[int(psn)&(len(x.ring)-1)] }

// top returns the end of what may be known to be missing.
func (x *missing) top() ib.PSN {
	if x.seen.After(x.newest) {
		return x.seen
	}
	return x.newest
}

// watchMissing makes sure that all that is on its way is watched. It reports false if that is too
// much.
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
		*x = missing{on: true, ring: x.ring, again: x.again, doubt: x.doubt, spread: max(x.spread, maxReorder), losses: x.losses, newest: sq.una, seen: sq.una, past: sq.una, next: sq.una, cutAt: sq.una}
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

// dueAgain reports whether something is to be sent again now.
func (sq *requester) dueAgain() bool {
	return sq.miss != nil && sq.miss.due != 0 && sq.againRoom() > 0
}

// unwatch forgets what is missing: nothing is, or all of it is sent again.
func (sq *requester) unwatch() {
	if x := sq.miss; x != nil && x.on {
		clear(x.ring)
		x.on, x.due, x.flying = false, 0, 0
		sq.qp.stopTimer(timerMissing)
	}
}

// offer tells in a request that is sent again that this side knows selective repeat.
func (sq *requester) offer(tx *TxPacket) {
	if sq.peerKeeps || !sq.offerRefused && !sq.qp.e.cfg.Tuning.GoBackN {
		tx.Header[8] |= ib.Resv7Selective
		sq.offered = true
	}
}

// learn takes from a response whether the peer knows selective repeat.
func (sq *requester) learn(p *ib.Packet) {
	if p.Resv7 == ib.Resv7Selective && !sq.peerKeeps && !sq.qp.e.cfg.Tuning.GoBackN {
		sq.peerKeeps, sq.offered = true, false
		if sq.flight != nil {
			sq.flight.keeps = true
		}
	}
}

// introduces reports whether a request that is sent for the first time tells that this side knows
// selective repeat: others at that address do. Without that the bit is only in what is sent again.
func (sq *requester) introduces() bool {
	return sq.flight != nil && sq.flight.keeps && !sq.peerKeeps
}

// landed takes a packet out of those that were sent again and are on their way.
func (x *missing) landed(s *sentPacket) {
	if s.flying {
		s.flying = false
		x.flying--
	}
}

// setDue marks a packet to be sent again.
func (x *missing) setDue(s *sentPacket) {
	x.landed(s)
	if !s.due {
		s.due = true
		x.due++
	}
}

// sentAgain notes that a packet was sent again, when end was where it is.
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
	s.twice = s.order != 0
	s.order, s.behind, s.at = x.order, end, now
}
