package analyse

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// settle makes certain whether a packet that was asked for by a NAK had been lost or was late.
func (h *half) settle(p *pcap.Packet, psn ib.PSN) {
	d := h.confirm
	if d == nil || psn.Diff(d.psn) < 0 {
		return
	}
	h.confirm = nil
	if d.again == 0 {
		if len(d.find.Or) > 0 {
			h.onlyLate(d) // acknowledged without having been sent again
			if soon, _ := h.tooSoon(p.AtNs - d.at); !soon {
				d.find.is(Reordered, LostRequest) // or the capture lacks that it was
			}
		}
		return
	}
	switch soon, sure := h.tooSoon(p.AtNs - d.again); {
	case soon && sure:
		h.onlyLate(d)
	case soon: // it may be either
	case d.ackReq: // it may have come late, or before one that was missed
	case !d.ackReq && psn == d.psn && p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome.Kind() == ib.SyndromeACK:
		h.onlyLate(d)
	}
}

// onlyLate says that a packet had not been lost but overtaken.
func (h *half) onlyLate(d *doubt) {
	f := d.find
	f.is(Reordered)
	first := f.Frames[0]
	f.what = func(f *Finding) string {
		return fmt.Sprintf("Packet %d of %s (PSN %d) was overtaken on its way by a later one: the responder sent a NAK, but then had the packet, and acknowledged it sooner than what was sent again could be.",
			first, h.requester(), f.PSN)
	}
}

// notReady handles an RNR NAK.
func (h *half) notReady(p *pcap.Packet, n *Note) {
	h.rnrNAKs++
	code := p.AETH.Syndrome.RNRCode()
	if p.PSN.Diff(h.next) >= 0 {
		h.beyond(p)
	}
	h.pending = nil
	h.silences = 0
	if h.rnr.valid && h.rnr.psn == p.PSN {
		h.rnr.count++
		h.rnr.answered, h.rnr.frame, h.rnr.at, h.rnr.code = false, p.Frame, p.AtNs, code
		h.rnr.find.add(p.Frame)
		h.rnr.find.count++
		return
	}
	f := h.find(RNR, p.PSN)
	r := h.sent.get(p.PSN)
	request := ""
	if r != nil {
		f.add(r.last)
		request = fmt.Sprintf(" (packet %d)", r.last)
		n.Operation = opNumber(r.op)
	}
	f.add(p.Frame)
	h.noCredits(p)
	h.rnr = nak{valid: true, psn: p.PSN, frame: p.Frame, at: p.AtNs, code: code, find: f, count: 1}
	what := "message"
	if r != nil {
		what = opName(r.opcode)
	}
	this := see(p)
	f.what = func(f *Finding) string {
		s := fmt.Sprintf("%s had no receive posted for the %s of %s with PSN %d%s, and said so in packet %d: wait %v (RNR timer code %d).",
			h.responder(), what, h.requester(), f.PSN, request, this.Frame, time.Duration(code.Ns()), code)
		if f.count > 1 {
			s += fmt.Sprintf(" It said so %d times.", f.count)
		}
		if code == 0 {
			s += " Code 0 is the longest wait there is: set min_rnr_timer."
		}
		return s
	}
}

// noCredits reports, of an RNR NAK, that the requester had been told so.
func (h *half) noCredits(p *pcap.Packet) {
	s := h.starved
	if s == nil || s.restored != 0 {
		return
	}
	f := h.findBack(CreditsExhausted, s.psn, s.frame, p.Frame)
	this := see(p)
	f.what = func(*Finding) string {
		return fmt.Sprintf("%s had told in packet %d that it has no receive posted (0 credits). The one message that may be sent without credits met none either (RNR NAK in packet %d).",
			h.responder(), s.frame, this.Frame)
	}
	h.starved = nil
}

// refused handles a NAK.
func (h *half) refused(p *pcap.Packet, n *Note) {
	if p.PSN.Diff(h.next) > 0 {
		h.beyond(p)
	}
	if p.AETH.Syndrome == ib.NAKSequence {
		h.seqNAKs++
		h.sequence(p, n)
		return
	}
	h.pending = nil
	h.silences = 0
	r := h.sent.get(p.PSN)
	if f := h.fatal; f != nil && f.PSN == p.PSN {
		f.add(p.Frame) // said again
		return
	}
	kind, status := InvalidRequest, statusInvalidRequest
	switch p.AETH.Syndrome {
	case ib.NAKRemoteAccess:
		kind, status = RemoteAccess, statusRemoteAccess
	case ib.NAKRemoteOperation:
		kind, status = RemoteOperational, statusRemoteOp
	}
	f := h.find(kind, p.PSN)
	f.Status = status
	h.fatal = f
	var req string
	if r != nil {
		f.add(r.last)
		n.Operation = opNumber(r.op)
		req = h.describe(r)
	} else if o := h.reading(p.PSN); o != nil {
		f.add(o.frame)
		n.Operation = o.number
		req = fmt.Sprintf("the READ of packet %d (%d bytes at 0x%x, rkey 0x%x)", o.frame, o.readLen,
			o.va, uint32(o.rkey))
	} else {
		req = fmt.Sprintf("the request with PSN %d, which the capture does not have,", p.PSN)
	}
	f.add(p.Frame)
	this := see(p)
	op := h.reading(p.PSN)
	if r != nil && r.op != nil {
		op = r.op
	}
	why := ""
	if kind == RemoteAccess && op != nil && op.rkey != 0 {
		f.Cause, why = h.keys.why(op)
		f.advice = adviceAccess[f.Cause]
	}
	f.what = func(f *Finding) string {
		return fmt.Sprintf("%s refused %s with %q in packet %d.", h.responder(), req,
			this.AETH.Syndrome.String(), this.Frame) + why
	}
	if kind == InvalidRequest && r != nil {
		h.maybeMTU(f, r, p)
	}
}

// describe names a request.
func (h *half) describe(r *record) string {
	s := fmt.Sprintf("the %s of packet %d", opName(r.opcode), r.last)
	if o := r.op; o != nil && o.rkey != 0 {
		if o.readLen != 0 {
			return fmt.Sprintf("%s (%d bytes at 0x%x, rkey 0x%x)", s, o.readLen, o.va, uint32(o.rkey))
		}
		return fmt.Sprintf("%s (0x%x, rkey 0x%x)", s, o.va, uint32(o.rkey))
	}
	return s
}

// maybeMTU finds out whether a request was refused for its size: a full packet that is the first
// one ever, or of a size other than what the responder sends itself.
func (h *half) maybeMTU(f *Finding, r *record, p *pcap.Packet) {
	info := r.opcode.Info()
	n := r.wire - int(info.HeaderLen) - ib.ICRCBytes
	if info.Op != ib.OpSend && info.Op != ib.OpWrite {
		return
	}
	other := h.c.way[1-h.side].fullBytes()
	req := h.describe(r)
	switch {
	case other != 0 && (info.Payload == ib.PayloadFull && n != other || n > other):
		f.is(MTUMismatch)
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("%s refused %s with %q in packet %d: its packets hold %d bytes, and those that %s sends hold %d. The path MTUs differ.",
				h.responder(), req, this.AETH.Syndrome.String(), this.Frame, n, h.responder(), other)
		}
	case (info.Payload == ib.PayloadFull && info.Pos&ib.First != 0 || isMTU(n)) && h.maxAcked < r.wire:
		f.is(MTUMismatch, InvalidRequest)
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("%s refused %s with %q in packet %d. It is the first packet of full size (%d bytes) of this connection, so that the two path MTUs probably differ.",
				h.responder(), req, this.AETH.Syndrome.String(), this.Frame, n)
		}
	}
}

// minFull is the size from which a message of one packet with the length of a path MTU is taken for
// a part of a longer one.
const minFull = 512

func isMTU(n int) bool {
	_, ok := ib.MTUFromBytes(n)
	return ok
}

// fullBytes is the payload of the full packets that a requester has sent; 0 if there were none.
func (h *half) fullBytes() int {
	for i := range h.sent.slots {
		h.a.steps++
		r := &h.sent.slots[i]
		if r.times == 0 {
			continue
		}
		// A message may come as packets of a message each.
		info := r.opcode.Info()
		if n := r.wire - int(info.HeaderLen) - ib.ICRCBytes; info.Payload == ib.PayloadFull ||
			info.Pos == ib.Only && n >= minFull && isMTU(n) {
			return n
		}
	}
	return 0
}

// sequence handles a sequence NAK: the responder misses p.PSN.
func (h *half) sequence(p *pcap.Packet, n *Note) {
	was := h.nak
	if h.rnr.valid && h.rnr.psn == p.PSN {
		// What followed the packet that met no receive was out of sequence: no loss.
		h.rnr.find.add(p.Frame)
		h.ackBefore(p, n)
		return
	}
	h.ackBefore(p, n)
	r := h.sent.get(p.PSN)
	again := h.gapAgain(p.PSN)
	h.silences = 0
	h.pending = nil // the NAK explains the silence
	if was.find != nil && was.psn == p.PSN && again == nil &&
		(h.asked(p.PSN) || was.resentAt != 0 && p.AtNs-was.resentAt < h.crossing()) {
		was.find.add(p.Frame) // said again, or on its way when that was sent again
		return
	}
	h.draw(p.PSN)
	h.nak = nak{valid: true, psn: p.PSN, frame: p.Frame, at: p.AtNs}
	switch d := p.PSN.Diff(was.psn); {
	case was.find == nil:
	case d == 0:
		if (was.find.Kind == LostRequest || was.find.Kind == LostReadRequest) && p.AtNs-was.at >= reorderNs &&
			!(h.confirm != nil && h.confirm.early) {
			was.find.is(was.find.Kind) // it was not late
		}
	case d > 0 && d < keepBehind && again == nil && r != nil && p.AtNs-was.at < owedNs &&
		(r.last < was.frame || was.resentAt != 0 && p.AtNs-was.resentAt < h.rtt.min || h.cameEarly(p, r)):
		// The responder had dropped this one for being out of order; meanwhile what it missed has
		// come, without having been sent again.
		f := was.find
		if c := h.confirm; c != nil && c.find == f {
			h.onlyLate(c)
			h.confirm = nil
		}
		f.add(p.Frame)
		h.nak.find, r.find = f, f
		n.Operation = opNumber(r.op)
		return
	}
	if f := h.outOfOrder(p.PSN, r); f != nil && again == nil {
		f.add(p.Frame)
		h.nak.find, r.find = f, f
		n.Operation = opNumber(r.op)
		return
	}
	if r != nil && again == nil {
		n.Operation = opNumber(r.op)
		if f := r.find; f != nil && (f.Kind == Corrupt || f.Kind == Reordered) && r.times == 1 {
			f.add(p.Frame)
			h.nak.find = f
			return
		}
		h.nak.find = h.lostAfter(r, p, was)
		r.find = h.nak.find
		return
	}
	for i := range h.gaps {
		h.a.steps++
		g := &h.gaps[i]
		if p.PSN.Diff(g.from) < 0 || p.PSN.Diff(g.to) >= 0 || again != nil && !g.again {
			continue
		}
		if g.find == nil {
			kind := LostRequest
			if r != nil {
				kind = lostKind(r.opcode.Info().Op)
			}
			g.find = h.lostBefore(kind, p.PSN, *g)
		}
		if len(g.find.Or) == 0 && !g.again {
			// The responder misses it, too. After an answer to all that was seen a single one is no
			// packet from before the capture.
			g.find.Certain, g.find.early = true, g.find.early && (h.settled == 0 || g.again || g.to.Diff(g.from) > 1)
		}
		g.find.add(p.Frame)
		g.find.nak = p.Frame
		h.nak.find = g.find
		return
	}
	if o := h.reading(p.PSN); o != nil {
		f := h.find(LostReadRequest, p.PSN, o.askFrame, p.Frame)
		f.nak = p.Frame
		this := see(p)
		f.what = func(f *Finding) string {
			return fmt.Sprintf(
				"The READ request for PSN %d on (packet %d) did not arrive: %s missed it (NAK in packet %d).%s",
				this.PSN, f.Frames[0], h.responder(), this.Frame, h.sentAgain(f))
		}
		h.nak.find = f
		return
	}
	if b := h.a.lastBad[pairKey{p.Flow.Dst, p.Flow.Src}]; b != nil && !b.used {
		b.used = true
		b.find.conn = h.c
		b.find.add(p.Frame)
		h.nak.find = b.find
		return
	}
	f := h.find(LostRequest, p.PSN)
	f.nak = p.Frame
	if p.PSN.Diff(h.first) < 0 || !h.clean {
		f.is(LostRequest, Reordered) // the capture begins behind it
		f.add(h.firstFrame)
	}
	f.add(p.Frame)
	this := see(p)
	f.what = func(f *Finding) string {
		return fmt.Sprintf("%s misses PSN %d (NAK in packet %d); the capture does not have it either.%s",
			h.responder(), this.PSN, this.Frame, h.sentAgain(f))
	}
	h.nak.find = f
	if p.PSN == h.next {
		// What showed the gap to the responder is not in the capture either.
		h.gaps = append(h.gaps, gap{from: p.PSN, to: p.PSN.Next(), frame: p.Frame, at: p.AtNs, find: f})
		h.next = p.PSN.Next()
		h.cur = nil
	}
}

// crossing is how long after a request was sent again, as seen from here, a NAK for it may come
// that is not about that.
func (h *half) crossing() int64 {
	if h.atResponder() {
		return h.turn * 8 / 10
	}
	return h.rtt.min * 8 / 10
}

// cameEarly reports whether the first copy of a request came before the one that it follows, so
// that the responder could not take it, and the second came too late for this NAK to be about that.
func (h *half) cameEarly(p *pcap.Packet, r *record) bool {
	prev := h.sent.get(r.psn.Prev())
	return prev != nil && prev.late && prev.frame > r.frame && p.AtNs-r.lastAt < h.rtt.min*5/4
}

// outOfOrder returns the finding about the request before one for which there is a NAK, if that was
// sent again after it: until then the responder could not take it.
func (h *half) outOfOrder(psn ib.PSN, r *record) *Finding {
	prev := h.sent.get(psn.Prev())
	if r == nil || prev == nil || prev.last <= r.last || prev.times == 1 && !prev.late {
		return nil
	}
	return prev.find
}

// gapAgain returns the gap in what was sent again that a PSN is in.
func (h *half) gapAgain(psn ib.PSN) *gap {
	for i := range h.gaps {
		h.a.steps++
		if g := &h.gaps[i]; g.again && psn.Diff(g.from) >= 0 && psn.Diff(g.to) < 0 {
			return g
		}
	}
	return nil
}

// ackBefore takes what a NAK acknowledges: all before its PSN.
func (h *half) ackBefore(p *pcap.Packet, n *Note) {
	if q := p.PSN.Prev(); q.Diff(h.una) >= 0 {
		h.progress(p, q, n)
	}
}

// lostAfter reports a request that is in the capture and did not arrive.
func (h *half) lostAfter(r *record, p *pcap.Packet, was nak) *Finding {
	info := r.opcode.Info()
	frame := r.last
	if h.atResponder() && r.find == nil {
		f := h.find(SlowReceiver, p.PSN, frame, p.Frame)
		f.nak = p.Frame
		if r.frame == h.firstFrame {
			f.is(SlowReceiver, Reordered, LostRequest) // what came before it is not in the capture
		}
		this := see(p)
		f.what = func(f *Finding) string {
			return fmt.Sprintf("Packet %d (PSN %d) reached the host of %s undamaged, which nevertheless asked for it again in packet %d: it was dropped inside the host.%s",
				frame, this.PSN, h.responder(), this.Frame, h.sentAgain(f))
		}
		return f
	}
	if p.Resv7 == ib.Resv7Selective && r.times > 1 && p.AtNs-r.lastAt <= h.rtt.min*3/2 {
		// Between two that know selective repeat it was sent again before this NAK, which another
		// packet has drawn.
		f := h.find(lostKind(info.Op), p.PSN, r.frame, p.Frame, r.last)
		f.what = func(f *Finding) string {
			return fmt.Sprintf(
				"The %s in packet %d (PSN %d) did not reach %s. It was sent again, by itself, in packet %d.",
				requestWord(f.Kind), f.Frames[0], f.PSN, h.responder(), f.Frames[len(f.Frames)-1])
		}
		return f
	}
	f := h.find(lostKind(info.Op), p.PSN, frame, p.Frame)
	f.is(f.Kind, Reordered)
	h.confirm = &doubt{find: f, psn: p.PSN, ackReq: r.ackReq, at: p.AtNs}
	// It may have come before one that was missed earlier, and was dropped for that.
	h.confirm.early = was.find != nil && r.at <= max(was.at, was.resentAt) && p.PSN.Diff(was.psn) < keepBehind
	this := see(p)
	f.what = func(f *Finding) string {
		s := fmt.Sprintf("The %s in packet %d (PSN %d) did not reach %s, which missed it (sequence NAK in packet %d).",
			requestWord(f.Kind), frame, this.PSN, h.responder(), this.Frame)
		if len(f.Frames) > 2 {
			s += fmt.Sprintf(" It was sent again in packet %d.", f.Frames[len(f.Frames)-1])
		}
		return s
	}
	return f
}
