package analyse

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// reading returns the READ that a PSN belongs to.
func (h *half) reading(psn ib.PSN) *operation {
	ops := h.own.ops
	lo, hi := 0, len(ops)
	for lo < hi {
		h.a.steps++
		if m := (lo + hi) / 2; psn.Diff(ops[m].end) < 0 {
			hi = m
		} else {
			lo = m + 1
		}
	}
	if lo < len(ops) && psn.Diff(ops[lo].first) >= 0 {
		return ops[lo]
	}
	return nil
}

// readAgain handles a READ request that asks again, from p.PSN on.
func (h *half) readAgain(o *operation, p *pcap.Packet, n *Note) {
	o.again = true
	if p.PSN == o.first {
		o.anew++
	}
	defer func() {
		o.againPSN, o.againAt = p.PSN, p.AtNs
		o.asked++
		o.askedAt, o.askFrame = p.AtNs, p.Frame
		h.resumed(p, n.Cause)
		h.owes(p)
	}()
	rtt := h.rtt.min
	// A response from there on is missing here, and later ones have come.
	for i := range h.holes {
		h.a.steps++
		if g := &h.holes[i]; g.op == o && p.PSN.Diff(g.from) >= 0 && p.PSN.Diff(g.to) < 0 {
			n.Cause = CauseGap
			if g.find == nil {
				g.find = h.lostResponse(p.PSN, g.frame, p.Frame)
				o.lost = g.find
				this := see(p)
				g.find.what = func(*Finding) string {
					return fmt.Sprintf("The response with PSN %d to the READ of packet %d is missing before packet %d. %s asked again, from there on, in packet %d.",
						this.PSN, o.frame, g.frame, h.requester(), this.Frame)
				}
			} else {
				g.find.add(p.Frame)
			}
			return
		}
	}
	seen := h.answers.get(p.PSN)
	switch {
	case o.passed != 0 && !o.done && p.PSN == o.nextRsp:
		n.Cause = CauseGap
		over := o.passed
		o.passed = 0
		f := h.lostResponse(p.PSN, over, p.Frame)
		f.is(LostReadResponse, Reordered)
		o.lost = f
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("Responses to the READ of packet %d, from PSN %d on, are missing before packet %d, which answers something later. %s asked again in packet %d.",
				o.frame, this.PSN, over, h.requester(), this.Frame)
		}
	case seen != nil:
		if f := seen.find; f != nil {
			f.add(p.Frame)
			n.Cause = CauseGap
			return
		}
		if f := o.lost; f != nil && (seen.ignored || o.againAt > seen.lastAt && p.PSN.Diff(o.againPSN) > 0) {
			// It came while one before it was missing, so that the requester could not take it.
			f.add(p.Frame)
			n.Cause = CauseGap
			return
		}
		n.Cause = CauseGap
		if p.AtNs-seen.lastAt >= reorderNs {
			n.Cause = CauseTimeout
			h.timeouts++
		}
		frame := seen.last
		if wait, after := seen.lastAt-o.askedAt, p.AtNs-seen.lastAt; p.PSN == o.first &&
			wait > reorderNs && after < wait {
			f := h.findBack(LateAck, p.PSN, frame, p.Frame)
			seen.find = f
			this := see(p)
			f.what = func(*Finding) string {
				return fmt.Sprintf("%s repeated the READ of packet %d in packet %d, %v after its response began in packet %d: that had taken %v, longer than the requester waits.",
					h.requester(), o.frame, this.Frame, time.Duration(after), frame, time.Duration(wait))
			}
			return
		}
		if f := o.lost; f != nil && (p.AtNs-o.askedAt < h.react()*8/10 ||
			seen.frame > f.Frames[0] && p.AtNs-o.askedAt < 2*reorderNs && h.atRequester()) {
			// What came behind a missing response was not taken either.
			f.add(p.Frame)
			return
		}
		seen.find = h.lostResponse(p.PSN, frame, p.Frame)
		o.lost = seen.find
		switch {
		case h.atRequester():
			seen.find.Certain = false
		case n.Cause == CauseTimeout:
			seen.find.is(LostReadResponse, LateAck)
		default:
			seen.find.is(LostReadResponse, Reordered) // behind this place it may have been overtaken
		}
		this := see(p)
		seen.find.what = func(*Finding) string {
			return fmt.Sprintf("The response with PSN %d to the READ of packet %d passed here in packet %d and was lost after that: %s asked again, from there on, in packet %d.",
				this.PSN, o.frame, frame, h.requester(), this.Frame)
		}
	case o.nextRsp != o.first && p.PSN == o.nextRsp:
		// The last responses never came by.
		last := h.answers.get(p.PSN.Prev())
		n.Cause = CauseTimeout
		h.timeouts++
		f := h.lostResponse(p.PSN, o.askFrame)
		f.is(LostReadResponse, Reordered)
		if last != nil {
			f.add(last.frame)
		}
		f.add(p.Frame)
		o.lost = f
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf(
				"The responses to the READ of packet %d end before PSN %d. %s asked again for the rest in packet %d.",
				o.frame, this.PSN, h.requester(), this.Frame)
		}
	case p.AtNs-o.askedAt < max(doubledNs, 2*rtt) && o.got > 0:
		n.Cause = CauseUnknown
	default:
		n.Cause = CauseTimeout
		h.silentRead(o, p)
	}
}

// toRequester is the least time that the requester takes to react to an answer, as seen from here:
// a round trip at the responder, next to nothing at the requester. 0 if it is not known. How soon
// it answers requests of the other end says more than how soon its next request came.
func (h *half) toRequester() int64 {
	if o := &h.c.way[1-h.side].rtt; o.n > 0 && (h.turn == 0 || o.min < h.turn) {
		return o.min
	}
	return h.turn
}

// react is the least time in which the requester can have an answer to what passed here, and react
// to it: all of the way from here to the responder and back, or from here to the requester and
// back. 0 if neither is known.
func (h *half) react() int64 { return max(h.rtt.min, h.toRequester()) }

func (h *half) lostResponse(psn ib.PSN, frames ...int) *Finding {
	return h.findBack(LostReadResponse, psn, frames...)
}

// silentRead handles a READ that is asked for again and of which no response was seen.
func (h *half) silentRead(o *operation, p *pcap.Packet) {
	if h.silences > 0 && h.silentPSN == p.PSN {
		h.silentGap = p.AtNs - h.silentAt
	} else {
		h.silences, h.silentGap = 0, p.AtNs-o.askedAt
	}
	h.silences++
	h.timeouts++
	h.silentAt, h.silentPSN = p.AtNs, p.PSN
	if s := h.pending; s != nil && s.psn == p.PSN {
		if len(s.frames) < maxFindingFrames {
			s.frames = append(s.frames, p.Frame)
		}
		s.at, s.resent = p.AtNs, 1
		return
	}
	h.pending = &silence{psn: p.PSN, frames: []int{o.askFrame, p.Frame}, at: p.AtNs, first: o.askedAt, op: o, resent: 1,
		rec: record{psn: p.PSN, times: uint16(min(o.asked, 1<<15)), opcode: ib.RCReadRequest, wire: p.Bytes,
			frame: o.askFrame, at: o.askedAt, op: o}}
}
