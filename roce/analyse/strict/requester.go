package strict

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// half is the requests of one direction, as they were seen.
type half struct {
	f         *flow
	begun     bool
	fromStart bool // first is the first PSN of the connection
	guess     bool // PSNs have jumped: perhaps another connection, perhaps nonsense
	first     ib.PSN
	next      ib.PSN // one past the highest that was seen
	slack     int    // by how much next may be too low: a READ whose path MTU is not known
	mtu       int    // 0 if it is not known yet
	recs      map[ib.PSN]*rec
	order     []ib.PSN // of recs, as they were made
	reads     []*rec   // the last ones
	newest    *rec

	acked     bool
	ackedTo   ib.PSN // the highest that was acknowledged, or answered with data
	done      bool
	doneTo    ib.PSN // the highest that an ACK, or the last response to a READ, was about
	answerNs  int64  // when an answer was seen that fits
	fatal     bool
	fatalPSN  ib.PSN
	fatalTold bool // requests behind it have been told of
	fatalBy   int  // frame of the NAK
	fatalNs   int64
	proved    int // frame of the last packet the other way that the requester has answered: it had what came before
	rnr       rnr
	nak       goBack
	selective bool // the requester sends again what is missing, and does not go back
	tries     tries
	credits   credits
	messages  messages
	open      []*rec // READs and others that need an answer of their own, and have none
	wrongs    []*rec // that have to be refused
	again     []*rec // sent again after they were answered
	dups      bool
	dupLow    ib.PSN // the lowest that was sent again
	lateNs    int64  // since when a retry is overdue
}

// rec is a request.
type rec struct {
	psn       ib.PSN
	span      int // PSNs that it has
	op        ib.Opcode
	len       int // of payload
	va        uint64
	rkey      ib.RKey
	dlen      uint32
	full      uint32 // of a READ: the most that was asked for from this PSN on
	imm       uint32
	inv       ib.RKey
	args      [2]uint64
	frame     int
	lastNs    int64 // when it was sent last
	copies    int
	ident     uint16
	many      bool   // of the copies that were seen two were sent, and not doubled on the way
	begins    ib.PSN // the PSN of the first packet of its message
	known     bool   // begins is
	number    int    // of its message, as messages counts in this epoch; 0 if unknown
	epoch     int
	wrong     string // why it has to be refused
	anew      bool   // a READ: it begins inside of one
	data      bool   // a response with data was seen
	got       int    // of a READ: how many responses were seen without a gap
	silent    int    // copies that came after it was answered, and were not
	lastFrame int
	repeats   int // of a READ: responses that were asked for again, with all parts of it
}

const (
	farAhead = 1 << 12 // further than that is another connection
	farBack  = 1 << 16
)

func (h *half) reset() {
	f := h.f
	if f.c != nil {
		f.c.records -= len(h.recs)
	}
	*h = half{f: f, recs: map[ib.PSN]*rec{}}
}

// start says what the first PSN is.
func (h *half) start(psn ib.PSN) {
	h.begun, h.fromStart, h.first, h.next = true, true, psn, psn
}

// covers reports whether a request with a PSN was seen.
func (h *half) covers(psn ib.PSN) bool { return h.find(psn) != nil }

// find returns the request that has a PSN: of a READ, the one that was sent last.
func (h *half) find(psn ib.PSN) *rec {
	if r := h.recs[psn]; r != nil {
		return r
	}
	return h.inRead(psn)
}

// inRead returns the newest READ that has a response with a PSN.
func (h *half) inRead(psn ib.PSN) *rec {
	for i := len(h.reads) - 1; i >= 0; i-- {
		r := h.reads[i]
		if d := psn.Diff(r.psn); d >= 0 && d < r.span {
			return r
		}
	}
	return nil
}

// reading returns the oldest READ that has a response with a PSN: not one that begins inside of
// another.
func (h *half) reading(psn ib.PSN) *rec {
	for _, r := range h.reads {
		if d := psn.Diff(r.psn); d >= 0 && d < r.span && !r.anew {
			return r
		}
	}
	return nil
}

// learnMTU takes the path MTU, from which the PSNs of READs follow.
func (h *half) learnMTU(mtu int) {
	if mtu == 0 || h.mtu != 0 {
		return
	}
	h.mtu = mtu
	for _, r := range h.reads {
		r.span = h.spanOf(r.dlen)
		if end := r.psn.Add(r.span); r == h.newest && end.Diff(h.next) > 0 {
			h.next = end
		}
	}
	h.slack = 0
}

func (h *half) spanOf(dlen uint32) int { return max(1, int((int64(dlen)+int64(h.mtu)-1)/int64(h.mtu))) }

// request takes a request that is seen.
func (f *flow) request(p *pcap.Packet, info *ib.OpcodeInfo) {
	h := &f.half
	d := p.PSN.Diff(h.next)
	if h.begun && (d > h.slack+farAhead ||
		d < 0 && !h.covers(p.PSN) && (d < -farBack || f.c.opt.Complete && p.PSN.Diff(h.first) < 0 && d < -farAhead)) {
		if h.fromStart && f.c.opt.Complete && d > 0 {
			f.c.broke(RulePSNOrder, p, f.key.src, f.onWay(nil),
				fmt.Sprintf("PSN %d, or one that was sent before", h.next), describe(p))
		}
		other, agreed := f.other, f.agreed
		f.begin()
		if agreed != nil && other != nil { // the same connection, for all that is known
			f.agreed = agreed
			f.join(other)
			f.learnMTU(agreed.mtu)
		}
		h.guess = true
	}
	if !h.begun {
		h.begun, h.first, h.next = true, p.PSN, p.PSN
		h.fromStart = f.c.opt.Complete && f.faithful() && !h.guess
		d = 0
	}
	if p.PSN.Diff(h.first) < 0 && (!h.fromStart || f.agreed == nil) {
		h.first, h.fromStart = p.PSN, false // it did not begin with the first one
		h.messages = messages{epoch: h.messages.epoch + 1}
	}
	f.afterFatal(p)
	h.selective = h.selective || p.Resv7 == ib.Resv7Selective
	if info.Pos == ib.First || info.Pos == ib.Middle {
		f.learn(p)
		d = p.PSN.Diff(h.next)
	}
	now := h.recordOf(p, info)
	was := h.recs[p.PSN]
	switch {
	case was != nil:
		f.again(p, was, now)
		return
	case d < 0 && f.inside(p, now):
		return
	}
	switch {
	case d > h.slack && !f.faithful(): // lost on the way here, or overtaken
	case d > h.slack:
		f.c.broke(RulePSNOrder, p, f.key.src, f.onWay(h.capture()),
			fmt.Sprintf("PSN %d, or one that was sent before", h.next), describe(p))
	case d > 0: // so long was the READ before
		h.newest.span += d
	}
	if d >= 0 {
		h.slack = 0
	}
	h.keep(now)
	f.goesOn(p, d >= 0)
	f.follows(p, now)
	f.length(p, now)
	if end := p.PSN.Add(now.span); end.Diff(h.next) > 0 {
		h.next = end
		h.newest = now
		if now.op == ib.RCReadRequest && h.mtu == 0 {
			h.slack = max(0, int((int64(p.RETH.Len)+leastMTU-1)/leastMTU)-1)
		}
	}
	h.sentNew(p, now)
}

// learn takes the path MTU from a packet that is full.
func (f *flow) learn(p *pcap.Packet) {
	if n := p.PayloadBytes; n >= leastMTU && n <= maxMTU && n&(n-1) == 0 {
		f.learnMTU(n)
		if f.other != nil {
			f.other.learnMTU(n)
		}
	}
}

func (h *half) recordOf(p *pcap.Packet, info *ib.OpcodeInfo) *rec {
	r := &rec{psn: p.PSN, span: 1, op: p.Opcode, len: p.PayloadBytes, frame: p.Frame, lastNs: p.AtNs,
		copies: 1, ident: p.Ident}
	if info.Headers&ib.HasRETH != 0 {
		r.va, r.rkey, r.dlen, r.full = p.RETH.VA, p.RETH.RKey, p.RETH.Len, p.RETH.Len
	}
	if info.Headers&ib.HasAtomicETH != 0 {
		r.va, r.rkey, r.args = p.Atomic.VA, p.Atomic.RKey, [2]uint64{p.Atomic.SwapAdd, p.Atomic.Compare}
	}
	if info.Headers&ib.HasFETH != 0 {
		r.args[0] = uint64(p.FETH)
	}
	if info.Headers&ib.HasImmDt != 0 {
		r.imm = p.ImmDt
	}
	if info.Headers&ib.HasIETH != 0 {
		r.inv = p.IETH
	}
	if r.op == ib.RCReadRequest && h.mtu != 0 {
		r.span = h.spanOf(r.dlen)
	}
	r.wrong = wrongAlone(p, info)
	return r
}

// keep remembers a request.
func (h *half) keep(r *rec) {
	most, c := maxRecords, h.f.c
	if c.records >= maxAllRecords {
		most = fewRecords
	}
	for len(h.order) > 0 && len(h.order) >= most {
		delete(h.recs, h.order[0])
		h.order = h.order[1:]
		c.records--
	}
	h.recs[r.psn] = r
	h.order = append(h.order, r.psn)
	c.records++
	if r.op == ib.RCReadRequest {
		h.keepRead(r)
	}
}

func (h *half) keepRead(r *rec) {
	if len(h.reads) >= maxReads {
		h.reads = append(h.reads[:0], h.reads[1:]...)
	}
	h.reads = append(h.reads, r)
}

// again takes a request whose PSN was seen before.
func (f *flow) again(p *pcap.Packet, was, now *rec) {
	reuse := f.reuse(was, p)
	if why := unlike(was, now); why != "" {
		if was.op == ib.RCReadRequest && now.op == ib.RCReadRequest && part(was, now, p) {
			now.full = max(was.full, now.full)
			now.anew = was.anew
			f.half.keepRead(now)
			now.copies = was.copies + 1
			f.half.recs[p.PSN] = now
			f.sentAgain(p, now)
			return
		}
		if was.op == ib.RCReadRequest && now.op == ib.RCReadRequest && was.va == now.va && was.rkey == now.rkey {
			reuse = append(slices.Clip(reuse), f.half.capture()...) // the first may have been a part of this one
		}
		f.c.broke(RuleAgain, p, f.key.src, reuse,
			"the request of packet "+fmt.Sprint(was.frame)+" again, with the same "+why, describe(p))
		if len(reuse) > 0 { // follow the newer one
			now.wrong = ""
		}
		*was = *now
		return
	}
	if p.Opcode.Info().Transport == ib.UC && (f.faithful() || p.Flow.Src.Is4() && p.Ident != was.ident) {
		f.c.broke(RuleUCAgain, p, f.key.src, append(slices.Clip(reuse), ExcuseCapture), "no packet twice", describe(p))
	}
	was.copies++
	was.many = was.many || f.sent() || p.Flow.Src.Is4() && p.Ident != was.ident
	was.lastNs = p.AtNs
	f.sentAgain(p, was)
}

// reuse excuses what contradicts an older packet: another connection with the same numbers, which
// takes a while to set up, and which RDMA-CM would have told.
func (f *flow) reuse(was *rec, p *pcap.Packet) []Excuse {
	const setUpNs = 100e6
	if f.half.fromStart && f.agreed != nil || p.AtNs-was.lastNs < setUpNs {
		return nil
	}
	return []Excuse{ExcuseReuse}
}

// unlike says in what two requests differ that have the same PSN; "" if in nothing that may not
// change.
func unlike(a, b *rec) string {
	switch {
	case a.op != b.op:
		return "operation"
	case a.va != b.va:
		return "address"
	case a.rkey != b.rkey:
		return "key"
	case a.dlen != b.dlen || a.len != b.len:
		return "length"
	case a.imm != b.imm:
		return "immediate data"
	case a.inv != b.inv:
		return "key to invalidate"
	case a.args != b.args:
		return "operands"
	}
	return ""
}

// part reports whether a READ with the PSN of another asks for the beginning of what that one asked
// for at first. One that repeats selectively may ask for any part first, where the capture lacks
// it.
func part(was, now *rec, p *pcap.Packet) bool {
	return was.va == now.va && was.rkey == now.rkey && (now.dlen <= was.full || p.Resv7 == ib.Resv7Selective)
}

// inside takes a request whose PSN is one of a READ that was seen, and reports whether it was that.
func (f *flow) inside(p *pcap.Packet, now *rec) bool {
	h := &f.half
	r := h.reading(p.PSN)
	if r == nil || h.mtu == 0 {
		return false
	}
	off := p.PSN.Diff(r.psn) * h.mtu
	if p.Opcode != ib.RCReadRequest {
		f.c.broke(RuleOverlap, p, f.key.src, f.reuse(r, p),
			fmt.Sprintf("none of the PSNs %d to %d, but for a READ: they are of the READ in packet %d", r.psn,
				r.psn.Add(r.span-1), r.frame), describe(p))
		return false
	}
	if now.va != r.va+uint64(off) || now.rkey != r.rkey || int64(off)+int64(now.dlen) > int64(r.full) {
		f.c.broke(RuleAgain, p, f.key.src, f.reuse(r, p),
			fmt.Sprintf("the rest of the READ in packet %d: address %#x, key %#x, length %d", r.frame,
				r.va+uint64(off), uint32(r.rkey), int64(r.full)-int64(off)), describe(p))
		return true
	}
	now.anew, now.full = true, r.full-uint32(off)
	now.copies = r.copies + 1
	h.keep(now)
	r.lastNs = p.AtNs
	f.sentAgain(p, now)
	return true
}

// follows holds a request against the ones before and behind it.
func (f *flow) follows(p *pcap.Packet, now *rec) {
	h := &f.half
	now.begins, now.known = now.psn, true
	if now.op.Info().Pos&ib.First == 0 {
		now.known = false
	}
	if r := h.recs[p.PSN.Prev()]; r != nil && r.span == 1 {
		if !now.known && r.known {
			now.begins, now.known = r.begins, true
		}
		f.adjacent(p, r, now, now)
	} else if h.fromStart && p.PSN == h.first && !now.known {
		now.wrong = "the first packet of a message"
		f.c.broke(RuleMessageOrder, p, f.key.src, nil, now.wrong, describe(p))
	} else if r := h.inRead(p.PSN.Prev()); r != nil && !now.known && h.slack == 0 && h.mtu != 0 {
		now.wrong = "the first packet of a message"
		f.c.broke(RuleMessageOrder, p, f.key.src, f.reuse(r, p),
			now.wrong+fmt.Sprintf(" behind the READ in packet %d", r.frame), describe(p))
	}
	if r := h.recs[p.PSN.Next()]; r != nil && now.span == 1 {
		f.adjacent(p, now, r, now)
	}
}

// adjacent judges two requests whose PSNs follow each other; now is the one that came last.
func (f *flow) adjacent(p *pcap.Packet, a, b, now *rec) {
	x, y := a.op.Info(), b.op.Info()
	want := ""
	switch {
	case x.Transport != y.Transport:
		want = "one transport"
	case x.Pos&ib.Last != 0 && y.Pos&ib.First == 0:
		want = "the first packet of a message behind " + a.op.String()
	case x.Pos&ib.Last == 0 && (y.Pos&ib.First != 0 || x.Op != y.Op):
		want = "MIDDLE or LAST of the same operation behind " + a.op.String()
	}
	if want == "" || a.wrong != "" {
		return
	}
	older := a
	if now == a {
		older = b
	}
	f.c.broke(RuleMessageOrder, p, f.key.src, f.reuse(older, p), fmt.Sprintf("%s (PSN %d)", want, a.psn),
		fmt.Sprintf("%v, PSN %d", b.op, b.psn))
	b.wrong = want
}

// length holds the payload against the path MTU, and that of a WRITE against its RETH.
func (f *flow) length(p *pcap.Packet, now *rec) {
	h := &f.half
	info := now.op.Info()
	if now.wrong != "" {
		return
	}
	bad := func(want string) {
		now.wrong = want
		f.c.broke(RuleLength, p, f.key.src, f.mtuExcuse(), want, describe(p))
	}
	if h.mtu != 0 && !info.Payload.Admits(now.len, h.mtu) {
		bad(fmt.Sprintf("a payload that fits the path MTU of %d bytes", h.mtu))
		return
	}
	if info.Op != ib.OpWrite || info.Pos&ib.First != 0 || !now.known {
		return
	}
	first := h.recs[now.begins]
	if first == nil || first.op.Info().Op != ib.OpWrite || first.len == 0 {
		return
	}
	left := int64(first.dlen) - int64(now.psn.Diff(first.psn))*int64(first.len)
	switch {
	case info.Pos == ib.Middle && left <= int64(now.len):
		bad(fmt.Sprintf("WRITE LAST: %d bytes are left of the %d in packet %d", max(left, 0), first.dlen, first.frame))
	case info.Pos == ib.Last && left != int64(now.len):
		bad(fmt.Sprintf("%d bytes, which are left of the %d in packet %d", max(left, 0), first.dlen, first.frame))
	}
}

// mtuExcuse is what excuses a length where the path MTU was taken from other packets.
func (f *flow) mtuExcuse() []Excuse {
	if f.agreed != nil {
		return nil
	}
	return []Excuse{ExcuseReuse}
}
