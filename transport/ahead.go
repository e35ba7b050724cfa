package transport

import "github.com/goroce/goroce/ib"

// Responses that come before their turn, because the response to an earlier READ or atomic is
// missing. A requester keeps them and handles them in their turn, so that memory changes and
// requests complete in order. It asks only for what is missing. As at a responder
// (responder_ahead.go) kept responses count only if the missing one was requested again, or if they
// came twice.

// ahead handles a response behind a missing one: it keeps the response, if possible, and requests
// what is missing.
func (sq *requester) ahead(now int64, p *ib.Packet) {
	e := sq.qp.e
	if e.cfg.Tuning.GoBackN {
		sq.impliedNAK(now, p.PSN)
		return
	}
	switch k := sq.kept.at(p.PSN); {
	case sq.inTurn:
	case k != nil && sq.kept.differs(p):
		sq.dropKept(k) // one of the two is forged
	case k != nil:
		k.same = true
		sq.cameTwice(p.PSN)
	case sq.keepable(p) && sq.kept.keep(e, sq.una, p, 1):
		e.counters.KeptAhead++
		if sq.watching() {
			if s := sq.miss.at(p.PSN); s.want {
				sq.came(now, s)
				s.want = false
			}
			sq.arrives()
		}
		if sq.rtt.timing && p.PSN == sq.rtt.psn && (!sq.watching() || sq.miss.at(p.PSN).order == 0) {
			sq.timedCame(now)
		}
	}
	if !sq.peerKeeps || sq.retry.rnrWait || sq.una == sq.end || !sq.watchMissing() {
		sq.impliedNAK(now, p.PSN)
		return
	}
	sq.retry.heard(&sq.qp.attr)
	if sq.psn != sq.end {
		sq.goOn()
	}
	sq.missUpTo(now, p.PSN)
}

// missUpTo looks for missing responses before the one to psn, which has come.
func (sq *requester) missUpTo(now int64, psn ib.PSN) {
	sq.missResponses(now, psn.Next())
	sq.findMissing(now)
	if sq.q.cur != sq.q.tail {
		sq.qp.markReady()
	}
}

// keepable reports whether a response may be kept: not if it ends or delays the queue pair.
func (sq *requester) keepable(p *ib.Packet) bool {
	info := p.Opcode.Info()
	if info.Headers&ib.HasAETH != 0 && p.AETH.Syndrome.Kind() != ib.SyndromeACK {
		return false
	}
	return len(p.Payload) <= sq.qp.mtu && span(sq.una, p.PSN) <= min(max(minKeepAhead, sq.win.max), maxKeepAhead)
}

// dropKept drops a kept response, which must then be requested again.
func (sq *requester) dropKept(k *keptPacket) {
	if psn := k.p.PSN; sq.watching() && span(sq.una, psn) < span(sq.una, sq.miss.seen) {
		sq.miss.at(psn).want = true
	}
	sq.kept.drop(sq.qp.e, k)
}

// dropDoubted drops a response whose turn it is, and all others that the peer's have overtaken.
func (sq *requester) dropDoubted(k *keptPacket) {
	o := &sq.kept
	doubt := o.doubt
	sq.dropKept(k)
	for _, k := range o.slots {
		if k != nil && k.seq <= doubt {
			sq.dropKept(k)
		}
	}
}

// askedAgain reports whether a response may answer a resent request: it comes at least a round trip
// after the first of these. One that comes sooner shows that the kept responses have overtaken it,
// or are forged.
func (sq *requester) askedAgain(now int64, p *ib.Packet) bool {
	at := sq.retry.since
	if sq.watching() {
		s := sq.miss.at(p.PSN)
		if s.order == 0 {
			return false
		}
		at = s.first
	} else if !sq.retry.recovering {
		return false
	}
	least := sq.leastRTT()
	return least != 0 && now-at >= least-least/64
}

// believesKept reports whether a kept response, whose turn it is, is the peer's. lost says that the
// one before it was lost.
func (sq *requester) believesKept(k *keptPacket, lost bool) bool {
	return k.same || lost && k.seq > sq.kept.doubt || sq.peerKeeps && k.near
}

// takeInTurn handles the kept responses whose turn has come after one that was lost, or was not. It
// requests again those that may not be the peer's.
func (sq *requester) takeInTurn(now int64, lost bool) {
	e, reached, dropped := sq.qp.e, false, false
	newest := sq.kept.top.Prev()
	sq.inTurn = true
	for sq.kept.n != 0 && sq.una != sq.end && sq.q.head != sq.q.tail {
		psn, ok := sq.kept.first(sq.una)
		if !ok || span(sq.una, psn) >= span(sq.una, sq.end) || !sq.reaches(psn) {
			break
		}
		k := sq.kept.at(psn)
		if psn != sq.una && k.p.Opcode.Info().Headers&ib.HasAETH == 0 {
			break // it does not say what was executed: see believes
		}
		reached = true
		if dropped = !sq.believesKept(k, lost); dropped {
			sq.dropDoubted(k)
			break
		}
		lost = true
		sq.kept.take(e, psn, &e.rx)
		e.counters.KeptInTurn++
		sq.handleResponse(now, &e.rx)
	}
	sq.inTurn = false
	if !lost && !reached {
		sq.kept.doubt = sq.kept.seq // the peer's come in order, but these came before them
	}
	if sq.kept.n == 0 && !dropped || sq.una == sq.end || sq.q.head == sq.q.tail ||
		span(sq.una, newest) >= span(sq.una, sq.end) {
		return
	}
	// More responses are missing.
	switch psn, ok := sq.kept.first(sq.una); {
	case sq.watching():
		if dropped && sq.peerKeeps {
			sq.findMissing(now)
		}
	case sq.peerKeeps:
		if sq.psn == sq.end && !sq.retry.rnrWait && sq.watchMissing() {
			sq.missUpTo(now, newest)
		}
	case sq.retry.all:
		// The answers are on their way.
	case ok && span(sq.una, psn) < span(sq.una, sq.end):
		sq.impliedNAK(now, psn)
	case dropped:
		sq.impliedNAK(now, newest)
	}
}

// reaches reports whether no request before psn waits for a response of its own.
func (sq *requester) reaches(psn ib.PSN) bool {
	for i := sq.q.head; i != sq.q.tail; i++ {
		w := sq.q.at(i)
		if w.npkts == 0 {
			continue
		}
		first := w.psn
		if sq.una.After(first) {
			first = sq.una
		}
		if !first.Before(psn) {
			return true
		}
		if w.op.needsResponse() {
			return false
		}
	}
	return true
}

// askForGap requests the first part missing before the kept responses, and nothing behind it. It
// returns false if the requester must go back.
func (sq *requester) askForGap(now int64) bool {
	psn, ok := sq.kept.first(sq.una)
	w := sq.q.at(sq.q.head)
	if !ok || sq.psn != sq.end || w.length == 0 || !w.op.needsResponse() || !sq.watchMissing() {
		return false
	}
	sq.unwatch()
	if !sq.watchMissing() {
		return false
	}
	x, r := sq.miss, &sq.retry
	last := sq.una
	if w.op == WRRead {
		last = sq.partOf(sq.una)
	}
	if !last.Before(psn) {
		last = psn.Prev()
	}
	for at := sq.una; ; at = at.Next() {
		s := x.at(at)
		s.had, s.want = true, true
		x.setDue(s)
		if at == last {
			break
		}
	}
	x.seen, x.newest = last.Next(), last.Next()
	sq.qp.e.counters.CompleterRetryErr++
	r.recovering, r.since, sq.rtt.nextWindow = true, now, int32(sq.win.size)
	sq.rtt.cancel()
	sq.armAckTimer(now)
	sq.armProbe(now)
	sq.qp.markReady()
	return true
}
