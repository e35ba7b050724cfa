package analyse

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// old handles a request that is behind what was seen, and was not seen itself.
func (h *half) old(p *pcap.Packet, info *ib.OpcodeInfo, n *Note) {
	n.Late = true
	for i := range h.gaps {
		h.a.steps++
		if g := &h.gaps[i]; !g.again && p.PSN.Diff(g.from) >= 0 && p.PSN.Diff(g.to) < 0 {
			h.fill(i, p, info, n)
			return
		}
	}
	if info.Op == ib.OpRead {
		if o := h.reading(p.PSN); o != nil {
			n.Operation = o.number
			h.readAgain(o, p, n)
			return
		}
	}
	// From before the capture, or too long ago: it was sent again.
	h.again++
	h.owes(p)
	if h.drew(p.PSN) {
		if f := h.nak.find; h.nak.psn == p.PSN && f != nil {
			h.nak.resentAt, h.nak.then = p.AtNs, p.PSN.Add(max(h.span(p), 1))
			if f.Kind == LostRequest {
				f.is(lostKind(info.Op), f.Or...)
			}
			f.add(p.Frame)
			// It may also have been overtaken, if it comes sooner than what a NAK draws.
			h.remember(p, f).filled = !h.atRequester() && p.AtNs-h.nak.at < h.react()*8/10
		}
		n.Cause = CauseNAK
		h.resumed(p, CauseNAK)
		return
	}
	n.Cause = CauseUnknown
	h.resumed(p, CauseUnknown)
}

// resumed notes what follows a request that was sent again.
func (h *half) resumed(p *pcap.Packet, c Cause) {
	h.going, h.cause = true, c
	h.resume = p.PSN.Add(max(h.span(p), 1))
}

// repeated handles a request that was seen before.
func (h *half) repeated(r *record, p *pcap.Packet, info *ib.OpcodeInfo, n *Note) {
	since := p.AtNs - r.lastAt
	wasLast := r.last
	defer func() {
		r.times = min(r.times+1, 1<<15)
		r.last, r.lastAt, r.ident = p.Frame, p.AtNs, p.Ident
		r.ackReq, r.lastReq = r.ackReq || p.AckReq, p.AckReq
	}()
	if r.op != nil {
		n.Operation = r.op.number
		r.op.again = true
	}
	h.owes(p)
	h.mayBeLate(r.missed, p)
	if d := h.confirm; d != nil && d.psn == p.PSN {
		d.ackReq = d.ackReq || p.AckReq
	}
	if h.skippedAgain(r, p) {
		h.resume = p.PSN
	}
	switch {
	case h.going && p.PSN == h.resume && (h.pause <= 2*reorderNs || !h.asked(p.PSN)):
		n.Cause = h.cause
		h.again++
		h.unGap(p.PSN)
		if f := h.nak.find; f != nil && h.cause == CauseNAK && h.nak.resentAt != 0 && h.nak.psn == f.PSN &&
			p.PSN == h.nak.then {
			f.followed = true
		}
		if h.pending != nil {
			h.pending.resent++
		} else if f := h.silentLast; f != nil && f.open {
			f.count++
		}
		if r.op != nil && r.op.read {
			r.op.asked++
			r.op.anew++
			r.op.askedAt = p.AtNs
		}
		h.resumed(p, h.cause)
		return
	case h.drew(p.PSN):
		if f := h.nak.find; h.nak.psn == p.PSN {
			h.nak.resentAt, h.nak.then = p.AtNs, p.PSN.Add(max(h.span(p), 1))
			f.add(p.Frame)
			if p.AtNs-h.nak.at < h.toRequester()*8/10 {
				h.mayBeLate(f, p)
			}
			r.missed = f
		} else {
			r.find.add(p.Frame)
		}
		h.unGap(p.PSN)
		if d := h.confirm; d != nil && d.psn == p.PSN {
			d.again = p.AtNs
		}
		h.overtaken(r, p)
		n.Cause = CauseNAK
	case h.rnr.valid && !h.rnr.answered && (p.PSN == h.rnr.psn || p.PSN.Diff(h.una) >= 0 && p.PSN.Diff(h.rnr.psn) < 0):
		h.rnr.answered = true
		h.rnr.find.add(p.Frame)
		n.Cause = CauseRNR
	case r.filled && h.overtaken(r, p):
		n.Cause = CauseNAK
	case info.Op == ib.OpRead && r.op != nil && h.asksForMore(r.op, p):
		h.again++
		h.readAgain(r.op, p, n)
		return
	case r.op != nil && r.op.passed != 0 && !r.op.done && !r.op.read && ownAnswer(info.Op):
		over := r.op.passed
		r.op.passed = 0
		f := h.findBack(LostAtomicAck, p.PSN, over, p.Frame)
		f.is(LostAtomicAck, Reordered)
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("The answer to the atomic with PSN %d is missing before packet %d, which answers something later. %s repeated the atomic in packet %d.",
				this.PSN, over, h.requester(), this.Frame)
		}
		n.Cause = CauseGap
	case !h.atRequester() && h.doubled(r, p):
		f := h.find(DuplicateRequest, p.PSN, p.Frame, wasLast)
		switch same := h.sameIdent(r, p); {
		case same:
		case since <= surelyDoubledNs && !h.oneWay():
			f.is(DuplicateRequest, Reordered) // a copy that was sent before may have been late
		case h.oneWay():
			f.is(DuplicateRequest, lostKind(info.Op)) // a NAK may have drawn it, on a short way
		default:
			f.is(DuplicateRequest, LostAck, LateAck) // a probe for the end of what was sent comes that soon
		}
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("Packet %d is packet %d once more (PSN %d), %v later and without a reason for %s to send it again: the network has doubled it.",
				this.Frame, wasLast, this.PSN, time.Duration(since), h.requester())
		}
		n.Cause = CauseNetwork
		h.dups++
		if r.op != nil && r.op.read {
			r.op.asked++
			r.op.askedAt = p.AtNs
		}
		return
	case info.Op == ib.OpRead && r.op != nil:
		h.again++
		h.readAgain(r.op, p, n)
		return
	case since < doubledNs && !h.atRequester():
		n.Cause = CauseUnknown // too late for a doubled packet, too soon for a timer
	default:
		h.again++
		n.Cause = CauseTimeout
		h.silent(r, p, info)
	}
	if n.Cause != CauseTimeout {
		h.again++
	}
	if r.op != nil && r.op.read {
		r.op.asked++
		r.op.askedAt = p.AtNs
	}
	h.resumed(p, n.Cause)
}

// mayBeLate takes back that something was lost for certain: one more copy came, soon enough to be
// the one that seemed to be lost.
func (h *half) mayBeLate(f *Finding, p *pcap.Packet) {
	if f == nil || !f.Certain || p.AtNs-h.a.start-f.AtNs >= reorderNs {
		return
	}
	switch f.Kind {
	case LostRequest, LostReadRequest, LostReadResponse:
		f.is(f.Kind, Reordered)
	}
}

// sameIdent reports whether two packets share an identification that says that they are one: it
// does if the sender counts them up.
func (h *half) sameIdent(r *record, p *pcap.Packet) bool {
	return p.Ident != 0 && p.Ident == r.ident && p.Flow.Src.Is4() && r.times == 1
}

// doubled reports whether a request that comes again is the same packet, delivered twice: it came
// too soon to be sent again, and nothing in it has changed.
func (h *half) doubled(r *record, p *pcap.Packet) bool {
	since := p.AtNs - r.lastAt
	switch {
	case p.AckReq != r.lastReq:
		return false
	case h.sameIdent(r, p):
		return true
	case h.oneWay():
		return since < surelyDoubledNs
	}
	return since < doubledNs && (h.react() == 0 || since < h.react())
}

// oneWay reports whether only the requests are in the capture, so that it cannot tell
// why they are sent again.
func (h *half) oneWay() bool { return h.nAnswers == 0 }

// owes counts an answer that a request seen again may draw.
func (h *half) owes(p *pcap.Packet) {
	h.owed++
	h.owedAt = p.AtNs
}

// drew reports whether a sequence NAK asks for a PSN, and notes that the requester sends it.
func (h *half) drew(psn ib.PSN) bool {
	for i, q := range h.drawn {
		if q == psn {
			h.drawn = append(h.drawn[:i], h.drawn[i+1:]...)
			return true
		}
	}
	return false
}

const maxDrawn = 8

// draw notes that a sequence NAK asks for a PSN.
func (h *half) draw(psn ib.PSN) {
	if len(h.drawn) >= maxDrawn {
		h.drawn = append(h.drawn[:0], h.drawn[1:]...)
	}
	h.drawn = append(h.drawn, psn)
}

// asksForMore reports whether a READ that comes again asks for responses that did not come, and is
// not the same packet delivered twice: a hole in the responses is known, or it comes as long after
// the responses that passed here as the requester takes to react.
func (h *half) asksForMore(o *operation, p *pcap.Packet) bool {
	for i := range h.holes {
		h.a.steps++
		if g := &h.holes[i]; g.op == o && p.PSN.Diff(g.from) >= 0 && p.PSN.Diff(g.to) < 0 {
			return true
		}
	}
	if o.passed != 0 && !o.done && p.PSN == o.nextRsp {
		return true
	}
	a := h.answers.get(p.PSN)
	if a == nil || a.lastAt < o.askedAt {
		return false
	}
	after := p.AtNs - a.lastAt
	return h.turn != 0 && after >= h.turn/2 || h.turn == 0 && after > 2000
}

// asked reports whether a NAK asks for a PSN.
func (h *half) asked(psn ib.PSN) bool {
	for _, q := range h.drawn {
		if q == psn {
			return true
		}
	}
	return h.rnr.valid && !h.rnr.answered && h.rnr.psn == psn
}

// silent handles a request that is sent again because no answer has come: a timeout, or a probe for
// a lost tail.
func (h *half) silent(r *record, p *pcap.Packet, info *ib.OpcodeInfo) {
	if h.silences > 0 && h.silentPSN == p.PSN {
		h.silentGap = p.AtNs - h.silentAt
	} else {
		h.silences, h.silentGap = 0, p.AtNs-r.lastAt
		h.silentLast = nil
	}
	h.silences++
	h.timeouts++
	h.silentAt, h.silentPSN = p.AtNs, p.PSN

	if g, ok := h.unGap(p.PSN); ok && g.find == nil {
		f := h.lostBefore(lostKind(info.Op), p.PSN, g)
		f.add(p.Frame)
		h.silentLast = f
		return
	}
	if f, ok := h.answeredBefore(r, p, info); ok {
		h.silentLast = f
		return
	}
	if h.pending != nil && h.pending.psn == p.PSN {
		s := h.pending
		if len(s.frames) < maxFindingFrames {
			s.frames = append(s.frames, p.Frame)
		}
		s.at, s.resent = p.AtNs, 1
		return
	}
	if h.pending != nil && len(h.pending.frames) > 2 && h.pending.psn.Before(p.PSN) {
		return // a probe of the end, while the oldest packet waits
	}
	if r.find != nil && r.find.Kind == Corrupt {
		r.find.add(p.Frame)
		return
	}
	h.pending = &silence{psn: p.PSN, rec: *r, frames: []int{r.last, p.Frame}, at: p.AtNs, first: r.lastAt,
		op: r.op, resent: 1, tail: h.next, whole: h.cur == nil, pause: h.pause}
}

// answeredBefore handles a request that is sent again though its answer is in the capture.
func (h *half) answeredBefore(r *record, p *pcap.Packet, info *ib.OpcodeInfo) (*Finding, bool) {
	var frame int
	var at int64
	kind, answers := LostAck, p.PSN
	switch {
	case isAtomic(info.Op) || info.Op == ib.OpAtomicWrite || info.Op == ib.OpFlush:
		if a := h.answers.get(p.PSN); a != nil && !a.ignored {
			frame, at = a.last, a.lastAt
		}
		kind = LostAtomicAck
	default:
		if h.una.Diff(p.PSN) <= 0 {
			return nil, false
		}
		frame, at, answers = h.ackOf(p.PSN)
	}
	if frame == 0 {
		return nil, false
	}
	if f := h.silentLast; f != nil && f.request == p.PSN && (f.Kind == kind || f.Kind == LateAck) {
		if h.last.frame > f.Frames[len(f.Frames)-1] {
			f.add(h.last.frame)
		}
		f.add(p.Frame)
		return f, true
	}
	wait, after := at-r.lastAt, p.AtNs-at
	if after < wait {
		f := h.findBack(LateAck, answers, frame, p.Frame)
		f.is(LateAck, kind)
		f.request = p.PSN
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("%s sent the request with PSN %d again in packet %d, %v after its answer in packet %d left or passed here: that answer had taken %v, probably longer than the requester waits.",
				h.requester(), this.PSN, this.Frame, time.Duration(after), frame, time.Duration(wait))
		}
		return f, true
	}
	f := h.findBack(kind, answers, frame, p.Frame)
	f.is(kind, LateAck)
	f.request = p.PSN
	inside := h.atRequester()
	this := see(p)
	f.what = func(f *Finding) string {
		s := fmt.Sprintf("The request with PSN %d was answered in packet %d, and yet %s sent it again in packet %d, %v later: the answer was lost on its way from here.",
			this.PSN, frame, h.requester(), this.Frame, time.Duration(after))
		if inside {
			s += " As the capture is from the requester's host, it was lost inside that."
		}
		return s
	}
	return f, true
}

// ackOf returns the first ACK that covers a PSN, of those that are remembered.
func (h *half) ackOf(psn ib.PSN) (frame int, at int64, answers ib.PSN) {
	for i := 1; i <= min(h.nAcks, recentAcks); i++ {
		h.a.steps++
		a := &h.acks[(h.nAcks-i)%recentAcks]
		if a.psn.Diff(psn) < 0 {
			break
		}
		frame, at, answers = a.frame, a.at, a.psn
	}
	return frame, at, answers
}
