package analyse

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// answerToAgain handles an ACK that a request which was sent again may have drawn: the second one
// for what was ended by a first one just before tells that both the first and the second request
// arrived.
func (h *half) answerToAgain(p *pcap.Packet) {
	f := h.silentLast
	if f == nil || f.request != h.silentPSN || !f.open || !h.last.valid || p.PSN != h.last.psn ||
		p.AtNs-h.last.at > 2*max(reorderNs, h.silentGap) {
		return
	}
	f.add(p.Frame)
	f.answers++
	if h.silences == 1 && f.answers >= f.count {
		f.is(LateAck)
		if h.atResponder() {
			f.is(LostAck, LateAck) // both left, and one may have been lost
		}
		f.QPN = h.c.ends[h.side].QPN
		f.what = func(f *Finding) string {
			return fmt.Sprintf("The request with PSN %d was sent in packet %d and again in packet %d, and both were answered: the first answer came later than the requester waits.",
				f.PSN, f.Frames[0], f.Frames[1])
		}
		return
	}
	h.lostAckOf(f, p.PSN)
}

// resolve decides why a request had to be sent again for want of an answer, now that there is one.
func (h *half) resolve(p *pcap.Packet, psn ib.PSN, r *record) {
	s := h.pending
	if s == nil || psn.Diff(s.psn) < 0 {
		if psn.Diff(h.silentPSN) > 0 {
			h.silences = 0
		}
		return
	}
	h.pending = nil
	first, again := s.frames[0], s.frames[len(s.frames)-1]
	info := s.rec.opcode.Info()
	rtt := h.rtt.min
	wait := time.Duration(s.at - s.first)
	if r != nil && r.find != nil && r.find.Kind == Corrupt || h.openBefore(s.psn) {
		return
	}
	if h.tailLost(s, p) {
		return
	}
	if soon, sure := h.tooSoon(p.AtNs - s.at); soon {
		f := h.findBack(LateAck, s.psn, first)
		if !sure || s.rec.times != 1 || len(s.frames) > 2 { // it may answer one of several
			request, back := lostKinds(info.Op)
			f.is(LateAck, request, back)
			h.leadAsking(f, s)
		}
		for _, x := range s.frames[1:] {
			f.add(x)
		}
		f.add(p.Frame)
		this := see(p)
		f.what = func(f *Finding) string {
			t := fmt.Sprintf("%s sent the request with PSN %d again in packet %d, %v after the first time. The answer in packet %d came too soon to be one to that: it was late, not lost.",
				h.requester(), s.psn, again, wait, this.Frame)
			if !sure {
				t += " But it did not come much sooner than others."
			}
			return t
		}
		h.silentLast = f
		return
	}
	if h.duplicatesAcked(s, p, psn, r) {
		return
	}
	request, back := lostKinds(info.Op)
	kind, or := back, request
	if h.atRequester() {
		kind, or = request, back
	}
	f := h.find(kind, s.psn, s.frames...)
	f.is(kind, or)
	h.leadAsking(f, s)
	if back == LostAck {
		f.is(kind, or, LateAck) // one ACK may answer both
	}
	f.count = s.resent
	if h.atResponder() {
		// It was here, and no answer went out: the host dropped it before its queue pair had it.
		f.is(SlowReceiver, request)
		f.Certain = false
	}
	this := see(p)
	f.what = func(f *Finding) string {
		t := fmt.Sprintf("Nothing answered the %s with PSN %d (packet %d). After %v %s sent it again (packet %d), and then there was an answer (packet %d).",
			requestWord(request), s.psn, first, wait, h.requester(), again, this.Frame)
		if f.Kind == SlowReceiver {
			return t + " The first one reached the responder's host but was not answered from there."
		}
		t += " Either the request or its answer was lost"
		if back == LostAck {
			t += ", or the responder was slow and answered both at once"
		}
		return t + "."
	}
	f.add(p.Frame)
	f.open = true
	h.silentLast = f
	if s.resent > 1 && psn.Diff(s.psn) > 0 && r != nil && p.AtNs-r.lastAt < rtt*8/10 {
		// It acknowledges more than could have been sent again by then.
		h.lostAckOf(f, psn)
	}
}

// leadAsking puts the packet in front that asked for the answer: of what was sent again, the last
// one before the silence that asked for an acknowledgement. If one before it had been lost, there
// would have been a NAK.
func (h *half) leadAsking(f *Finding, s *silence) {
	if h.nak.find != nil && h.nak.psn == s.psn {
		return // there was a NAK for this one, which responders do not repeat
	}
	for q, i := s.tail.Prev(), 0; q.Diff(s.psn) > 0 && i < maxWindow; q, i = q.Prev(), i+1 {
		h.a.steps++
		x := h.sent.get(q)
		if x == nil || !x.ackReq || x.at >= s.at {
			continue
		}
		f.PSN = q
		f.lead(x.frame)
		return
	}
}

// lostKinds are what the loss of a request, and of its answer, are called.
func lostKinds(op ib.Operation) (request, back Kind) {
	switch {
	case op == ib.OpRead:
		return LostReadRequest, LostReadResponse
	case isAtomic(op) || op == ib.OpAtomicWrite || op == ib.OpFlush:
		return LostRequest, LostAtomicAck
	}
	return LostRequest, LostAck
}

// manyTrips is how many round trips determine the shortest.
const manyTrips = 16

// tooSoon reports whether an answer that comes some time after a request was sent again is one to
// an earlier time that it was sent. It is sure if that is much less than any round trip so far: a
// few round trips say little about the next.
func (h *half) tooSoon(after int64) (soon, sure bool) {
	rtt := h.rtt.min
	return rtt != 0 && after < rtt*8/10, after < rtt/4 && h.rtt.n >= manyTrips
}

// tailLost reports that the end of what was sent never came to the place of the capture: the
// requester sends again from some packet on, and before that there was nothing that it could wait
// for an answer to: the last message had no end, or no packet asked for an acknowledgement. Its own
// host's capture would have the end.
func (h *half) tailLost(s *silence, p *pcap.Packet) bool {
	if h.atRequester() || s.op != nil && s.op.read || s.whole && h.askedForACK(s) {
		return false
	}
	// A requester whose timer runs out while it is still sending goes back, too.
	if pace := (s.at - s.pause - s.first) / int64(max(s.tail.Diff(s.psn), 1)); s.pause < max(2*reorderNs, 8*pace) {
		return false
	}
	again := s.frames[1]
	kind, behind := LostRequest, 0
	if r := h.sent.get(s.tail); r != nil && r.frame != notCaptured {
		kind, behind = lostKind(r.opcode.Info().Op), r.frame
	}
	f := h.find(kind, s.tail, again)
	f.Certain = false // the requester may also have gone back without a reason
	f.add(behind)
	f.add(p.Frame)
	wait := time.Duration(s.at - s.first)
	f.what = func(f *Finding) string {
		t := fmt.Sprintf("%s sent again from PSN %d on, in packet %d, %v after the first time. What it had sent up to then asked for no acknowledgement: the packets from PSN %d on, which do, were lost on the way to the place of the capture.",
			h.requester(), s.psn, again, wait, s.tail)
		if behind != 0 {
			t += fmt.Sprintf(" They came in packet %d.", behind)
		}
		return t
	}
	h.silentLast = f
	return true
}

// askedForACK reports whether one of the requests that were sent again had asked for an
// acknowledgement before.
func (h *half) askedForACK(s *silence) bool {
	for q, i := s.psn, 0; q.Diff(s.tail) < 0 && i < maxFindingFrames; q, i = q.Next(), i+1 {
		if x := h.sent.get(q); x != nil && x.ackReq && x.at < s.at {
			return true
		}
	}
	return false
}

// openBefore reports whether an operation before a PSN waits for its own answer: then that is what
// was lost, and what the requester will ask for next.
func (h *half) openBefore(psn ib.PSN) bool {
	ops := h.own.ops
	for i := len(ops) - 1; i >= 0 && i >= len(ops)-16; i-- {
		h.a.steps++
		if o := ops[i]; !o.done && o.first.Diff(psn) < 0 && o.span != 0 {
			return true
		}
	}
	return false
}

// duplicatesAcked decides a silence by an ACK of a packet that did not ask for one: the responder
// sends such only for duplicates, so that all up to it had arrived before.
func (h *half) duplicatesAcked(s *silence, p *pcap.Packet, psn ib.PSN, r *record) bool {
	if r == nil || r.ackReq || p.Opcode != ib.RCAcknowledge || s.op != nil && s.op.read {
		return false
	}
	first, again := s.frames[0], s.frames[len(s.frames)-1]
	wait := time.Duration(s.at - s.first)
	if next := h.sent.get(psn.Next()); next != nil && next.at < s.at {
		// What came behind had been sent before, and had not arrived.
		f := h.find(lostKind(next.opcode.Info().Op), psn.Next(), next.frame)
		f.add(again)
		f.add(p.Frame)
		this := see(p)
		f.what = func(f *Finding) string {
			return fmt.Sprintf("The request in packet %d (PSN %d) did not arrive, or not when it was sent again: nothing behind it showed that. After %v of silence %s began again in packet %d, and the responder's answer, packet %d, tells that it had all before that PSN.",
				next.frame, f.PSN, wait, h.requester(), again, this.Frame)
		}
		h.silentLast = f
		return true
	}
	asked := false
	for q, i := psn, 0; q.Diff(s.psn) >= 0 && i < maxFindingFrames; q, i = q.Prev(), i+1 {
		if x := h.sent.get(q); x != nil && x.ackReq && x.at < s.at {
			asked = true
		}
	}
	f := h.findBack(LateAck, psn, first)
	f.add(again)
	f.add(p.Frame)
	if asked {
		h.lostAckOf(f, psn)
	} else {
		f.is(LateAck, LostRequest)
		f.what = func(f *Finding) string {
			return fmt.Sprintf("%s sent again from PSN %d on (packet %d) though nothing was lost, and no acknowledgement was due: its timer ran out too early. The responder acknowledged duplicates.",
				h.requester(), s.psn, again)
		}
	}
	h.silentLast = f
	return true
}

// lostAckOf makes a finding a lost ACK of a PSN. The request that it answered comes first. It may
// also be late: an ACK that is drawn by a duplicate looks like the one before it, and one may stand
// for several.
func (h *half) lostAckOf(f *Finding, psn ib.PSN) {
	f.is(LostAck, LateAck)
	f.PSN, f.QPN = psn, h.c.ends[h.side].QPN
	if r := h.sent.get(psn); r != nil {
		f.lead(r.frame)
	}
	f.what = func(f *Finding) string {
		return fmt.Sprintf("The requests up to PSN %d were sent again, and the responder acknowledged them as duplicates: they had arrived, and their acknowledgement had not.", f.PSN)
	}
}
