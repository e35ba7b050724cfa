package analyse

import (
	"fmt"

	"github.com/goroce/goroce/ib"
)

const (
	// vanishes is how often a packet must have been sent, without an answer, for its length to be
	// the reason.
	vanishes = 3
	// headroom is how much longer than what arrived it must be at least: more than headers differ,
	// so that a full packet is not taken for longer than another one.
	headroom = 64
	// shortest is what every path carries.
	shortest = 512
	// cmBytes is the length of a datagram of RDMA-CM, from BTH through ICRC.
	cmBytes = 288
)

// blackhole finds out that only long requests are lost: what was answered last is followed by a
// long one that is sent again and again, and all that arrived is shorter. If the peer was heard
// meanwhile it lives; if it was not it may have died just then, which looks the same.
func (h *half) blackhole() {
	if !h.begun || h.una.Diff(h.next) >= 0 || h.rnr.valid || h.fatal != nil {
		return
	}
	r := h.sent.get(h.una)
	if r == nil {
		h.blackholeBefore()
		return
	}
	small := h.maxAcked
	if small == 0 && h.c.ex != nil && h.c.ends[1].Known {
		small = cmBytes
	}
	if r.times < vanishes || r.opcode.Info().Op == ib.OpRead || small == 0 || r.wire < small+headroom ||
		r.wire < shortest || h.fullBytes() == 0 {
		return
	}
	f := h.find(PMTUBlackhole, r.psn, r.frame, r.last)
	why := h.longOrGone(f, r.at, h.seqNAKs > 0 && h.nak.find != nil && h.nak.psn == r.psn, LostRequest)
	h.explainedBy(f)
	bytes, n := r.wire, int(r.times)
	f.what = func(f *Finding) string {
		return fmt.Sprintf("Packets of up to %d bytes (BTH through ICRC) from %s were answered, and that of %d bytes with PSN %d never was, %s: something on the way drops long packets. %s",
			small, h.requester(), bytes, f.PSN, often(n), why)
	}
}

// longOrGone says what else it may be than the length of a packet that is never answered since some
// time, and why. missed is whether the responder said itself that it misses that packet, and not
// what is behind it.
func (h *half) longOrGone(f *Finding, since int64, missed bool, lost Kind) (why string) {
	peer := h.a.hosts[h.c.ends[1-h.side].Addr]
	switch {
	case missed:
		f.is(PMTUBlackhole, lost)
		return "What is shorter arrives meanwhile."
	case peer != nil && peer.heard > since+2*h.rtt.min:
		f.is(PMTUBlackhole, RetryExceeded, lost)
		return fmt.Sprintf("%s was heard meanwhile (packet %d), so that it lives.", h.responder(), peer.heardFrame)
	}
	f.is(PMTUBlackhole, PeerGone, lost)
	return fmt.Sprintf("%s was not heard since: it may also have stopped just then.", h.responder())
}

// explainedBy takes back the losses since the last answer to something new: another finding says
// why all of them were.
func (h *half) explainedBy(by *Finding) {
	for _, f := range h.sinceGood {
		if f != by && (f.Kind == LostRequest || f.Kind == Reordered) {
			f.gone = true
		}
	}
}

// blackholeBefore is blackhole for a capture behind the place where long packets are dropped: the
// ends of messages come again and again, and never anything in front of them.
func (h *half) blackholeBefore() {
	if h.full || len(h.gaps) == 0 {
		return
	}
	g := &h.gaps[0] // the one that una is in, if there is such a one: those before it are acknowledged
	if g.again || h.una.Diff(g.from) < 0 || h.una.Diff(g.to) >= 0 {
		return
	}
	r := h.sent.get(g.to)
	if r == nil || r.times < manyTimes || r.opcode.Info().Pos&ib.First != 0 {
		return
	}
	f := h.find(PMTUBlackhole, h.una, r.frame, r.last)
	f.is(PMTUBlackhole, LostRequest)
	h.explainedBy(f)
	op, n := r.opcode, int(r.times)
	f.what = func(f *Finding) string {
		return fmt.Sprintf("The %v of %s came %s, and what it sends before it, packets of full size, never did: something on the way here drops long packets.",
			op, h.requester(), often(n))
	}
}

// blackholeBack is blackhole for the responses to READs: one is asked for again and again, and of
// its responses the long ones do not arrive, or not a single one.
func (h *half) blackholeBack() {
	arrived := 0
	for _, o := range h.own.ops {
		h.a.steps++
		if o.op == ib.OpRead && o.done && !o.again {
			arrived = max(arrived, o.longest)
		}
	}
	for i := max(len(h.own.ops)-16, 0); i < len(h.own.ops); i++ {
		h.a.steps++
		o := h.own.ops[i]
		if o.op != ib.OpRead || o.anew+1 < vanishes {
			continue
		}
		long := min(int(o.readLen), h.c.mtu)
		if h.c.mtu == 0 {
			long = int(o.readLen)
		}
		a := h.answers.get(o.first)
		here := a != nil && int(a.times) >= vanishes // it passes here, and is lost behind
		if o.done && !here || !here && a != nil || long < shortest || long < arrived+headroom {
			continue
		}
		f := h.find(PMTUBlackhole, o.first, o.frame, o.askFrame)
		f.QPN = h.c.ends[h.side].QPN
		why := h.longOrGone(f, o.at, here || o.got > 0, LostReadResponse)
		if here {
			why = ""
		}
		if o.lost != nil {
			o.lost.gone = true
		}
		if h.pending != nil && h.pending.op == o {
			h.pending.op = nil
		}
		n := o.asked
		f.what = func(f *Finding) string {
			return fmt.Sprintf("%s asked for the READ of packet %d (%d bytes, PSN %d) %s, and the responses of full size never reached it: something on the way from %s drops long packets. %s",
				h.requester(), o.frame, o.readLen, f.PSN, often(n), h.responder(), why)
		}
		return
	}
}
