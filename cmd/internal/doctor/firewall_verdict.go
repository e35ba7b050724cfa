package doctor

import (
	"slices"
	"strings"
)

// aspect is what a condition of a rule says of the packets that matter here: UDP to port 4791, of a flow that
// nothing was sent to.
type aspect uint8

const (
	misses aspect = iota // it is not true of them
	covers               // it is true of all of them
	names                // it is, and it names the port
	limits               // it is true of some: an address, an interface, or what is not known
)

// rule is a rule of a chain with a verdict.
type rule struct {
	chain   string
	base    bool // packets to this machine pass the chain; others are jumped to
	named   bool // a condition names the port
	limited bool
	verdict verdict
}

type verdict uint8

const (
	none verdict = iota
	accept
	drop
)

// condition takes one more condition. It returns false if the rule does not concern what matters here.
func (r *rule) condition(a aspect) bool {
	switch a {
	case misses:
		return false
	case names:
		r.named = true
	case limits:
		r.limited = true
	}
	return true
}

// portRules is what rules do with what comes to the port.
type portRules struct {
	closed  []string // chains that drop what no rule accepts
	accepts bool     // a rule lets the port in
	drops   []string // chains with a rule that drops the port
	some    []string // chains with a rule that drops the port for some packets
}

func addChain(list []string, chain string) []string {
	if slices.Contains(list, chain) {
		return list
	}
	return append(list, chain)
}

// add counts a rule.
func (r *portRules) add(x rule) {
	switch x.verdict {
	case accept:
		r.accepts = r.accepts || x.named || x.base && !x.limited
	case drop:
		switch {
		case x.named && x.limited:
			r.some = addChain(r.some, x.chain)
		case x.named:
			r.drops = addChain(r.drops, x.chain)
		case x.base && !x.limited:
			r.closed = addChain(r.closed, x.chain)
		}
	}
}

func (r *portRules) finding(tool string) (f Finding, bad bool) {
	f = Finding{Subject: tool, Level: Fail, Why: firewallWhy, Mend: firewallMend}
	switch {
	case len(r.drops) > 0 && !r.accepts:
		f.Found = "a rule in " + strings.Join(r.drops, ", ") + " drops UDP port 4791"
	case len(r.drops) > 0:
		f.Level = Warn
		f.Found = "one rule lets UDP port 4791 in, another one (" + strings.Join(r.drops, ", ") + ") drops it: which comes first depends on the packet"
	case len(r.closed) > 0 && !r.accepts:
		f.Found = strings.Join(r.closed, ", ") + " drops what no rule accepts, and no rule names UDP port 4791"
	case len(r.some) > 0:
		f.Level = Warn
		f.Found = "a rule in " + strings.Join(r.some, ", ") + " drops UDP port 4791 for some addresses or interfaces"
	default:
		return Finding{}, false
	}
	return f, true
}
