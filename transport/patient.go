package transport

import (
	"maps"
	"slices"

	"github.com/goroce/goroce/ib"
)

// A request with SendPatient is one whose completion nobody waits for yet. So its last packet
// requests no answer, as those inside a message do not: an acknowledgement is a datagram, which
// wakes a process. What requests one in its place:
//
//   - a later packet: of any other request, the last that window and room admit, one in askEvery,
//     and one that leaves maxUnaskedNs after the first that has requested none;
//   - Ask, when somebody begins to wait;
//   - the last packet, sent again as a loss probe and as soon as one. So a packet that is lost is
//     missed no later. A queue pair whose few messages all end so requests answers for some time.
//
// A responder acknowledges what requests no answer along with requests of its own, if these leave
// room in a datagram, and by Acknowledge, when its program is about to end the connection.
type patience struct {
	spared int   // messages that requested no answer, since a probe was needed for that
	eager  int   // messages that do, next
	back   int   // the last eager
	by     int64 // when one does, after one that did not; 0: none did not
}

// late notes that a probe had to request the answer.
func (p *patience) late() {
	if p.back = min(2*p.back+1, maxEager); p.spared >= fewSpared {
		p.back = 0
	}
	p.spared, p.eager = 0, p.back
}

// spares reports whether the last packet of w requests no answer.
func (sq *requester) spares(now int64, w *sendWQE) bool {
	qp, p := sq.qp, &sq.patience
	switch {
	case w.flags&SendPatient == 0 || sq.psn != sq.end || qp.state != StateRTS,
		sq.probe.nextNs == 0 || sq.credit.used,
		sq.sinceAck+1 >= qp.caps.MaxSendWR/4,
		sq.cost != 0 && sq.flight.used > sq.flight.size/2, // others may wait for that room
		p.by != 0 && now >= p.by:
		return false
	case p.eager > 0:
		p.eager--
		return false
	}
	if p.by == 0 {
		p.by = now + min(sq.probe.limitNs/4, maxUnaskedNs)
	}
	p.spared++
	return true
}

// hasAsked notes that a packet requests an answer for all that were sent, or none is outstanding.
func (sq *requester) hasAsked() { sq.sinceAck, sq.patience.by = 0, 0 }

// unasked reports whether the newest message in flight requests no answer.
func (sq *requester) unasked() bool {
	return sq.sinceAck > 0 && sq.curPkt == 0 && sq.psn == sq.end && sq.una != sq.end
}

// Ask has the peer acknowledge all that was posted, whether with SendPatient or not.
func (qp *QP) Ask() {
	sq := &qp.sq
	if q := &sq.q; q.cur != q.tail {
		q.at(q.tail - 1).flags &^= SendPatient
	} else if sq.unasked() {
		sq.probe.due = true
		qp.markReady()
	}
}

// AcknowledgeAll is QP.Acknowledge for all.
func (e *Engine) AcknowledgeAll() {
	for _, n := range slices.Sorted(maps.Keys(e.qps)) {
		e.qps[n].Acknowledge()
	}
}

// Acknowledge acknowledges what the peer has not asked for, before the queue pair ends.
func (qp *QP) Acknowledge() {
	if r := &qp.resp; r.unasked && r.msg.op == ib.OpInvalid && qp.state >= StateRTR && qp.state != StateErr {
		r.acknowledge()
	}
}
