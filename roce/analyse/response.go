package analyse

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// ownAt returns the operation with an answer of its own that a PSN belongs to.
func (h *half) ownAt(psn ib.PSN) *operation { return h.reading(psn) }

// passOver notes which operations with an answer of their own have none though something later was
// answered: their answers are lost, or late.
func (h *half) passOver(p *pcap.Packet, psn ib.PSN) {
	ops := h.own.ops
	for i := len(ops) - 1; i >= 0 && i >= len(ops)-16; i-- {
		h.a.steps++
		if o := ops[i]; !o.done && o.passed == 0 && o.end.Diff(psn) <= 0 {
			o.passed = p.Frame
		}
	}
}

// atomicAck handles the answer to an atomic.
func (h *half) atomicAck(p *pcap.Packet, n *Note) {
	if p.PSN.Diff(h.next) >= 0 {
		h.beyond(p)
	}
	if a := h.answers.get(p.PSN); a != nil && p.PSN.Diff(h.una) < 0 {
		a.times++
		defer func() { a.last, a.lastAt, a.ident = p.Frame, p.AtNs, p.Ident }()
		n.Late = true
		if h.owed > 0 {
			h.owed--
			h.dups = max(h.dups-1, 0)
			h.answerToAgain(p)
			return
		}
		was := a.last
		f := h.findBack(DuplicateAck, p.PSN, p.Frame, was)
		if !(p.Ident != 0 && p.Ident == a.ident) {
			f.is(DuplicateAck, DuplicateRequest)
		}
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("The answer to the atomic with PSN %d in packet %d came once more in packet %d, though the request was not sent again here. The atomic was done once.",
				this.PSN, was, this.Frame)
		}
		return
	}
	a := h.answers.put(p.PSN, h.una)
	a.opcode, a.frame, a.last, a.at, a.lastAt, a.ident = p.Opcode, p.Frame, p.Frame, p.AtNs, p.AtNs, p.Ident
	for i := len(h.own.ops) - 1; i >= 0 && i >= len(h.own.ops)-8; i-- {
		h.a.steps++
		if o := h.own.ops[i]; o.read && !o.done && o.first.Diff(p.PSN) < 0 && h.hasHole(o) {
			a.ignored = true // the requester wants the rest of that READ first, and this again
		}
	}
	if o := h.ownAt(p.PSN); o != nil {
		h.complete(o, p.AtNs)
		n.Operation = o.number
	}
	h.progress(p, p.PSN, n)
	h.noteLast(p)
}

// hasHole reports whether responses to a READ are missing: in the middle, or at the end, since
// something behind it was answered.
func (h *half) hasHole(o *operation) bool { return o.span == 0 || o.got < o.span }

// readResponse handles a packet of a READ's response.
func (h *half) readResponse(p *pcap.Packet, info *ib.OpcodeInfo, n *Note) {
	h.payload += int64(p.PayloadBytes)
	if info.Payload == ib.PayloadFull {
		h.learnMTU(p.PayloadBytes)
		if h.loose != 0 {
			h.widen(p.PayloadBytes)
		}
	}
	o := h.reading(p.PSN)
	if l := h.looseOp; o == nil && l != nil && p.PSN.Diff(l.first) > 0 &&
		p.PSN.Diff(l.first) < spanOf(l.readLen, ib.MTU256.Bytes()) {
		o = l // how many responses it has is not known yet
	}
	if o != nil {
		o.longest = max(o.longest, p.PayloadBytes)
	}
	if o == nil {
		if p.PSN.Diff(h.next) >= 0 {
			h.beyond(p)
		}
		if h.clean && p.PSN.Diff(h.first) >= 0 {
			h.a.lacking++
		}
		return // to a READ from before the capture
	}
	n.Operation = o.number
	if o.span == 0 && h.c.mtu != 0 {
		o.span = spanOf(o.readLen, h.c.mtu)
	}
	if o.span == 0 && info.Pos&ib.Last != 0 {
		h.ends(o, p.PSN)
	}
	if a := h.answers.get(p.PSN); a != nil && a.at >= o.at {
		n.Late = true
		h.responseAgain(o, a, p)
		return
	}
	a := h.answers.put(p.PSN, h.una.Add(-o.span))
	a.opcode, a.frame, a.last, a.at, a.lastAt, a.ident = p.Opcode, p.Frame, p.Frame, p.AtNs, p.AtNs, p.Ident
	if o.got == 0 {
		if o.asked == 1 {
			h.rtt.add(p.AtNs - o.at)
		}
	}
	o.got++
	a.ignored = p.PSN.Diff(o.nextRsp) > 0 || h.holeBefore(o, p.PSN)
	switch d := p.PSN.Diff(o.nextRsp); {
	case d == 0:
		o.nextRsp = p.PSN.Next()
	case d > 0:
		h.holes = h.withGap(h.holes, gap{from: o.nextRsp, op: o, asked: o.asked}, p)
		o.nextRsp = p.PSN.Next()
	default:
		n.Late = true
		h.fillHole(o, a, p)
	}
	h.progressRead(p, n)
	if o.span != 0 && o.got >= o.span {
		h.complete(o, p.AtNs)
		h.dropHoles(o)
	}
}

// progressRead lets a response acknowledge what came before its READ, and itself.
func (h *half) progressRead(p *pcap.Packet, n *Note) {
	op := n.Operation
	if p.PSN.Diff(h.una) >= 0 {
		h.progress(p, p.PSN, n)
	} else {
		h.resolve(p, p.PSN, nil)
	}
	n.Operation = op
}

// holeBefore reports whether a response to a READ is missing that comes before one: the requester
// takes them in order only.
func (h *half) holeBefore(o *operation, psn ib.PSN) bool {
	for i := range h.holes {
		h.a.steps++
		if g := &h.holes[i]; g.op == o && g.from.Diff(psn) < 0 {
			return true
		}
	}
	return false
}

// dropHoles forgets the holes of a READ that is complete.
func (h *half) dropHoles(o *operation) {
	if len(h.holes) == 0 {
		return
	}
	kept := h.holes[:0]
	for _, g := range h.holes {
		h.a.steps++
		if g.op != o {
			kept = append(kept, g)
		}
	}
	h.holes = kept
}

// fillHole handles a response that was missing.
func (h *half) fillHole(o *operation, a *record, p *pcap.Packet) {
	for i := range h.holes {
		h.a.steps++
		g := h.holes[i]
		if g.op != o || p.PSN.Diff(g.from) < 0 || p.PSN.Diff(g.to) >= 0 {
			continue
		}
		rest := h.holes[:i:i]
		before, after := g, g
		before.to, after.from = p.PSN, p.PSN.Next()
		for _, x := range []gap{before, after} {
			if x.to.Diff(x.from) > 0 {
				rest = append(rest, x)
			}
		}
		h.holes = append(rest, h.holes[i+1:]...)
		a.find = g.find
		if g.find == nil && (g.asked > 1 && p.AtNs-o.askedAt >= h.rtt.min*8/10 || o.asked > g.asked) {
			// It comes with what was asked for again because of another one.
			f := h.lostResponse(p.PSN, g.frame, p.Frame)
			f.Certain = false // the requester may have had it
			this := see(p)
			f.what = func(*Finding) string {
				return fmt.Sprintf("The response with PSN %d to the READ of packet %d is missing before packet %d. It came in packet %d, as %s had asked again anyway.",
					this.PSN, o.frame, g.frame, this.Frame, h.requester())
			}
			a.find = f
		} else if g.find == nil {
			f := h.findBack(Reordered, p.PSN, p.Frame, g.frame)
			if rtt := h.rtt.min; rtt == 0 || p.AtNs-g.at >= rtt*8/10 {
				f.is(Reordered, LostReadResponse) // the capture may lack that it was asked for again
			}
			o.lost, a.find = f, f
			this := see(p)
			f.what = func(*Finding) string {
				return fmt.Sprintf("The READ response in packet %d (PSN %d) was overtaken by packet %d.",
					this.Frame, this.PSN, g.frame)
			}
		} else if f := g.find; f != nil && o.askFrame != 0 && p.AtNs-o.askedAt < h.rtt.min*8/10 &&
			f.Kind == LostReadResponse {
			f.is(Reordered)
			this := see(p)
			f.what = func(*Finding) string {
				return fmt.Sprintf(
					"The READ response in packet %d (PSN %d) was overtaken by packet %d. %s had already asked again.",
					this.Frame, this.PSN, g.frame, h.requester())
			}
		} else {
			f.add(p.Frame)
		}
		return
	}
}

// responseAgain handles a response that was seen before.
func (h *half) responseAgain(o *operation, a *record, p *pcap.Packet) {
	was := a.last
	h.mayBeLate(a.find, p)
	a.ignored = h.holeBefore(o, p.PSN)
	sameAsk := a.lastAt >= o.askedAt || o.asked == 1
	a.times = min(a.times+1, 1<<15)
	if int(a.times) <= o.asked && !sameAsk {
		if a.find != nil {
			a.find.add(p.Frame)
		}
		a.last, a.lastAt, a.ident = p.Frame, p.AtNs, p.Ident
		return
	}
	defer func() { a.last, a.lastAt, a.ident = p.Frame, p.AtNs, p.Ident }()
	if int(a.times) <= o.asked {
		return // it was asked for more than once
	}
	if o.dup != nil {
		o.dup.add(p.Frame)
		return
	}
	f := h.findBack(DuplicateAck, p.PSN, p.Frame, was)
	o.dup = f
	if !(p.Ident != 0 && p.Ident == a.ident) {
		f.is(DuplicateAck, DuplicateRequest)
	}
	this := see(p)
	f.what = func(*Finding) string {
		return fmt.Sprintf("The READ response in packet %d (PSN %d) came once more in packet %d, though the READ was not asked for again here.",
			was, this.PSN, this.Frame)
	}
}
