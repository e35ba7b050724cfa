package transport

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// handleResponse handles one RC response that has passed the dispatcher's checks. Its PSN says
// which request it answers. One outside [una, end) answers no outstanding request and is ignored:
// it is a duplicate, or an ACK that rdma_rxe invents for a duplicate (wire format 5.6).
//
// A response acknowledges everything before its PSN (IBTA 9.7.5.1.2), up to the first READ or
// atomic, whose own response must then have been lost.
func (sq *requester) handleResponse(now int64, p *ib.Packet) {
	if span(sq.una, p.PSN) >= span(sq.una, sq.end) {
		if p.Opcode == ib.RCAcknowledge && p.PSN == sq.una.Prev() && p.AETH.Syndrome.Kind() == ib.SyndromeACK {
			if sq.fitCredits(p.AETH) {
				sq.newCredits(p) // an ACK that only carries credits
				if p.Resv7 == ib.Resv7Selective {
					sq.forNothing() // or answers a packet that came twice
				}
			}
			return
		}
		if p.Opcode.Info().Op == ib.OpReadResponse && p.PSN.Before(sq.una) {
			sq.cameTwice(p.PSN)
		}
		sq.ignore(now, p, "response to nothing outstanding")
		return
	}
	if !sq.believes(now, p) {
		return
	}
	sq.learn(p)
	lost := sq.kept.n != 0 && sq.askedAgain(now, p)
	from := sq.una
	reached := sq.ackBefore(now, p.PSN)
	if sq.q.head == sq.q.tail {
		return // the QP went to ERR meanwhile
	}
	switch p.Opcode.Info().Op {
	case ib.OpAcknowledge:
		switch p.AETH.Syndrome.Kind() {
		case ib.SyndromeACK:
			sq.onAck(now, p, reached)
		case ib.SyndromeRNR:
			sq.progress(now, from, false)
			sq.onRNR(now, p, reached)
			return
		case ib.SyndromeNAK:
			sq.progress(now, from, false)
			sq.onNAK(now, p, reached)
			return
		default:
			sq.badResponse(now, p)
		}
	case ib.OpReadResponse:
		if reached {
			sq.onReadResponse(now, p)
		}
	case ib.OpAtomicAck:
		if reached {
			sq.onAtomicAck(now, p)
		}
	}
	sq.progress(now, from, false)
	if !reached {
		sq.ahead(now, p)
	} else if sq.kept.n != 0 && !sq.inTurn {
		sq.takeInTurn(now, lost)
	}
}

// ignore counts a response without effect.
func (sq *requester) ignore(now int64, p *ib.Packet, why string) {
	sq.qp.e.drop(now, p, &sq.qp.e.counters.DropBadResponse, why)
}

// needsResponse reports whether only an operation's own response, which carries data, completes it.
// ATOMIC WRITE and FLUSH wait for theirs too, but the response to a later request serves as well,
// since requests are executed in order. (rdma_rxe does not answer a duplicate FLUSH.)
func (o WROpcode) needsResponse() bool {
	return o == WRRead || o == WRCompareSwap || o == WRFetchAdd
}

// ackBefore acknowledges everything before psn, which is in [una, end). It returns false if it
// meets a request that needs its own response.
func (sq *requester) ackBefore(now int64, psn ib.PSN) bool {
	for sq.una != psn {
		if sq.q.head == sq.q.tail {
			return false // an error has ended the queue
		}
		w := sq.q.at(sq.q.head)
		if w.op.needsResponse() {
			return false
		}
		left := int(w.npkts) - span(w.psn, sq.una)
		if n := span(sq.una, psn); n < left {
			sq.una = sq.una.Add(n)
			return true
		}
		sq.una = sq.una.Add(left)
		sq.retire(now)
	}
	return true
}

// ackHead acknowledges the packet at una, which belongs to the request w at head.
func (sq *requester) ackHead(now int64, w *sendWQE) {
	sq.una = sq.una.Add(1)
	if span(w.psn, sq.una) == int(w.npkts) {
		sq.retire(now)
	}
}

// progress follows up on the acknowledgement of the packets from from up to una: all by one packet
// or, if run, by a packet each.
func (sq *requester) progress(now int64, from ib.PSN, run bool) {
	n := span(from, sq.una)
	if n != 0 && sq.out+sq.in != 0 {
		if sq.watching() {
			sq.dischargePassed(from)
		} else {
			sq.discharge(n, span(from, sq.psn))
		}
		sq.qp.stopTimer(timerFlight)
	}
	if n == 0 || sq.qp.state < StateRTS || sq.qp.state == StateErr {
		return
	}
	q := &sq.q
	// Acknowledged packets need not be sent again.
	if sq.una.After(sq.psn) {
		sq.psn = sq.una
		q.cur, sq.curPkt = q.head, 0
		if q.head != q.tail {
			if w := q.at(q.head); w.state == wqeBegun {
				sq.curPkt = uint32(span(w.psn, sq.una))
			}
		}
	}
	sq.reads.answered(sq.una)
	if sq.kept.n != 0 {
		sq.kept.passed(sq.qp.e, from, sq.una)
	}
	sq.cause.acked(&sq.rtt, n)
	behind := 0
	if run {
		// The packets of a run behind the timed one open the window by what that shows.
		if sq.rtt.timing {
			behind = max(n-1-span(from, sq.rtt.psn), 0)
		}
		sq.win.onRun(n - behind)
	} else {
		sq.win.onAck(n)
	}
	trip, late := sq.retry.onProgress(sq, now)
	sq.noteRoom(now)
	sq.win.onRun(behind)
	if sq.watching() {
		sq.passedMissing(now, from)
	}
	if sq.qp.delayed {
		sq.qp.news(now, trip, late)
	}
	if sq.una == sq.end {
		sq.qp.timers.set &^= 1<<timerAck | 1<<timerProbe
		if sq.curPkt == 0 {
			sq.hasAsked()
		}
		sq.checkDrained(now)
	} else if !sq.retry.rnrWait {
		sq.armAckTimer(now)
		sq.armProbe(now)
	}
	if sq.failRefused(now) {
		return
	}
	if q.cur != q.tail {
		sq.qp.markReady()
	}
}

// onAck handles a positive acknowledgement of p.PSN.
func (sq *requester) onAck(now int64, p *ib.Packet, reached bool) {
	sq.newCredits(p)
	if !reached {
		return
	}
	w := sq.q.at(sq.q.head)
	if w.op.needsResponse() {
		// This is no answer: rdma_rxe acknowledges duplicates of earlier requests with the PSN of
		// an atomic, which says nothing about the data.
		sq.ignore(now, p, "ACK in place of data")
		return
	}
	sq.ackHead(now, w)
}

// newCredits takes the credits that an ACK carries.
func (sq *requester) newCredits(p *ib.Packet) {
	sq.credit.update(p.AETH)
	if sq.credit.used && sq.q.cur != sq.q.tail {
		sq.qp.markReady()
	}
}

// onReadResponse handles one packet of a READ's data, or the answer to FLUSH or ATOMIC WRITE; p.PSN
// is una. The PSN tells which packet of the READ it is. A responder may answer the rest of a READ
// with FIRST or ONLY, as specified, or with MIDDLE and LAST (rdma_rxe).
func (sq *requester) onReadResponse(now int64, p *ib.Packet) {
	w := sq.q.at(sq.q.head)
	info := p.Opcode.Info()
	sq.cameInRun()
	if info.Headers&ib.HasAETH != 0 {
		if p.AETH.Syndrome.Kind() != ib.SyndromeACK {
			sq.badResponse(now, p)
			return
		}
		sq.newCredits(p)
	}
	switch w.op {
	case WRRead:
	case WRFlush, WRAtomicWrite:
		if p.Opcode != ib.RCReadRespOnly || len(p.Payload) != 0 {
			sq.badResponse(now, p)
			return
		}
		sq.ackHead(now, w)
		return
	default:
		sq.badResponse(now, p)
		return
	}
	mtu := uint32(sq.qp.mtu)
	idx := uint32(span(w.psn, sq.una))
	off := idx * mtu
	want := mtu
	if idx == w.npkts-1 {
		want = w.length - off
		if info.Pos&ib.Last == 0 {
			sq.badResponse(now, p)
			return
		}
	}
	if uint32(len(p.Payload)) != want || int(p.Pad) != ib.PadFor(len(p.Payload)) {
		sq.badResponse(now, p)
		return
	}
	if want != 0 && !sq.deliver(now, off, p.Payload) {
		return
	}
	sq.ackHead(now, w)
}

// onAtomicAck handles the original value that an atomic found; p.PSN is una.
func (sq *requester) onAtomicAck(now int64, p *ib.Packet) {
	w := sq.q.at(sq.q.head)
	if w.op != WRCompareSwap && w.op != WRFetchAdd || p.AETH.Syndrome.Kind() != ib.SyndromeACK || len(p.Payload) != 0 {
		sq.badResponse(now, p)
		return
	}
	sq.newCredits(p)
	// Operands travel big-endian and are in host order in memory.
	var value [mem.AtomicBytes]byte
	binary.NativeEndian.PutUint64(value[:], p.AtomicAck)
	if sq.deliver(now, 0, value[:]) {
		sq.ackHead(now, w)
	}
}

// deliver writes data at offset off of the memory that the request at head names. If that memory is
// gone the request fails.
func (sq *requester) deliver(now int64, off uint32, data []byte) bool {
	c := &sq.rx
	f := c.seek(sq, sq.q.head, mem.LocalWrite, off)
	if f == mem.FaultNone && c.cur.CopyIn(data) != len(data) {
		f = mem.FaultBounds
	}
	if f != mem.FaultNone {
		sq.failHead(now, WCLocalProtErr, uint32(f))
		return false
	}
	return true
}

// badResponse fails the request at head after an impossible response (IBTA 9.9.2.3).
func (sq *requester) badResponse(now int64, p *ib.Packet) {
	sq.ignore(now, p, "bad response")
	sq.failHead(now, WCBadRespErr, uint32(p.Opcode)<<8|uint32(p.AETH.Syndrome))
}
