package strict

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// What a requester has to do, or to leave, after an answer. That an answer was seen does not mean
// that it was received: only a Lossless capture makes these certain. And a packet that is seen
// after an answer may have left before: the requester is known to have had the answer when it has
// answered something that came to it later still.

// rnr is an RNR NAK that a requester waits for.
type rnr struct {
	on     bool
	psn    ib.PSN
	frame  int
	atNs   int64
	waitNs int64
	copies int // of the request, when the NAK came
}

// goBack is a request that has to come again before anything new.
type goBack struct {
	on      bool
	implied bool
	psn     ib.PSN
	frame   int
	atNs    int64
}

// tries counts what is sent without an answer.
type tries struct {
	answers   int  // that came the other way
	selective bool // the peer asks for what is missing, between two retries, too
	counts    map[ib.PSN]try
}

type try struct{ since, sent int }

const (
	// mostTries are the first one, 7 retries, and 2 of slack, for a requester that probes, as TCP
	// does, besides its retries.
	mostTries      = 8 + 2
	selectiveTries = 16 // as often, of a pair that repeats selectively
	maxTried       = 4096
)

// credits is what a responder has granted.
type credits struct {
	on    bool
	off   bool   // it grants none
	limit ib.MSN // of the message that may be sent
	frame int    // of the first answer that granted any
	atNs  int64
}

// open are requests that need an answer of their own.
func ownAnswer(op ib.Opcode) bool {
	switch op {
	case ib.RCReadRequest, ib.RCCompareSwap, ib.RCFetchAdd, ib.RCFlush, ib.RCAtomicWrite:
		return true
	}
	return false
}

// counted reports whether a request is one of those whose number RDMA-CM agrees on.
func inDepth(op ib.Opcode) bool {
	return op == ib.RCReadRequest || op == ib.RCCompareSwap || op == ib.RCFetchAdd
}

// faithful reports whether the order of a flow is that in which it was sent.
func (f *flow) faithful() bool { return f.sent() || f.c.opt.Lossless }

// knows reports whether a requester that sends a packet had an answer that was seen before, unless
// that was lost on its way: the capture is the requester's own, or it has answered something that
// came to it later, or it is long ago.
func (h *half) knows(p *pcap.Packet, frame int, atNs int64) bool {
	return h.f.sent() || h.proved > frame || h.f.c.opt.Lossless && p.AtNs-atNs > refusedNs
}

// sentNew takes a request that was not seen before.
func (h *half) sentNew(p *pcap.Packet, r *rec) {
	f := h.f
	if r.op.Info().Transport != ib.RC {
		return
	}
	if h.newest == r {
		h.number(p, r)
	}
	if r.wrong != "" && (!h.acked || r.psn.Diff(h.ackedTo) > 0) {
		h.wrongs = append(h.wrongs, r)
		if len(h.wrongs) > maxWrongs {
			h.wrongs = h.wrongs[1:]
		}
	}
	if ownAnswer(r.op) && (!h.acked || r.psn.Diff(h.ackedTo) > 0) {
		if len(h.open) < maxOpen {
			h.open = append(h.open, r)
		}
		if a := f.agreed; a != nil && a.depth >= 0 && inDepth(r.op) {
			n := 0
			for _, o := range h.open {
				if inDepth(o.op) {
					n++
				}
			}
			if n > a.depth {
				f.c.broke(RuleDepth, p, f.key.src, h.capture(),
					fmt.Sprintf("%d READs and atomics at a time, as REQ and REP say", a.depth),
					fmt.Sprintf("number %d without an answer: %s", n, describe(p)))
			}
		}
	}
	h.count(p)
}

// goesOn judges that a requester sends something new.
func (f *flow) goesOn(p *pcap.Packet, isNew bool) {
	h := &f.half
	if !isNew || p.Opcode.Info().Transport != ib.RC {
		return
	}
	if h.rnr.on && p.PSN.Diff(h.rnr.psn) > 0 && p.AtNs-h.rnr.atNs < h.rnr.waitNs && h.proved > h.rnr.frame {
		f.c.broke(RuleRNRWait, p, f.key.src, []Excuse{ExcuseCapture, ExcuseWay},
			fmt.Sprintf("nothing new for %d us after the RNR NAK of packet %d", h.rnr.waitNs/1000, h.rnr.frame),
			describe(p))
	}
	if h.nak.on && h.proved > h.nak.frame && f.faithful() && !h.selective {
		what := "the sequence NAK"
		if h.nak.implied {
			what = "the gap that shows"
		}
		f.c.broke(RuleGoBack, p, f.key.src, []Excuse{ExcuseCapture, ExcuseWay},
			fmt.Sprintf("PSN %d again, after %s in packet %d", h.nak.psn, what, h.nak.frame), describe(p))
		h.nak.on = false
	}
	f.noRetry(p)
}

// sentAgain judges that a requester sends something again.
func (f *flow) sentAgain(p *pcap.Packet, r *rec) {
	h := &f.half
	if p.Opcode.Info().Transport != ib.RC {
		return
	}
	if h.rnr.on && p.PSN == h.rnr.psn {
		if wait := p.AtNs - h.rnr.atNs; wait < h.rnr.waitNs && h.knows(p, h.rnr.frame, h.rnr.atNs) {
			f.c.broke(RuleRNRWait, p, f.key.src, []Excuse{ExcuseCapture, ExcuseWay},
				fmt.Sprintf("%d us of waiting after the RNR NAK of packet %d", h.rnr.waitNs/1000, h.rnr.frame),
				fmt.Sprintf("it again after %d us: %s", wait/1000, describe(p)))
		}
		h.rnr.on = false
	}
	if h.nak.on && p.PSN.Diff(h.nak.psn) <= 0 {
		if wait := p.AtNs - h.nak.atNs; h.nak.implied && f.faithful() && wait > lateNs && !h.selective {
			f.c.broke(RuleGoBack, p, f.key.src, []Excuse{ExcuseCapture, ExcuseWay, ExcuseUnseen},
				fmt.Sprintf("PSN %d again at once, after the gap that packet %d shows", h.nak.psn, h.nak.frame),
				fmt.Sprintf("it after %d ms: %s", wait/1e6, describe(p)))
		}
		h.nak.on = false
	}
	h.count(p)
	if !h.dups || p.PSN.Diff(h.dupLow) < 0 {
		h.dups, h.dupLow = true, p.PSN
	}
	often := h.often(r)
	if h.acked && r.psn.Add(r.span-1).Diff(h.ackedTo) <= 0 && ownAnswer(r.op) && !often {
		r.silent++
		r.lastFrame = p.Frame
		if len(h.again) < maxOpen {
			h.again = append(h.again, r)
		}
	}
}

// mostAgain is how often a responder has to send a READ again at least, whichever parts of it are
// asked for. No rule has a bound, but a responder without one can be made to send without end, by
// copies of one packet.
const mostAgain = 16

// often counts what is asked for again, and reports whether a responder may pass over that: it was
// too much of one READ.
func (h *half) often(r *rec) bool {
	if r.op != ib.RCReadRequest {
		return false
	}
	whole := h.reading(r.psn)
	if whole == nil {
		whole = r
	}
	whole.repeats += r.span
	return whole.repeats > mostAgain*whole.span
}

// refusedNs is how long after a refusal nothing that was sent before it can still be on its way.
const refusedNs = 1e9

// lateNs is when a repair comes so late that a timer must have run out.
const lateNs = 10e6

// count counts tries.
func (h *half) count(p *pcap.Packet) {
	t := &h.tries
	if t.counts == nil || len(t.counts) >= maxTried {
		t.counts = map[ib.PSN]try{}
	}
	n := t.counts[p.PSN]
	if n.since != t.answers {
		n = try{since: t.answers}
	}
	n.sent++
	t.counts[p.PSN] = n
	most := mostTries
	if t.selective {
		most *= selectiveTries
	}
	if n.sent > most {
		e := h.capture()
		if r := h.recs[p.PSN]; !h.f.sent() && (r == nil || !r.many) {
			e = append(e, ExcuseWay)
		}
		h.f.c.always(RuleTries, p, e, "8 tries without an answer, and then an end",
			fmt.Sprintf("the %dth: %s", n.sent, describe(p)))
	}
}

// noRetry judges what was never answered, nor sent again, though the requester lives.
func (f *flow) noRetry(p *pcap.Packet) {
	h := &f.half
	a := f.agreed
	if a == nil || a.timeoutNs == 0 {
		return
	}
	psn := h.first
	if h.acked {
		psn = h.ackedTo.Next()
	}
	r := h.recs[psn]
	if r == nil || r.copies > 1 {
		h.lateNs = 0
		return
	}
	if p.AtNs-max(r.lastNs, h.answerNs) <= 4*a.timeoutNs {
		h.lateNs = 0
		return
	}
	if h.lateNs == 0 {
		h.lateNs = p.AtNs
		return
	}
	if p.AtNs-h.lateNs > max(4*a.timeoutNs, 1e9) {
		f.c.always(RuleNoRetry, p, h.capture(),
			fmt.Sprintf("PSN %d of packet %d again, or an end: it has no answer for more than 4 ACK timeouts of %d ms",
				r.psn, r.frame, a.timeoutNs/1e6), describe(p))
	}
}

// afterFatal judges that a queue pair sends requests after it has refused one, or was refused one.
func (f *flow) afterFatal(p *pcap.Packet) {
	h := &f.half
	overtaken := !f.sent() && p.PSN.Diff(h.next) < 0 // it may have left before the refusal
	if f.fatalNs >= 0 && !overtaken {
		e := []Excuse{ExcuseCapture}
		if p.AtNs-f.fatalNs > 100e6 && !h.fromStart {
			e = append(e, ExcuseReuse)
		}
		f.c.broke(RuleAfterFatal, p, f.key.src, f.onWay(e),
			"no request: this end has refused one for good", describe(p))
		f.fatalNs = -1
	}
	if h.fatal && !h.fatalTold && f.faithful() && (h.proved > h.fatalBy || p.AtNs-h.fatalNs > refusedNs) {
		f.c.broke(RuleAfterFatal, p, f.key.src, []Excuse{ExcuseCapture, ExcuseWay, ExcuseReuse},
			fmt.Sprintf("no request after the refusal in packet %d", h.fatalBy), describe(p))
		h.fatalTold = true
	}
}
