package analyse

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// tries counts how often a requester has sent each packet since the last answer to something new:
// RuleTries.
type tries struct {
	most int // 0: not judged
	// selective is set if the peer knows selective repeat, so that what is missing is asked for
	// between two retries, too.
	selective bool
	sent      map[ib.PSN]int
	progress
}

// maxTries bounds the packets that are counted: no window is longer. Report.Unjudged counts those
// without room.
const maxTries = 1 << 15

// maxRepeats is how many probes a requester sends between two retries, at doubling intervals.
const maxRepeats = 16

func (t *tries) request(c *conduct, p *pcap.Packet) {
	if t.most == 0 {
		return
	}
	n, ok := t.sent[p.PSN]
	if !ok && len(t.sent) >= maxTries {
		c.a.unjudged++
		return
	}
	if t.sent == nil {
		t.sent = map[ib.PSN]int{}
	}
	n++
	t.sent[p.PSN] = n
	most := t.most
	if t.selective {
		most *= maxRepeats
	}
	if n > most {
		c.a.breach(RuleTries, p,
			"packet %d: PSN %d was sent %d times without an answer to anything new, want %d at most",
			p.Frame, p.PSN, n, most)
	}
}

// answer takes an answer that has come. An RNR NAK has retries of its own.
func (t *tries) answer(p *pcap.Packet) {
	if t.most == 0 {
		return
	}
	t.selective = t.selective || p.Resv7 == ib.Resv7Selective
	rnr := p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome.Kind() == ib.SyndromeRNR
	if t.progress.answer(p) || rnr {
		clear(t.sent)
	}
}

// targets remembers what requests are for: RuleAgain.
type targets struct {
	last []target // by the low bits of the PSN
}

// target is the memory that a request is for.
type target struct {
	psn    ib.PSN
	opcode ib.Opcode // 0 for none: that is SEND FIRST, which has no address
	va     uint64
	rkey   ib.RKey
}

// keptTargets is how many of the last PSNs are remembered.
const keptTargets = 256

func (t *targets) request(c *conduct, p *pcap.Packet) {
	now := target{psn: p.PSN, opcode: p.Opcode}
	switch h := p.Opcode.Info().Headers; {
	case h&ib.HasRETH != 0:
		now.va, now.rkey = p.RETH.VA, p.RETH.RKey
	case h&ib.HasAtomicETH != 0:
		now.va, now.rkey = p.Atomic.VA, p.Atomic.RKey
	default:
		return
	}
	if t.last == nil {
		t.last = make([]target, keptTargets)
	}
	was := &t.last[int(p.PSN)%keptTargets]
	if was.opcode != now.opcode || was.psn != now.psn {
		*was = now
		return
	}
	if *was != now {
		c.a.breach(RuleAgain, p,
			"packet %d: %v with PSN %d is sent again for address %#x, key %#x, and was for %#x, %#x", p.Frame,
			p.Opcode, p.PSN, now.va, now.rkey, was.va, was.rkey)
	}
}
