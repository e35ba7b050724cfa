package analyse

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// skipped notes that the PSNs before p are missing.
func (h *half) skipped(p *pcap.Packet) {
	h.gaps = h.withGap(h.gaps, gap{from: h.next}, p)
	if !h.reliable() {
		h.unreliableGap(&h.gaps[len(h.gaps)-1], p)
		h.cur = nil
		return
	}
	if info := p.Opcode.Info(); h.cur != nil && (info.Pos&ib.First != 0 || info.Op != h.cur.op) {
		h.cur = nil // its end is missing
	}
}

// withGap adds a gap in front of p, and forgets the older half of many.
func (h *half) withGap(gaps []gap, g gap, p *pcap.Packet) []gap {
	g.to, g.frame, g.at = p.PSN, p.Frame, p.AtNs
	if b := h.a.lastBad[pairKey{p.Flow.Src, p.Flow.Dst}]; b != nil && !b.used {
		// A damaged packet was here: this is what became of it.
		b.used = true
		g.find = b.find
		b.belongs(h.c, p.DestQP, &g)
		b.find.add(p.Frame)
	}
	if len(gaps) >= maxGaps {
		gaps = append(gaps[:0], gaps[maxGaps/2:]...)
	}
	return append(gaps, g)
}

// unreliableGap reports a loss on UC, which nobody will repair.
func (h *half) unreliableGap(g *gap, p *pcap.Packet) {
	n := g.to.Diff(g.from)
	g.find = h.find(UCLost, g.from, g.frame)
	g.find.Certain = false // nobody says that it did not arrive
	this := see(p)
	g.find.what = func(*Finding) string {
		return fmt.Sprintf("%s of %s (PSN %d%s)%s missing before packet %d: the message is lost, and nobody sends it again. Unless it is the capture alone that lacks it: nobody answers on UC.",
			packets(n), h.requester(), g.from, upTo(g.from, n), isAre(n), this.Frame)
	}
}

func packets(n int) string {
	if n == 1 {
		return "A packet"
	}
	return fmt.Sprintf("%d packets", n)
}

func upTo(from ib.PSN, n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" to %d", from.Add(n-1))
}

// onTheirWay finds out that the packet which came after a NAK for it was not sent again: new ones
// follow it, and a requester that goes back sends all from there before it sends new ones.
func (h *half) onTheirWay() bool {
	r := h.sent.get(h.resume.Prev())
	if r == nil || !r.filled || r.marked || r.times != 1 || r.find == nil ||
		r.find.Kind != LostRequest && r.find.Kind != LostReadRequest {
		return false
	}
	f := r.find
	first, over := r.frame, f.Frames[0]
	h.lateOne(f, first)
	f.what = func(*Finding) string {
		return fmt.Sprintf(
			"Packet %d of %s (PSN %d) was overtaken by packet %d. The responder took that for a loss and sent a NAK.",
			first, h.requester(), f.PSN, over)
	}
	r.filled = false
	h.draw(r.psn) // what the NAK has drawn is still to come
	return true
}

// lateOne makes a finding a packet that was overtaken: first is the frame that it came in.
func (h *half) lateOne(f *Finding, first int) {
	frames := f.Frames
	f.is(Reordered)
	f.Frames = nil
	f.add(first)
	for _, x := range frames {
		if x != first {
			f.add(x)
		}
	}
}

// remember makes a record of a request that comes late.
func (h *half) remember(p *pcap.Packet, f *Finding) *record {
	r := h.sent.put(p.PSN, h.una)
	r.opcode, r.wire, r.frame, r.last, r.at, r.lastAt = p.Opcode, p.Bytes, p.Frame, p.Frame, p.AtNs, p.AtNs
	r.ident, r.ackReq, r.lastReq, r.find, r.late, r.marked = p.Ident, p.AckReq, p.AckReq, f, true,
		p.Resv7 == ib.Resv7Selective
	return r
}

// fill handles a request that was missing.
func (h *half) fill(i int, p *pcap.Packet, info *ib.OpcodeInfo, n *Note) {
	g := h.gaps[i]
	if p.Opcode == ib.RCReadRequest && h.c.mtu == 0 {
		h.spanned(p.RETH.Len, g.to.Diff(p.PSN))
	}
	// Take its PSN out of the gap.
	before, after := g, g
	before.to, after.from = p.PSN, p.PSN.Add(max(h.span(p), 1))
	rest := h.gaps[:i:i]
	if before.to.Diff(before.from) > 0 {
		rest = append(rest, before)
	}
	keep := len(rest)
	if after.to.Diff(after.from) > 0 {
		rest = append(rest, after)
	}
	h.gaps = append(rest, h.gaps[i+1:]...)
	follow := func(f *Finding) { // the rest of the gap has the same cause
		for j := range h.gaps[:min(keep+1, len(h.gaps))] {
			if q := &h.gaps[j]; q.frame == g.frame && q.find == nil {
				q.find = f
			}
		}
	}
	lost := lostKind(info.Op)
	r := h.remember(p, g.find)
	h.lateOp(p, info, r)
	n.Operation = opNumber(r.op)
	if !h.reliable() {
		if g.find != nil && p.AtNs-g.at < reorderNs {
			g.find.is(Reordered)
			this := see(p)
			g.find.what = func(*Finding) string {
				return fmt.Sprintf("Packet %d (PSN %d) was overtaken by packet %d. UC drops the message.",
					this.Frame, this.PSN, g.frame)
			}
			g.find.Frames = nil
			g.find.add(p.Frame)
			g.find.add(g.frame)
		}
		return
	}
	switch {
	case h.drew(p.PSN):
		f := g.find
		if h.nak.psn == p.PSN {
			h.nak.resentAt, h.nak.then, f = p.AtNs, p.PSN.Add(max(h.span(p), 1)), h.nak.find
		}
		if f != nil && (f.Kind == LostRequest || f.Kind == LostReadRequest) {
			f.is(lost, f.Or...)
			if react := h.toRequester(); h.nak.psn == p.PSN && p.AtNs-h.nak.at < react*8/10 {
				f.is(lost, Reordered) // it comes sooner than what a NAK draws
			}
		}
		f.add(p.Frame)
		r.find, r.missed, r.filled = f, f, true
		follow(f)
		n.Cause = CauseNAK
		h.again++
		h.resumed(p, CauseNAK)
	case g.find != nil:
		if was, ok := h.unGap(p.PSN); ok && was.find == nil {
			// It was missing again among what was sent again.
			f := h.lostBefore(lost, p.PSN, was)
			f.add(p.Frame)
			r.find = f
		} else {
			g.find.add(p.Frame)
		}
		n.Cause = h.cause
		if !h.going {
			n.Cause = CauseTimeout
		}
		h.again++
		h.resumed(p, n.Cause)
	case h.going && p.PSN == h.resume:
		// It goes again with what was lost before it: it was lost, too.
		f := h.lostBefore(lost, p.PSN, g)
		f.add(p.Frame)
		r.find = f
		follow(f)
		n.Cause = h.cause
		h.again++
		h.resumed(p, h.cause)
	case p.AtNs-g.at < reorderNs && !r.marked:
		f := h.find(Reordered, p.PSN, p.Frame, g.frame)
		late := time.Duration(p.AtNs - g.at)
		if react := h.react(); react == 0 || int64(late) >= react*8/10 {
			f.is(Reordered, lost) // it may be sent again for a NAK that the capture lacks
		}
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf(
				"Packet %d of %s (PSN %d) was overtaken on its way: packet %d, sent after it, was %v earlier.",
				this.Frame, h.requester(), this.PSN, g.frame, late)
		}
		r.find = f
	default:
		f := h.lostBefore(lost, p.PSN, g)
		f.add(p.Frame)
		r.find = f
		follow(f)
		n.Cause = CauseTimeout
		h.again++
		h.timeouts++
		h.resumed(p, CauseTimeout)
	}
}

// lateOp gives a late packet its operation: that of READs and the like is its own.
func (h *half) lateOp(p *pcap.Packet, info *ib.OpcodeInfo, r *record) {
	if ownAnswer(info.Op) {
		next, cur := h.next, h.cur
		h.cur = nil
		span := max(h.span(p), 1)
		h.next = p.PSN.Add(span)
		r.op = h.operate(p, info, span)
		h.next, h.cur = next, cur
		// The queue is in the order of PSNs.
		for q, i := h.own.ops, len(h.own.ops)-1; i > 0 && q[i].first.Diff(q[i-1].first) < 0; i-- {
			q[i], q[i-1] = q[i-1], q[i]
			h.a.steps++
		}
		return
	}
	for i := len(h.msgs.ops) - 1; i >= 0 && i >= len(h.msgs.ops)-8; i-- {
		h.a.steps++
		o := h.msgs.ops[i]
		within := p.PSN.Diff(o.first) >= 0 && p.PSN.Diff(o.end) < 0
		before := o.partial && p.PSN.Diff(o.first) < 0 && p.PSN.Diff(o.first) > -restart && info.Pos&ib.Last == 0
		after := !o.whole && o.end == p.PSN && info.Pos&ib.First == 0
		if !within && !before && !after || info.Op != o.op {
			continue
		}
		o.bytes += int64(p.PayloadBytes)
		if before {
			o.first, o.partial = p.PSN, info.Pos&ib.First == 0
		}
		if after {
			o.end = p.PSN.Next()
			if info.Pos&ib.Last != 0 {
				o.whole, o.kind = true, opName(p.Opcode)
				h.count(o.kind).Begun++
				if h.cur == o {
					h.cur = nil
				}
			}
		}
		r.op = o
		return
	}
	if info.Pos == ib.Only {
		h.nOps++
		o := &operation{number: h.nOps, kind: opName(p.Opcode), op: info.Op, first: p.PSN, end: p.PSN.Next(),
			whole: true, frame: p.Frame, at: p.AtNs, bytes: int64(p.PayloadBytes)}
		h.count(o.kind).Begun++
		h.msgs.push(o, maxOperations)
		r.op = o
	}
}

// lostKind is what the loss of a request is called.
func lostKind(op ib.Operation) Kind {
	if op == ib.OpRead {
		return LostReadRequest
	}
	return LostRequest
}

// lostBefore reports requests that were lost before they came to the place of the capture. It is
// certain if the responder says that it misses them; otherwise the capture alone may lack them.
func (h *half) lostBefore(k Kind, psn ib.PSN, g gap) *Finding {
	f := h.find(k, psn, g.frame)
	f.Certain, f.byGap = false, true
	missing := g.to.Diff(psn)
	f.what = func(f *Finding) string {
		if missing > 1 && f.Kind != LostReadRequest {
			return fmt.Sprintf("%d requests of %s (PSN %d%s) are missing before packet %d: they were lost on the way to the place of the capture.%s%s",
				missing, h.requester(), psn, upTo(psn, missing), g.frame, h.sentAgain(f), alone(f))
		}
		return fmt.Sprintf("The %s of %s with PSN %d is missing before packet %d: it was lost on the way to the place of the capture.%s%s",
			requestWord(f.Kind), h.requester(), psn, g.frame, h.sentAgain(f), alone(f))
	}
	return f
}

// alone says of a loss that nobody has told of that the capture may lack it, and nobody else.
func alone(f *Finding) string {
	if f.nak != 0 || f.Certain || len(f.Or) > 0 {
		return ""
	}
	return " No NAK names it: it may be the capture alone that lacks it."
}

func requestWord(k Kind) string {
	if k == LostReadRequest {
		return "READ request"
	}
	return "request"
}

// sentAgain says in which packet something was sent again: the last frame of a finding that has
// more than the ones that show the loss.
func (h *half) sentAgain(f *Finding) string {
	if n := len(f.Frames); n < 2 || f.Frames[n-1] == f.nak {
		return ""
	}
	return fmt.Sprintf(" It was sent again in packet %d.", f.Frames[len(f.Frames)-1])
}

// skippedAgain notes that packets are missing among those that are sent again, as it does for those
// sent for the first time. A long pause is no gap: then something else made the requester
// send this one.
func (h *half) skippedAgain(r *record, p *pcap.Packet) bool {
	if h.atRequester() {
		return false // nothing is lost before it comes here
	}
	if k := len(h.drawn); k > 0 && !h.asked(p.PSN) && p.PSN.Diff(h.drawn[k-1]) > 0 &&
		p.PSN.Diff(h.drawn[k-1]) < keepBehind &&
		r.last < h.nak.frame && h.nak.psn == h.drawn[k-1] &&
		p.AtNs-h.nak.at >= h.c.way[1-h.side].rtt.min*8/10 && !(h.going && p.PSN == h.resume) {
		// The NAK made the requester go back, and what it began with is missing once more.
		h.gapAgainFrom(h.nak.psn, p)
		h.drew(h.nak.psn)
		h.going, h.cause = true, CauseNAK
		return true
	}
	from := h.resume
	if h.una.Diff(from) > 0 {
		from = h.una // what is acknowledged meanwhile is not sent again
	}
	if !h.going || h.asked(p.PSN) || p.PSN.Diff(from) <= 0 && p.PSN != h.una || h.pause > 2*reorderNs ||
		h.pause > doubledNs && p.PSN.Next() == h.next {
		return false
	}
	if p.PSN.Diff(from) > 0 {
		h.gapAgainFrom(from, p)
	}
	return true
}

// gapAgainFrom notes that the packets from a PSN to p are missing among those that are sent again.
func (h *half) gapAgainFrom(from ib.PSN, p *pcap.Packet) {
	g := gap{from: from, to: p.PSN, frame: p.Frame, at: p.AtNs, again: true}
	if len(h.gaps) >= maxGaps {
		h.gaps = append(h.gaps[:0], h.gaps[maxGaps/2:]...)
	}
	h.gaps = append(h.gaps, g)
}

// unGap takes a PSN out of the gaps in what was sent again, and returns the one that it was in.
func (h *half) unGap(psn ib.PSN) (was gap, ok bool) {
	for i := range h.gaps {
		h.a.steps++
		g := &h.gaps[i]
		if !g.again || psn.Diff(g.from) < 0 || psn.Diff(g.to) >= 0 {
			continue
		}
		was = *g
		if g.from = psn.Next(); g.from.Diff(g.to) >= 0 {
			h.gaps = append(h.gaps[:i], h.gaps[i+1:]...)
		}
		return was, true
	}
	return gap{}, false
}

// overtaken finds out that a request which was missing, and came after the NAK for it, had only
// been overtaken: the one that the NAK has drawn is this one. It is so if nothing behind it was
// sent again in between.
func (h *half) overtaken(r *record, p *pcap.Packet) bool {
	if !r.filled || r.marked || r.times != 1 || r.find == nil ||
		r.find.Kind != LostRequest && r.find.Kind != LostReadRequest {
		return false
	}
	if next := h.sent.get(p.PSN.Next()); next != nil && next.last > r.frame {
		return false
	}
	if react := h.react(); react != 0 && r.at-h.a.start-r.find.AtNs >= react*8/10 {
		return false // it came as late as what a NAK draws
	}
	f := r.find
	first, over := r.frame, f.Frames[0]
	h.lateOne(f, first)
	f.add(p.Frame)
	this := see(p)
	f.what = func(*Finding) string {
		return fmt.Sprintf("Packet %d of %s (PSN %d) was overtaken by packet %d. The responder took that for a loss and sent a NAK, so that everything from there was sent again (packet %d), for nothing.",
			first, h.requester(), this.PSN, over, this.Frame)
	}
	r.filled = false
	h.resumed(p, CauseNAK)
	return true
}
