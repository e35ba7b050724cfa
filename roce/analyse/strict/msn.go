package strict

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// messages counts the messages of a direction, from the first that was seen as 1. The responder's
// count (MSN) is ahead of this by what came before: an unknown number, which every answer bounds.
// The rule is broken when nothing is left of it.
type messages struct {
	epoch   int // counts how often it began anew, since some were missing
	sent    int
	good    bool // all since the first were seen
	bounded bool
	low     int // bounds of what came before, relative to base
	high    int
	base    ib.MSN
}

// number gives a new request the number of its message.
func (h *half) number(p *pcap.Packet, r *rec) {
	m := &h.messages
	if p.PSN == h.first && m.sent == 0 {
		m.good = true
		if h.fromStart {
			m.bounded = true // base, low and high are 0
		}
	} else if prev := h.before(r); prev == nil || h.numberOf(prev) == 0 {
		*m = messages{epoch: m.epoch + 1}
		if r.op.Info().Pos&ib.First != 0 {
			m.good, m.sent, r.number, r.epoch = true, 1, 1, m.epoch
		}
		return
	}
	if r.op.Info().Pos&ib.First != 0 {
		m.sent++
	}
	r.number, r.epoch = m.sent, m.epoch
	f := h.f
	if c := &h.credits; c.on && !c.off && m.bounded && needsReceive(r.op) && h.knows(p, c.frame, c.atNs) {
		// As if the fewest had come before.
		number := add(m.base, m.low+r.number)
		if number.Diff(c.limit) > 1 {
			f.c.broke(RuleCredits, p, f.key.src, append(h.capture(), ExcuseWay),
				fmt.Sprintf("no message but number %d, one more than the credits allow", c.limit.Next()),
				fmt.Sprintf("number %d: %s", number, describe(p)))
		}
	}
}

// numberOf returns the number of a request's message; 0 if it is not known.
func (h *half) numberOf(r *rec) int {
	if r.epoch != h.messages.epoch {
		return 0
	}
	return r.number
}

// before returns the request with the PSN before another's.
func (h *half) before(r *rec) *rec {
	if x := h.recs[r.psn.Prev()]; x != nil && x.span == 1 {
		return x
	}
	x := h.inRead(r.psn.Prev())
	if x != nil && x.anew {
		if y := h.reading(r.psn.Prev()); y != nil {
			return y
		}
	}
	return x
}

// needsReceive reports whether a message takes a receive.
func needsReceive(op ib.Opcode) bool {
	i := op.Info()
	return i.Op == ib.OpSend && i.Pos&ib.First != 0 ||
		i.Op == ib.OpWrite && i.Pos == ib.Only && i.Headers&ib.HasImmDt != 0
}

// msn judges the message sequence number of an answer.
func (f *flow) msn(p *pcap.Packet, h *half, r *rec) {
	m := &h.messages
	if !m.good || r == nil || r.wrong != "" {
		return
	}
	if y := h.reading(p.PSN); h.numberOf(r) == 0 && y != nil {
		r = y
	}
	if h.numberOf(r) == 0 {
		return
	}
	// Messages that are completed for certain: those before, and, where its last packet is
	// acknowledged, this one.
	through := r.number - 1
	if p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome.Kind() == ib.SyndromeACK &&
		r.op.Info().Pos&ib.Last != 0 && r.op != ib.RCReadRequest {
		through = r.number
	}
	if !m.bounded {
		m.bounded, m.base, m.low, m.high = true, p.AETH.MSN, -m.sent, -through
		return
	}
	at := p.AETH.MSN.Diff(m.base)
	low, high := max(m.low, at-m.sent), min(m.high, at-through)
	if low > high {
		f.c.broke(RuleMSN, p, f.key.src, h.capture(),
			fmt.Sprintf("MSN %d to %d: messages that are acknowledged with it, and that were sent",
				add(m.base, m.low+through), add(m.base, m.high+m.sent)), describe(p))
		return
	}
	m.low, m.high = low, high
}

func add(m ib.MSN, n int) ib.MSN { return ib.MSN(ib.PSN(m).Add(n)) }
