package analyse

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// answer handles a response to the requests of h.
func (h *half) answer(p *pcap.Packet, info *ib.OpcodeInfo, n *Note) {
	h.nAnswers++
	if p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome.Kind() == ib.SyndromeACK {
		h.nACKs++
	}
	h.answeredAt = p.AtNs
	if p.AtNs-h.owedAt > max(owedNs, 4*h.silentGap) {
		h.owed, h.dups = 0, 0
	}
	if !h.begun {
		// The capture begins in the middle: this is the first that is known.
		h.begun, h.first, h.next, h.una = true, p.PSN.Next(), p.PSN.Next(), p.PSN.Next()
		h.noteLast(p)
		return
	}
	if d := p.PSN.Diff(h.next); d > restart || d < -restart {
		return // rdma_rxe acknowledges duplicates of READs with 0xFFFFFF
	}
	switch info.Op {
	case ib.OpReadResponse:
		h.readResponse(p, info, n)
	case ib.OpAtomicAck:
		h.atomicAck(p, n)
	default:
		switch p.AETH.Syndrome.Kind() {
		case ib.SyndromeACK:
			h.ack(p, n)
		case ib.SyndromeRNR:
			h.notReady(p, n)
		case ib.SyndromeNAK:
			h.refused(p, n)
		}
	}
}

// owedNs is how long an answer to a repeated request may take.
const owedNs = 100_000_000

// noteLast remembers an ACK.
func (h *half) noteLast(p *pcap.Packet) {
	h.last = lastAck{true, p.PSN, p.AETH, p.Ident, p.Frame, p.AtNs}
	h.acks[h.nAcks%recentAcks] = ackSeen{p.PSN, p.Frame, p.AtNs}
	h.nAcks++
	if h.nAcks >= 4*recentAcks {
		h.nAcks -= recentAcks
	}
}

// ack handles an ACKNOWLEDGE that is positive.
func (h *half) ack(p *pcap.Packet, n *Note) {
	switch {
	case p.PSN.Diff(h.next) >= 0:
		h.beyond(p)
	case p.PSN.Diff(h.una) < 0:
		h.oldAck(p, n)
		return
	}
	if o := h.ownAt(p.PSN); o != nil && !o.read {
		// FLUSH and ATOMIC WRITE of some responders.
		h.complete(o, p.AtNs)
		n.Operation = o.number
	}
	h.credits(p)
	h.progress(p, p.PSN, n)
	h.noteLast(p)
}

// lacks notes that requests were answered that the capture does not have.
func (h *half) lacks(n int) {
	h.missing += n
	if h.clean {
		h.a.lacking += n
	}
}

// beyond handles an acknowledgement of what the capture does not have.
func (h *half) beyond(p *pcap.Packet) {
	if h.loose != 0 {
		h.tighten(p.PSN.Next())
		if p.PSN.Diff(h.next) < 0 {
			return
		}
	}
	h.lacks(p.PSN.Diff(h.next) + 1)
	h.next = p.PSN.Next()
	h.cur = nil
}

// credits follows end-to-end flow control.
func (h *half) credits(p *pcap.Packet) {
	c := p.AETH.Syndrome.CreditCode()
	switch s := h.starved; {
	case c == 0:
		if s == nil || s.restored != 0 {
			h.starved = &starvation{frame: p.Frame, at: p.AtNs, psn: p.PSN}
		}
	case s != nil && s.restored == 0:
		s.restored, s.restoredAt = p.Frame, p.AtNs
	}
}

// oldAck handles an ACK of what was acknowledged before.
func (h *half) oldAck(p *pcap.Packet, n *Note) {
	defer h.noteAgain(p)
	n.Late = true
	if h.last.valid && p.PSN == h.last.psn && p.AETH.Syndrome != h.last.aeth.Syndrome {
		h.credits(p)
		h.last.aeth = p.AETH
		return // new credits
	}
	if d := h.confirm; d != nil && d.again != 0 && p.PSN == d.psn && !d.ackReq {
		// The responder acknowledges that very packet, which did not ask for it: it is a duplicate
		// there.
		h.onlyLate(d)
	}
	if h.owed > 0 {
		h.owed--
		h.dups = max(h.dups-1, 0)
		h.answerToAgain(p)
		return
	}
	if !h.last.valid || h.nAcks == 0 {
		return
	}
	if p.PSN == h.last.psn && p.AETH == h.last.aeth {
		same := p.Ident != 0 && p.Ident == h.last.ident
		f := h.findBack(DuplicateAck, p.PSN, p.Frame, h.last.frame)
		was := h.last.frame
		this := see(p)
		f.what = func(f *Finding) string {
			return fmt.Sprintf("The acknowledgement of PSN %d in packet %d came once more in packet %d, though no request was sent again here.",
				this.PSN, was, this.Frame)
		}
		if !same {
			f.is(DuplicateAck, DuplicateRequest)
		}
		return
	}
	for i := 1; i <= min(h.nAcks, recentAcks); i++ {
		h.a.steps++
		a := &h.acks[(h.nAcks-i)%recentAcks]
		if a.psn == p.PSN || p.AtNs-a.at > 100*reorderNs {
			return // seen already, or too long ago to tell
		}
	}
	if p.PSN.Diff(h.last.psn) < 0 && p.AETH.MSN != h.last.aeth.MSN && p.AtNs-h.last.at < reorderNs {
		was := h.last.frame
		f := h.findBack(Reordered, p.PSN, p.Frame, was)
		this := see(p)
		f.what = func(*Finding) string {
			return fmt.Sprintf("The acknowledgement of PSN %d in packet %d was overtaken by a later one in packet %d. That does no harm.",
				this.PSN, this.Frame, was)
		}
	}
}

// noteAgain remembers that the last ACK has come again.
func (h *half) noteAgain(p *pcap.Packet) {
	if h.last.valid && p.PSN == h.last.psn {
		h.last.frame, h.last.at, h.last.ident = p.Frame, p.AtNs, p.Ident
	}
}

// Nothing from before the capture is under way once everything seen has been answered several
// times, since a retransmission may come in parts, or this many PSNs after the first.
const (
	cleanAfter = 3
	farIn      = 1024
)

// arrived notes how long what is acknowledged now was: all of it, since one answer may be to a long
// packet and a short one behind it.
func (h *half) arrived(psn ib.PSN) {
	for q, i := h.una, 0; h.maxAcked < h.maxWire && q.Diff(psn) <= 0 && i < maxWindow; q, i = q.Next(), i+1 {
		if r := h.sent.get(q); r != nil {
			h.maxAcked = max(h.maxAcked, r.wire)
		}
	}
}

// progress handles what an answer acknowledges: all requests up to psn.
func (h *half) progress(p *pcap.Packet, psn ib.PSN, n *Note) {
	r := h.sent.get(psn)
	if r != nil {
		if r.times == 1 {
			h.rtt.add(p.AtNs - r.at)
		}
	}
	h.arrived(psn)
	h.resolve(p, psn, r)
	h.settle(p, psn)
	h.passOver(p, psn)
	if psn.Diff(h.una) >= 0 {
		h.una = psn.Next()
		h.sinceGood = h.sinceGood[:0]
		if r != nil && h.una == h.next {
			h.settled++
		}
		h.clean = h.clean || h.settled >= cleanAfter || h.una.Diff(h.first) >= farIn
	}
	k := 0
	for _, o := range h.msgs.ops {
		h.a.steps++
		if o == h.cur || o.end.Diff(h.una) > 0 {
			break
		}
		h.complete(o, p.AtNs)
		n.Operation = o.number
		k++
	}
	h.msgs.ops = h.msgs.ops[k:]
	if len(h.msgs.ops) == 0 {
		h.msgs.ops = nil
	}
	// Gaps that are acknowledged were gaps of the capture.
	if len(h.gaps) > 0 {
		kept := h.gaps[:0]
		for _, g := range h.gaps {
			h.a.steps++
			if g.to.Diff(h.una) > 0 {
				kept = append(kept, g)
				continue
			}
			if g.find == nil && !g.again {
				h.lacks(g.to.Diff(g.from))
			}
		}
		h.gaps = kept
	}
	if h.rnr.valid && h.rnr.psn.Diff(h.una) < 0 {
		h.rnr.valid = false
	}
	if h.nak.valid && h.nak.psn.Diff(h.una) < 0 {
		h.nak.valid = false
	}
}
