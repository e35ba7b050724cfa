package analyse

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// Conduct asks for [Report.Breaches]: behaviour that a correct requester or responder of RC never
// shows. The capture must have been taken at the host that is judged; otherwise the host is judged
// for losses elsewhere. It must contain all packets of the connections in it.
type Conduct struct {
	// Connections are connections known from before the capture. Others are judged from their first
	// packet on.
	Connections []Known
	// Losses are packets that are known to have been lost: see [Report.Repairs].
	Losses []Loss
	// NAKPauseNs is the minimum time between sequence NAKs for one gap, if the responder keeps one.
	// One more is right each time a packet behind the gap comes again with more than 3 behind it
	// since: the requester has gone back.
	NAKPauseNs int64
}

// Known is a connection of RC that is known before its first packet.
type Known struct {
	Ends [2]Endpoint
	// FirstPSN is the first PSN of the requests of each end.
	FirstPSN [2]ib.PSN
	MTU      int
	// Tries is how often each end may send a request while nothing new is answered: once, plus its
	// retries and probes. 0 means without limit.
	Tries [2]int
}

// Rule names the rule that a Breach breaks.
type Rule string

// The rules.
const (
	// RuleICRC: what a host sends has a correct ICRC and is well-formed.
	RuleICRC Rule = "icrc"
	// RuleInOrder: a requester sends the next PSN, or goes back to one that it has sent.
	RuleInOrder Rule = "in-order"
	// RuleNAK: a sequence NAK names the PSN that was missing when a later packet came.
	RuleNAK Rule = "nak"
	// RuleNAKPause: a responder that waits before it repeats a NAK does wait.
	RuleNAKPause Rule = "nak-pause"
	// RuleACKForward: positive acknowledgements do not go backwards.
	RuleACKForward Rule = "ack-forward"
	// RuleACKSent: a responder acknowledges only what has arrived.
	RuleACKSent Rule = "ack-sent"
	// RuleTries: a requester gives up when its retries have run out.
	RuleTries Rule = "tries"
	// RuleAgain: a repeated request addresses the same memory.
	RuleAgain Rule = "again"
	// RuleCNP: a CNP has BECN set, and only zeros after its BTH.
	RuleCNP Rule = "cnp"
)

// Breach is a packet that breaks a rule.
type Breach struct {
	Rule  Rule   `json:"rule"`
	Frame int    `json:"frame"`
	Text  string `json:"text"`
}

// maxBreaches bounds Report.Breaches.
const maxBreaches = 1000

// conduct follows the requests that one end sends, or receives, and its answers.
type conduct struct {
	a        *Analyser
	h        *half
	known    bool // from Conduct.Connections
	begun    bool
	next     ib.PSN // one past the highest request
	expected ib.PSN // the first that has not come
	answered bool
	lastAck  ib.PSN
	ahead    map[ib.PSN]ib.PSN // requests behind what is expected that have come, and where they end
	gaps     map[ib.PSN]*openGap
	tries    tries
	targets  targets
}

// openGap is a PSN that is missing.
type openGap struct {
	at   int64 // when the first packet behind it came
	naks int
	anew int    // how often packets behind it have begun anew
	far  ib.PSN // the highest since
}

// overtaking is how many packets may come before one that was sent earlier and is not sent again.
const overtaking = 3

// maxOpenGaps bounds the gaps that Conduct tracks.
const maxOpenGaps = 4096

func (c *conduct) starts(psn ib.PSN) { c.begun, c.next, c.expected = true, psn, psn }

// know makes the connections that are known.
func (a *Analyser) know(known []Known) {
	for _, k := range known {
		p := pcap.Packet{}
		p.Flow.Src, p.Flow.Dst, p.DestQP = k.Ends[0].Addr, k.Ends[1].Addr, k.Ends[1].QPN
		c := a.newConn(&p, ib.RC)
		if c == nil {
			return
		}
		c.ends, c.mtu = k.Ends, k.MTU
		for i := range c.ends {
			c.ends[i].Known = true
			a.flows[flowKey{c.ends[i].Addr, c.ends[1-i].Addr, c.ends[1-i].QPN}] = flow{c, i}
			c.way[i].starts(k.FirstPSN[i])
			if q := c.way[i].conduct; q != nil {
				q.starts(k.FirstPSN[i])
				q.known = true
				q.tries.most = k.Tries[i]
			}
		}
	}
}

func (a *Analyser) breach(r Rule, p *pcap.Packet, format string, args ...any) {
	if len(a.breaches) >= maxBreaches {
		a.moreBreaches++
		return
	}
	a.breaches = append(a.breaches, Breach{r, p.Frame, fmt.Sprintf(format, args...)})
}

// judgeSent judges a packet by itself.
func (a *Analyser) judgeSent(p *pcap.Packet) {
	if a.opt.Conduct == nil || p.Dir != pcap.Out || p.ICMP != nil {
		return
	}
	switch {
	case p.Problem != "":
		a.breach(RuleICRC, p, "packet %d: %s", p.Frame, p.Problem)
	case p.ICRC == pcap.ICRCWrong:
		a.breach(RuleICRC, p, "packet %d has a wrong ICRC: %v, PSN %d", p.Frame, p.Opcode, p.PSN)
	case p.Opcode == ib.CNP:
		a.judgeCNP(p)
	}
}

// judgeCNP holds a CNP against IBTA A17.9.3.
func (a *Analyser) judgeCNP(p *pcap.Packet) {
	switch {
	case !p.BECN:
		a.breach(RuleCNP, p, "packet %d is a CNP without BECN", p.Frame)
	case p.CNPReserved != [ib.CNPReservedBytes]byte{} || p.PayloadBytes != 0:
		a.breach(RuleCNP, p, "packet %d is a CNP with more than %d zeros behind the BTH: %x, and %d bytes",
			p.Frame, ib.CNPReservedBytes, p.CNPReserved, p.PayloadBytes)
	}
}

// request judges a request that this end sends, or takes one that has come.
func (c *conduct) request(p *pcap.Packet) {
	if p.Dir != pcap.Out && p.ICRC == pcap.ICRCWrong {
		return // it is as if it had not come
	}
	if p.Dir == pcap.Out {
		c.tries.request(c, p)
		c.targets.request(c, p)
	}
	if d := p.PSN.Diff(c.next); !c.begun || !c.known && (d > restart || d < -restart) {
		c.starts(p.PSN)
	}
	span := c.h.span(p)
	if span == 0 {
		c.begun = false // a READ of a connection whose path MTU is not known: nor is what follows
		return
	}
	end := p.PSN.Add(span)
	if p.Dir == pcap.Out && p.PSN.Diff(c.next) > 0 {
		c.a.breach(RuleInOrder, p, "packet %d: the requester skipped from PSN %d to %d (%v)", p.Frame, c.next,
			p.PSN, p.Opcode)
	}
	if end.Diff(c.next) > 0 {
		c.next = end
	}
	switch d := p.PSN.Diff(c.expected); {
	case d == 0:
		if whole, again := c.ahead[p.PSN]; again && whole.Diff(end) > 0 {
			end = whole // a READ that is asked for again in part
		}
		c.expected = end
	case d > 0 && c.gaps[c.expected] == nil:
		if c.gaps == nil || len(c.gaps) >= maxOpenGaps {
			c.gaps = map[ib.PSN]*openGap{}
		}
		c.gaps[c.expected] = &openGap{at: p.AtNs, far: p.PSN}
	case d > 0:
		g := c.gaps[c.expected]
		if _, again := c.ahead[p.PSN]; again && g.far.Diff(p.PSN) > overtaking {
			g.anew, g.far = g.anew+1, p.PSN
		} else if g.far.Before(p.PSN) {
			g.far = p.PSN
		}
	}
	if p.PSN.Diff(c.expected) > 0 {
		if c.ahead == nil || len(c.ahead) >= maxOpenGaps {
			c.ahead = map[ib.PSN]ib.PSN{}
		}
		if whole, again := c.ahead[p.PSN]; !again || end.Diff(whole) > 0 {
			c.ahead[p.PSN] = end // a READ that is asked for again in part ends where it did
		}
	}
}

// executed takes from an answer that a responder has gone on to a PSN: one that keeps what comes
// before its turn, where all has come up to there.
func (c *conduct) executed(p *pcap.Packet, to ib.PSN) {
	from := c.expected
	for from.Diff(to) < 0 {
		end, ok := c.ahead[from]
		if !ok {
			return
		}
		from = end
	}
	if to.Diff(c.expected) <= 0 {
		return
	}
	c.expected = to
	if c.next.Diff(to) > 0 && c.gaps[to] == nil && c.gaps != nil {
		c.gaps[to] = &openGap{at: p.AtNs, far: c.next.Prev()}
	}
}

// answer judges an answer that this end sends, or takes one that has come.
func (c *conduct) answer(p *pcap.Packet, info *ib.OpcodeInfo) {
	if p.Dir == pcap.In && p.ICRC != pcap.ICRCWrong {
		c.tries.answer(p)
	}
	if p.Dir != pcap.Out || !c.begun || info.Headers&ib.HasAETH == 0 {
		return
	}
	syn := p.AETH.Syndrome
	switch {
	case syn == ib.NAKSequence:
		c.executed(p, p.PSN)
		g := c.gaps[p.PSN]
		if g == nil {
			c.a.breach(RuleNAK, p, "packet %d is a NAK for PSN %d, which was not the first missing one", p.Frame, p.PSN)
			return
		}
		// However late the responder comes to run, a NAK is not seen before it is sent.
		g.naks++
		if wait := p.AtNs - g.at; wait < int64(g.naks-1-g.anew)*c.a.opt.Conduct.NAKPauseNs && p.PayloadBytes == 0 {
			c.a.breach(RuleNAKPause, p, "packet %d is NAK number %d of the gap at PSN %d, %d us after that was seen",
				p.Frame, g.naks, p.PSN, wait/1000)
		}
	case syn.Kind() == ib.SyndromeACK && p.Opcode == ib.RCAcknowledge:
		if c.answered && p.PSN.Diff(c.lastAck) < 0 {
			c.a.breach(RuleACKForward, p, "packet %d: the ACK went back from PSN %d to %d", p.Frame, c.lastAck, p.PSN)
		}
		c.executed(p, p.PSN.Next())
		if p.PSN.Diff(c.next) >= 0 {
			c.a.breach(RuleACKSent, p, "packet %d acknowledges PSN %d, which has not come: the next one is %d",
				p.Frame, p.PSN, c.next)
		}
		c.answered, c.lastAck = true, p.PSN
	}
}
