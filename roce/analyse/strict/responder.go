package strict

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// stream is the responses to one READ.
type stream struct {
	begun bool
	on    bool
	next  ib.PSN
	frame int
}

// answer takes a response; h has the requests that it answers.
func (f *flow) answer(p *pcap.Packet, info *ib.OpcodeInfo, h *half) {
	if !h.begun || h.guess {
		return
	}
	h.tries.answers++
	h.tries.selective = h.tries.selective || p.Resv7 == ib.Resv7Selective
	if !f.asked(p, h) {
		return
	}
	r := h.find(p.PSN)
	if r != nil && r.copies == 1 {
		f.half.proved = max(f.half.proved, r.frame)
	}
	h.answerNs = p.AtNs
	kind := ib.SyndromeACK
	if info.Headers&ib.HasAETH != 0 {
		kind = p.AETH.Syndrome.Kind()
		f.msn(p, h, r)
	}
	if info.Op == ib.OpReadResponse {
		f.learn(p)
		f.readResponse(p, info, h)
	} else {
		f.stream.on = false
	}
	switch {
	case kind == ib.SyndromeRNR:
		f.rnrNAK(p, h, r)
	case kind == ib.SyndromeNAK && p.AETH.Syndrome == ib.NAKSequence:
		f.sequenceNAK(p, h)
	case kind == ib.SyndromeNAK:
		f.refusal(p, h, r)
	case kind == ib.SyndromeACK:
		f.positive(p, info, h, r)
	}
}

// asked reports whether the PSN of an answer is one of the requests.
func (f *flow) asked(p *pcap.Packet, h *half) bool {
	nak := info(p).Headers&ib.HasAETH != 0 && p.AETH.Syndrome == ib.NAKSequence
	d := p.PSN.Diff(h.next)
	if nak {
		// It names what has not come; what has is behind.
		if d >= h.slack-1 && !h.covers(p.PSN) || d >= h.slack {
			f.c.broke(RuleNAKUnfounded, p, f.key.src, h.capture(),
				fmt.Sprintf("no sequence NAK but for a PSN before %d, the highest that was sent", h.next.Prev()),
				describe(p))
			return false
		}
		if r := h.find(p.PSN); r != nil && r.psn.Add(r.span).Diff(h.next) >= 0 && h.slack == 0 {
			f.c.broke(RuleNAKUnfounded, p, f.key.src, h.capture(),
				fmt.Sprintf("no sequence NAK: nothing behind PSN %d was sent", p.PSN), describe(p))
			return false
		}
		return p.PSN.Diff(h.first) >= 0
	}
	switch {
	case d >= h.slack:
		f.c.broke(RuleAckUnsent, p, f.key.src, h.capture(),
			fmt.Sprintf("an answer to a PSN before %d, which was not sent yet", h.next.Add(h.slack)), describe(p))
		return false
	case p.PSN.Diff(h.first) < 0:
		if h.fromStart || f.c.opt.Complete && h.f.faithful() {
			f.c.broke(RuleAckUnsent, p, f.key.src, nil,
				fmt.Sprintf("an answer to a PSN from %d on, the first that was sent", h.first), describe(p))
		}
		return false
	}
	return true
}

func info(p *pcap.Packet) *ib.OpcodeInfo { return p.Opcode.Info() }

// readResponse judges where a response stands in its READ, and in the stream of responses.
func (f *flow) readResponse(p *pcap.Packet, info *ib.OpcodeInfo, h *half) {
	if f.faithful() {
		s := &f.stream
		e := h.capture()
		switch {
		case info.Pos&ib.First != 0:
		case !s.begun:
		case !s.on:
			f.c.broke(RuleStream, p, f.key.src, e,
				fmt.Sprintf("FIRST or ONLY: the responses before ended in packet %d", s.frame), describe(p))
		case p.PSN != s.next:
			f.c.broke(RuleStream, p, f.key.src, e,
				fmt.Sprintf("PSN %d, behind packet %d", s.next, s.frame), describe(p))
		}
		*s = stream{true, info.Pos&ib.Last == 0, p.PSN.Next(), p.Frame}
	}
	if want := f.wantResponse(p, info, h); want != "" {
		f.c.broke(RuleResponse, p, f.key.src, h.capture(), want, describe(p))
	}
}

// wantResponse says what is allowed in place of a READ response; "" if it fits a READ that was
// seen.
func (f *flow) wantResponse(p *pcap.Packet, info *ib.OpcodeInfo, h *half) string {
	if r := h.recs[p.PSN]; r != nil && r.op != ib.RCReadRequest {
		if r.op == ib.RCFlush || r.op == ib.RCAtomicWrite {
			if p.Opcode == ib.RCReadRespOnly && p.PayloadBytes == 0 {
				return ""
			}
			return "READ RESPONSE ONLY without data, to " + r.op.String()
		}
		return fmt.Sprintf("no response to a READ: PSN %d is %v, in packet %d", p.PSN, r.op, r.frame)
	}
	want := ""
	for _, r := range slices.Backward(h.reads) {
		i := p.PSN.Diff(r.psn)
		if h.mtu == 0 && i > 0 && i < int((int64(r.dlen)+leastMTU-1)/leastMTU) {
			return "" // perhaps
		}
		if i < 0 || i >= r.span {
			continue
		}
		if h.mtu == 0 {
			if info.Pos&ib.First == 0 {
				want = fmt.Sprintf("FIRST or ONLY, at the beginning of the READ in packet %d", r.frame)
				continue
			}
			return ""
		}
		n := int64(r.span)
		pos, size := ib.Middle, int64(h.mtu)
		if i == 0 {
			pos |= ib.First
		}
		if int64(i) == n-1 {
			pos |= ib.Last
			size = int64(r.dlen) - (n-1)*int64(h.mtu)
		}
		if pos == info.Pos && size == int64(p.PayloadBytes) {
			return ""
		}
		if want == "" {
			names := map[ib.Position]string{ib.First: "FIRST", ib.Middle: "MIDDLE", ib.Last: "LAST", ib.Only: "ONLY"}
			want = fmt.Sprintf("READ RESPONSE %s with %d bytes, as the READ in packet %d asks",
				names[pos], size, r.frame)
		}
	}
	return want
}

// positive takes an answer that acknowledges.
func (f *flow) positive(p *pcap.Packet, info *ib.OpcodeInfo, h *half, r *rec) {
	plain := p.Opcode == ib.RCAcknowledge
	if h.fatal && p.PSN.Diff(h.fatalPSN) >= 0 && info.Op != ib.OpReadResponse {
		f.c.broke(RuleContradict, p, f.key.src, []Excuse{ExcuseReuse},
			fmt.Sprintf("no ACK of PSN %d and later ones, which packet %d refused for good", h.fatalPSN, h.fatalBy),
			describe(p))
	}
	if plain && h.done && p.PSN.Diff(h.doneTo) < 0 && f.faithful() && (!h.dups || p.PSN.Diff(h.dupLow) < 0) {
		f.c.broke(RuleAckBack, p, f.key.src, []Excuse{ExcuseCapture, ExcuseReuse},
			fmt.Sprintf("an ACK of PSN %d or later, which was answered: none came again from before this one",
				h.doneTo), describe(p))
	}
	if plain && r != nil && ownAnswer(r.op) && !r.data {
		if f.faithful() {
			f.c.broke(RuleAckKind, p, f.key.src, h.capture(),
				fmt.Sprintf("the answer that %v in packet %d needs, before an ACK of its PSN", r.op, r.frame),
				describe(p))
		}
		return
	}
	if atomic := info.Op == ib.OpAtomicAck; atomic && r != nil && r.op != ib.RCCompareSwap && r.op != ib.RCFetchAdd {
		f.c.broke(RuleAckKind, p, f.key.src, h.capture(),
			fmt.Sprintf("what answers %v in packet %d", r.op, r.frame), describe(p))
		return
	}
	if h.nak.on && (p.PSN == h.nak.psn || !h.nak.implied && p.PSN.Diff(h.nak.psn) > 0) {
		h.nak.on = false // it came after all
	}
	f.accepted(p, h)
	f.answered(p, info, h, r, plain)
	if info.Headers&ib.HasAETH != 0 {
		f.grants(p, h)
	}
	if !h.acked || p.PSN.Diff(h.ackedTo) > 0 {
		h.acked, h.ackedTo = true, p.PSN
	}
	if info.Pos&ib.Last != 0 && (!h.done || p.PSN.Diff(h.doneTo) > 0) {
		h.done, h.doneTo = true, p.PSN
	}
	if h.rnr.on && p.PSN.Diff(h.rnr.psn) >= 0 {
		h.rnr.on = false
	}
}

// accepted judges that requests are acknowledged which have to be refused.
func (f *flow) accepted(p *pcap.Packet, h *half) {
	h.wrongs = slices.DeleteFunc(h.wrongs, func(w *rec) bool {
		if p.PSN.Diff(w.psn) < 0 {
			return false
		}
		if h.recs[w.psn] == w && w.wrong != "" {
			f.c.broke(RuleRefuse, p, f.key.src, append(h.capture(), f.mtuExcuse()...),
				fmt.Sprintf("a NAK of packet %d, which is %v, PSN %d, and should be: %s", w.frame, w.op,
					w.psn, w.wrong), describe(p))
		}
		return true
	})
}

// answered follows which requests have the answers that they need.
func (f *flow) answered(p *pcap.Packet, info *ib.OpcodeInfo, h *half, r *rec, plain bool) {
	if !plain {
		for i := len(h.reads) - 1; i >= 0; i-- {
			if x := h.reads[i]; p.PSN.Diff(x.psn) >= 0 && p.PSN.Diff(x.psn) < x.span {
				x.data, x.silent = true, 0
			}
		}
		if r != nil {
			r.data, r.silent = true, 0
		}
		if info.Op == ib.OpReadResponse && r != nil && r.op == ib.RCReadRequest {
			f.gap(p, h)
		}
	}
	var late *rec
	h.open = slices.DeleteFunc(h.open, func(o *rec) bool {
		last := o.psn.Add(o.span - 1)
		if p.PSN.Diff(last) < 0 {
			return false
		}
		if p.PSN != last && !o.data && late == nil {
			late = o
		}
		return true
	})
	if late != nil && (f.faithful() || f.otherSent()) {
		if f.faithful() {
			f.c.broke(RuleAckPast, p, f.key.src, h.capture(),
				fmt.Sprintf("the answer to %v in packet %d, PSN %d, first", late.op, late.frame, late.psn), describe(p))
		}
		h.nak = goBack{true, true, late.psn, p.Frame, p.AtNs}
	}
	// What came again before something that is answered now was passed over.
	h.again = slices.DeleteFunc(h.again, func(o *rec) bool {
		if o.silent == 0 {
			return true
		}
		if r == nil || r.copies > 1 || r.frame < o.lastFrame {
			return false
		}
		if h.f.otherFaithful() {
			f.c.broke(RuleUnanswered, p, f.key.src, []Excuse{ExcuseCapture, ExcuseWay},
				fmt.Sprintf("an answer to packet %d first: %v, PSN %d, again", o.lastFrame, o.op, o.psn), describe(p))
		}
		return true
	})
	if u := f.other.unknown; u != nil && r != nil && r.frame > u.Frame && p.PSN.Diff(u.PSN) >= 0 {
		f.c.broke(RuleUnanswered, p, f.key.src, []Excuse{ExcuseCapture, ExcuseWay},
			fmt.Sprintf("a NAK of packet %d first, which has opcode %#02x and PSN %d", u.Frame, u.Data[0], u.PSN),
			describe(p))
		f.other.unknown = nil
	}
}

// otherSent reports whether the capture is from the requester.
func (f *flow) otherSent() bool { return f.other != nil && f.other.sent() }

// otherFaithful reports whether what is seen of a flow's requests is what the responder gets, in
// the order of its answers.
func (f *flow) otherFaithful() bool {
	return f.c.opt.Lossless || f.other != nil && f.other.sent()
}

// gap finds a response that is missing before this one.
func (f *flow) gap(p *pcap.Packet, h *half) {
	x := h.reading(p.PSN)
	if x == nil {
		return
	}
	want := x.psn.Add(x.got)
	d := p.PSN.Diff(want)
	if x.got < x.span && d > 0 && !h.nak.on && (f.c.opt.Lossless || f.otherSent()) {
		h.nak = goBack{true, true, want, p.Frame, p.AtNs}
	}
	if d == 0 {
		x.got++
	}
}

// rnrNAK takes an RNR NAK.
func (f *flow) rnrNAK(p *pcap.Packet, h *half, r *rec) {
	if r == nil {
		return
	}
	i := r.op.Info()
	if !(i.Op == ib.OpSend || i.Op == ib.OpWrite && i.Headers&ib.HasImmDt != 0) {
		f.c.broke(RuleRNRKind, p, f.key.src, append(h.capture(), ExcuseUnseen),
			fmt.Sprintf("another answer to %v, PSN %d: it needs no receive", r.op, r.psn), describe(p))
	}
	if h.rnr.on && h.rnr.psn == p.PSN {
		return // the same one again
	}
	for _, o := range h.open {
		if p.PSN.Diff(o.psn.Add(o.span-1)) > 0 {
			return // to the requester it is a gap first: an answer before it was lost
		}
	}
	for _, r := range h.reads {
		if r.anew && !r.data && p.PSN.Diff(r.psn) > 0 {
			return // so it is while a response that was lost is asked for again
		}
	}
	h.rnr = rnr{true, p.PSN, p.Frame, p.AtNs, p.AETH.Syndrome.RNRCode().Ns(), r.copies}
}

// sequenceNAK takes a NAK of a gap.
func (f *flow) sequenceNAK(p *pcap.Packet, h *half) {
	r := h.find(p.PSN)
	if h.rnr.on && h.rnr.psn == p.PSN && r != nil && r.copies == h.rnr.copies && p.AtNs-h.rnr.atNs < h.rnr.waitNs {
		f.c.broke(RuleNAKAfterRNR, p, f.key.src, f.onWay([]Excuse{ExcuseCapture}),
			fmt.Sprintf("silence until PSN %d comes again, or the time of the RNR NAK in packet %d is over",
				p.PSN, h.rnr.frame), describe(p))
		return
	}
	if h.acked && p.PSN.Diff(h.ackedTo) <= 0 {
		return // an old one
	}
	h.nak = goBack{true, false, p.PSN, p.Frame, p.AtNs}
}

// refusal takes a NAK that ends the queue pair.
func (f *flow) refusal(p *pcap.Packet, h *half, r *rec) {
	if r != nil {
		r.silent = 0
		i := r.op.Info()
		zero := (i.Op == ib.OpRead || i.Op == ib.OpWrite && i.Pos == ib.Only) && r.dlen == 0
		switch {
		case p.AETH.Syndrome == ib.NAKRemoteAccess && zero:
			f.c.broke(RuleZeroLength, p, f.key.src, h.capture(),
				fmt.Sprintf("another answer: the length in packet %d, %v, is 0", r.frame, r.op), describe(p))
		case p.AETH.Syndrome == ib.NAKRemoteAccess && i.Headers&ib.HasRETH != 0 && r.dlen > maxLength:
			f.c.broke(RuleNAKCode, p, f.key.src, h.capture(),
				fmt.Sprintf("%v: the length in packet %d is over 2 GiB", ib.NAKInvalidRequest, r.frame), describe(p))
		case h.acked && p.PSN.Diff(h.ackedTo) <= 0 && i.Op != ib.OpRead:
			f.c.broke(RuleContradict, p, f.key.src, append(h.capture(), ExcuseReuse),
				fmt.Sprintf("no refusal of PSN %d: it was acknowledged", p.PSN), describe(p))
		}
	}
	h.wrongs = slices.DeleteFunc(h.wrongs, func(w *rec) bool { return w.psn == p.PSN })
	if u := f.other.unknown; u != nil && u.PSN == p.PSN {
		f.other.unknown = nil
	}
	if h.acked && p.PSN.Diff(h.ackedTo) <= 0 {
		return
	}
	if !h.fatal {
		h.fatal, h.fatalTold, h.fatalPSN, h.fatalBy, h.fatalNs = true, false, p.PSN, p.Frame, p.AtNs
	}
	f.fatalNs = p.AtNs
}

// grants takes the credits of an ACK.
func (f *flow) grants(p *pcap.Packet, h *half) {
	code := p.AETH.Syndrome.CreditCode()
	c := &h.credits
	if code == ib.CreditsUnused {
		c.off = true
		return
	}
	limit := (p.AETH.MSN + ib.MSN(code.Credits())) & ib.PSNMask
	if !c.on {
		c.frame, c.atNs = p.Frame, p.AtNs
	}
	if !c.on || limit.Diff(c.limit) > 0 {
		c.on, c.limit = true, limit
	}
}

// strange takes a request with an opcode that nobody knows.
func (f *flow) strange(p *pcap.Packet) {
	h := &f.half
	q := *p
	f.unknown = &q
	f.unknown.Data = append([]byte(nil), p.Data[:1]...)
	if h.begun && p.PSN == h.next && !f.c.opt.Complete {
		return
	}
}

// end judges what did not come.
func (f *flow) end() {
	if f.other == nil {
		return
	}
	p := f.marked
	if p != nil && f.other.cnps == 0 {
		f.c.broke(RuleCNPMissing, p, f.key.dst, []Excuse{ExcuseUnseen},
			"a CNP: congestion management is optional, and who has it sends one",
			"none, for a packet with the mark: "+describe(p))
	}
	h := &f.half
	for _, o := range h.again {
		if h.fatal {
			break // then silence is right
		}
		if o.silent > 0 && f.c.opt.Lossless {
			f.c.broke(RuleUnanswered, &pcap.Packet{Frame: o.lastFrame, AtNs: o.lastNs, Packet: ib.Packet{
				BTH: ib.BTH{Opcode: o.op, DestQP: f.key.qpn, PSN: o.psn},
			}}, f.key.dst,
				[]Excuse{ExcuseCapture, ExcuseWay, ExcuseUnseen}, "the answer again",
				fmt.Sprintf("nothing, for %v with PSN %d, %d times", o.op, o.psn, o.silent))
			o.silent = 0
		}
	}
	if u := f.unknown; u != nil {
		f.c.broke(RuleUnanswered, u, f.key.dst, []Excuse{ExcuseCapture, ExcuseWay, ExcuseUnseen}, "a NAK",
			fmt.Sprintf("nothing, for opcode %#02x with PSN %d", u.Data[0], u.PSN))
	}
}
