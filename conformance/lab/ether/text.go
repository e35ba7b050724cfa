package ether

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// RuleText is a rule that was read from text.
type RuleText struct {
	Text string
	*Rule

	matched atomic.Int64
}

// Matched returns how many packets the rule was about, whether it acted or not. A packet that a
// rule before it acted on is not among them.
func (r *RuleText) Matched() int64 { return r.matched.Load() }

// RuleSyntax says how a rule is written.
const RuleSyntax = `a rule is an action, and words NAME=VALUE that choose packets; without any, all RoCE packets:
  drop                     it is lost
  duplicate [copies=1]     it comes more than once
  delay time=5ms           it comes later, as those behind it that the rule is about
  reorder [behind=1]       so many later packets to the same queue pair overtake it; after 20 ms it goes in any case
  corrupt [byte=-5] [xor=1]  a byte of the packet changes (from the BTH's first; negative: from the end of the ICRC), the ICRC does not
  mark-ce                  ECN says congestion experienced, as from a switch
  observe                  nothing: it is counted
choosing:
  from=NAME      came in by this interface
  src=IP dst=IP
  qp=N           the destination queue pair
  psn=N, psn=N-M
  op=NAME,NAME   send, write, read, response, atomic, ack, nak, cnp, flush, ud, cm, or the number of an opcode (0x04)
of those, and the action is on the first one unless one of these says otherwise:
  nth=N times=N  from the Nth on, so many; times=all: all that follow
  share=1%       each with this probability
  every=N        each Nth
Of several rules the first that acts on a packet decides.
`

// operations are what op= knows.
var operations = map[string]func(p *Packet) bool{
	"send": func(p *Packet) bool {
		o, ok := p.connected()
		return ok && (o <= OpSendOnlyImm || o == 0x16 || o == 0x17)
	},
	"write":    func(p *Packet) bool { o, ok := p.connected(); return ok && o >= OpWriteFirst && o <= 0x0b },
	"read":     func(p *Packet) bool { return p.Opcode == OpReadRequest },
	"response": func(p *Packet) bool { return p.Opcode >= OpReadFirst && p.Opcode <= OpReadOnly },
	"atomic": func(p *Packet) bool {
		return p.Opcode == OpCmpSwap || p.Opcode == OpFetchAdd || p.Opcode == OpAtomicAck || p.Opcode == OpAtomicWrite
	},
	"ack":   func(p *Packet) bool { return p.Opcode == OpAcknowledge },
	"nak":   func(p *Packet) bool { s, _ := p.Syndrome(); return p.Opcode == OpAcknowledge && s&0x60 != 0 },
	"cnp":   func(p *Packet) bool { return p.Opcode == OpCNP },
	"flush": func(p *Packet) bool { return p.Opcode == OpFlush },
	"ud":    func(p *Packet) bool { return p.Opcode == OpUDSendOnly || p.Opcode == OpUDSendOnly+1 },
	"cm":    func(p *Packet) bool { return p.QPN == qpnGSI && p.Opcode == OpUDSendOnly },
}

// connected returns the operation of a packet of RC or UC.
func (p *Packet) connected() (uint8, bool) { return p.Opcode & 0x1f, p.Opcode>>5 <= 1 }

// kindWords are the actions that text names.
var kindWords = map[string]Kind{
	"drop": Drop, "duplicate": Duplicate, "delay": Delay, "reorder": Hold, "corrupt": Corrupt,
	"mark-ce": MarkCE, "observe": Observe,
}

// ruleParser collects what the words of a rule say.
type ruleParser struct {
	rule   *Rule
	ports  []string
	rng    *rand.Rand
	choose []func(p *Packet) bool
	pick   func() bool // of those that it is about
	times  bool
	given  map[string]bool
}

// ParseRule reads a rule. from= takes one of ports; what is chosen at random comes from rng.
func ParseRule(text string, ports []string, rng *rand.Rand) (*RuleText, error) {
	fail := func(format string, a ...any) (*RuleText, error) {
		return nil, fmt.Errorf("rule %q: %w", text, fmt.Errorf(format, a...))
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return fail("it is empty")
	}
	kind, ok := kindWords[words[0]]
	if !ok {
		return fail("%q is not one of drop, duplicate, delay, reorder, corrupt, mark-ce, observe", words[0])
	}
	p := &ruleParser{rule: &Rule{Kind: kind, Match: Match{AnyPSN: true}}, ports: ports, rng: rng,
		given: map[string]bool{}}
	if kind == Corrupt {
		p.rule.Offset = -icrcLen - 1
	}
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok || value == "" {
			return fail("%q is not NAME=VALUE", w)
		}
		if p.given[name] {
			return fail("%s is there twice", name)
		}
		p.given[name] = true
		if err := p.word(name, value); err != nil {
			return fail("%w", err)
		}
	}
	switch {
	case kind == Delay && p.rule.MaxHold == 0:
		return fail("delay needs time=, as time=5ms")
	case p.given["share"] && p.given["every"]:
		return fail("share and every do not go together")
	case p.pick != nil && !p.times, kind == Observe && !p.times:
		p.rule.Times = -1
	}
	r := &RuleText{Text: text, Rule: p.rule}
	choose, pick := p.choose, p.pick
	p.rule.Match.Func = func(k *Packet) bool {
		for _, f := range choose {
			if !f(k) {
				return false
			}
		}
		r.matched.Add(1)
		return pick == nil || pick()
	}
	return r, nil
}

// word takes one word of a rule.
func (p *ruleParser) word(name, value string) (err error) {
	number := func(low, high int64) int64 {
		n, e := strconv.ParseInt(value, 0, 64)
		if e != nil || n < low || n > high {
			err = fmt.Errorf("%s=%s: not a number from %d to %d", name, value, low, high)
		}
		return n
	}
	of := func(kinds ...Kind) bool {
		if !slices.Contains(kinds, p.rule.Kind) {
			err = fmt.Errorf("%s= is not for %v", name, p.rule.Kind)
		}
		return err == nil
	}
	m := &p.rule.Match
	const many = 1 << 30
	switch name {
	case "from":
		if !slices.Contains(p.ports, value) {
			return fmt.Errorf("from=%s: it is %s", value, strings.Join(p.ports, " or "))
		}
		m.From = value
	case "src", "dst":
		a, e := netip.ParseAddr(value)
		if e != nil {
			return fmt.Errorf("%s=%s: not an IP address", name, value)
		}
		if name == "src" {
			m.Src = a.Unmap()
		} else {
			m.Dst = a.Unmap()
		}
	case "qp":
		qpn := uint32(number(0, 1<<24-1))
		p.choose = append(p.choose, func(k *Packet) bool { return k.QPN == qpn }) // 0 is one, too
	case "psn":
		return p.psn(value)
	case "op":
		return p.ops(value)
	case "nth":
		p.rule.Nth = int(number(1, many))
	case "times":
		if p.times = true; value == "all" {
			p.rule.Times = -1
		} else {
			p.rule.Times = int(number(1, many))
		}
	case "share":
		f, e := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		if strings.HasSuffix(value, "%") {
			f /= 100
		}
		if e != nil || !(f > 0 && f <= 1) {
			return fmt.Errorf("share=%s: not a share, as 1%% or 0.01", value)
		}
		p.pick = func() bool { return p.rng.Float64() < f }
	case "every":
		every, n := number(1, many), int64(0)
		p.pick = func() bool { n++; return n%every == 0 }
	case "copies":
		if of(Duplicate) {
			p.rule.Copies = int(number(1, 100))
		}
	case "time":
		d, e := time.ParseDuration(value)
		if e != nil || d <= 0 || d > time.Minute {
			return fmt.Errorf("time=%s: not a time up to 1m, as 500us or 5ms", value)
		}
		if of(Delay) {
			p.rule.MaxHold = d
		}
	case "behind":
		if of(Hold) {
			p.rule.Behind = int(number(1, 1<<16))
		}
	case "byte":
		if of(Corrupt) {
			p.rule.Offset = int(number(-9000, 9000))
		}
	case "xor":
		if of(Corrupt) {
			p.rule.XorMask = byte(number(1, 255))
		}
	default:
		return fmt.Errorf("there is no %s=", name)
	}
	return err
}

// psn takes a PSN or a range of them, which may go past the largest.
func (p *ruleParser) psn(value string) error {
	from, to, isRange := strings.Cut(value, "-")
	a, err := strconv.ParseUint(from, 0, 24)
	if err != nil {
		return fmt.Errorf("psn=%s: not a PSN, or two with - between", value)
	}
	b := a
	if isRange {
		if b, err = strconv.ParseUint(to, 0, 24); err != nil {
			return fmt.Errorf("psn=%s: not a PSN, or two with - between", value)
		}
	}
	p.choose = append(p.choose,
		func(k *Packet) bool { return (k.PSN-uint32(a))&0xffffff <= (uint32(b)-uint32(a))&0xffffff })
	return nil
}

func (p *ruleParser) ops(value string) error {
	var any []func(k *Packet) bool
	for w := range strings.SplitSeq(value, ",") {
		f := operations[w]
		if f == nil {
			n, err := strconv.ParseUint(w, 0, 8)
			if err != nil {
				return fmt.Errorf("op=%s: neither the number of an opcode nor one of send, write, read, response, atomic, ack, nak, cnp, flush, ud, cm", w)
			}
			f = func(k *Packet) bool { return k.Opcode == uint8(n) }
		}
		any = append(any, f)
	}
	p.choose = append(p.choose, func(k *Packet) bool {
		return slices.ContainsFunc(any, func(f func(*Packet) bool) bool { return f(k) })
	})
	return nil
}
