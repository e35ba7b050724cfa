package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// flow is the packets that matter here: UDP to port 4791, of a flow that nothing was sent to
// before, in or out, of one family.
type flow struct{ out, v6 bool }

// aspect is what a condition of a rule says of a flow.
type aspect uint8

const (
	misses aspect = iota // it is not true of it
	covers               // it is true of all of it
	names                // it is, and it names the port
	limits               // it is true of some: an address, an interface, a share, or what is not known
	onlyLo               // it is true of loopback alone
)

type verdict uint8

const (
	none verdict = iota
	accept
	drop
	jump
	goTo
	back    // return
	change  // a field of the packet is written
	nat     // addresses or ports are
	notrack // the connection is not tracked
)

// rule is a rule of a chain, as far as it matters to a flow.
type rule struct {
	place   string // what the tool deletes it by: a handle, or its number
	number  int    // in its chain, from 1
	named   bool   // a condition names the port
	limited bool
	lo      bool // limited to loopback
	verdict verdict
	target  string // of jump and goTo
	field   string // of change: ecn, dscp, or another name
	value   string
}

// condition takes one more condition. It returns false if the rule does not concern the flow.
func (r *rule) condition(a aspect) bool {
	switch a {
	case misses:
		return false
	case names:
		r.named = true
	case limits:
		r.limited = true
	case onlyLo:
		r.limited, r.lo = true, true
	}
	return true
}

// chain is a list of rules. hook is empty for one that is jumped to.
type chain struct {
	tool                      string // nft, iptables, ip6tables, or one of those with -legacy
	family, table, name, hook string
	drops                     bool // what no rule decides
	// rules are those of which a flow can meet the conditions.
	rules func(f flow) []rule
}

func (c *chain) key() string { return c.family + " " + c.table + " " + c.name }

// out reports whether packets that leave this machine pass the hook of a base chain, and ok whether
// any of the machine's own do.
func (c *chain) direction() (out, ok bool) {
	switch strings.ToLower(c.hook) {
	case "input", "prerouting", "ingress":
		return false, true
	case "output", "postrouting", "egress":
		return true, true
	}
	return false, false
}

// families returns those whose packets pass the chain, of those that there are: IPv4, IPv6.
func (c *chain) families(have [2]bool) (v6 []bool) {
	if have[0] && c.family != "ip6" {
		v6 = append(v6, false)
	}
	if have[1] && c.family != "ip" {
		v6 = append(v6, true)
	}
	return v6
}

// where names a chain, and the base chain from which it is reached.
func (c *chain) where(base *chain) string {
	s := fmt.Sprintf("chain %s of table %s %s", c.name, c.family, c.table)
	if c.tool != "nft" {
		s = fmt.Sprintf("chain %s of table %s (%s)", c.name, c.table, c.tool)
	}
	if c != base {
		return s + fmt.Sprintf(", to which %s jumps", base.name)
	}
	if c.tool == "nft" {
		s += ", hook " + c.hook
	}
	return s
}

// letThrough is the command that lets the port through a chain, before all its rules.
func (c *chain) letThrough() string {
	if c.tool == "nft" {
		return fmt.Sprintf("nft insert rule %s %s %s udp dport 4791 accept", c.family, c.table, c.name)
	}
	return fmt.Sprintf("%s -t %s -I %s -p udp --dport 4791 -j ACCEPT", c.tool, c.table, c.name)
}

// remove is the command that removes a rule of the chain.
func (c *chain) remove(r *rule) string {
	if c.tool == "nft" {
		return fmt.Sprintf("nft delete rule %s %s %s handle %s", c.family, c.table, c.name, r.place)
	}
	return fmt.Sprintf("%s -t %s -D %s %s", c.tool, c.table, c.name, r.place)
}

// met is a rule that the flow meets, and where.
type met struct {
	*chain
	rule
}

// walk is what becomes of a flow in a base chain.
type walk struct {
	base   *chain
	chains map[string]*chain
	flow   flow

	end      verdict // accept or drop
	by       *met    // nil: the policy
	some     []met   // rules that drop some of it
	accepts  []met   // rules that accept some of it, but loopback alone
	changes  []met
	untracks bool
	steps    int
}

// maxSteps bounds a walk: rules may jump in circles where a tool prints something else than the
// kernel has.
const maxSteps = 1 << 16

func (w *walk) run() {
	w.chain(w.base, rule{})
	if w.end == none {
		w.end = accept
		if w.base.drops {
			w.end = drop
		}
	}
}

// chain walks through a chain with all of the flow, or with some of it: that for which via is
// limited. It reports whether a rule has decided on all that came.
func (w *walk) chain(c *chain, via rule) (decided bool) {
	for _, r := range c.rules(w.flow) {
		if w.steps++; w.steps > maxSteps {
			return true
		}
		m := met{c, r}
		m.limited, m.lo = r.limited || via.limited, r.lo || via.lo
		switch r.verdict {
		case accept, drop:
			switch {
			case !m.limited:
				w.end, w.by = r.verdict, &m
			case m.lo:
			case r.verdict == drop:
				w.some = append(w.some, m)
			default:
				w.accepts = append(w.accepts, m)
			}
			if !r.limited {
				return true
			}
		case jump, goTo:
			if to := w.chains[c.family+" "+c.table+" "+r.target]; to != nil && w.chain(to, m.rule) && !r.limited {
				return true
			}
			if r.verdict == goTo && !r.limited {
				return false
			}
		case back:
			if !r.limited {
				return false
			}
		case change, nat:
			w.changes = append(w.changes, m)
		case notrack:
			w.untracks = w.untracks || !m.limited
		}
	}
	return false
}

// judge says what the walk found.
func (w *walk) judge() (out []Finding) {
	base := w.base
	way, why := "comes in to", firewallWhy
	if w.flow.out {
		way, why = "goes out to", firewallWhyOut
	}
	f := Finding{Subject: base.tool, Level: Fail, Why: why}
	switch {
	case w.end == drop && w.by != nil:
		what := "all that comes to it"
		if w.by.named {
			what = "UDP port 4791"
		}
		f.Found = fmt.Sprintf("rule %d in %s drops %s", w.by.number, w.by.where(base), what)
		f.Mend = []string{w.by.letThrough()}
	case w.end == drop:
		f.Found = base.where(base) + " drops what no rule accepts, and no rule accepts UDP port 4791"
		f.Mend = []string{base.letThrough()}
	}
	if f.Found != "" {
		switch {
		case slices.ContainsFunc(w.accepts, func(m met) bool { return m.named }):
			f.Level, f.Found = Note,
				f.Found+fmt.Sprintf("; rule %d accepts it for some addresses or interfaces", w.accepts[0].number)
		case len(w.accepts) > 0:
			f.Level, f.Found = Warn,
				f.Found+fmt.Sprintf("; rule %d and the like accept some addresses or interfaces", w.accepts[0].number)
		}
		out = append(out, f)
	} else {
		for _, m := range w.some {
			out = append(out, Finding{
				Subject: base.tool, Level: Warn, Why: why, Mend: []string{m.letThrough()},
				Found: fmt.Sprintf("rule %d in %s drops some of what %s UDP port 4791: for some addresses or interfaces, or by rate or chance",
					m.number, m.where(base), way),
			})
		}
	}
	for _, m := range w.changes {
		out = append(out, m.changed(base)...)
	}
	return out
}

// changed is the finding that a rule writes to packets.
func (m *met) changed(base *chain) []Finding {
	all := "packets"
	if m.limited {
		all = "some packets"
	}
	f := Finding{Subject: base.tool, Level: Fail, Mend: []string{m.remove(&m.rule)},
		Found: fmt.Sprintf("rule %d in %s writes %s of %s of UDP port 4791", m.number, m.where(base), m.field, all)}
	switch {
	case m.verdict == nat:
		if m.limited {
			return nil // of containers and guests, most likely
		}
		f.Found = fmt.Sprintf("rule %d in %s changes addresses or ports of UDP port 4791", m.number, m.where(base))
		f.Why, f.Mend = natWhy, []string{m.letThrough()}
	case m.field == "ecn" && (m.value == "ce" || m.value == "3"):
		f.Level, f.Why = Warn, markWhy
		f.Found = fmt.Sprintf("rule %d in %s sets the mark CE on %s of UDP port 4791", m.number, m.where(base), all)
	case m.field == "ecn":
		f.Level, f.Why = Warn, bleachWhy
	case m.field == "dscp":
		f.Level, f.Why = Note, dscpWhy
	case m.field == "ttl" || m.field == "hoplimit":
		return nil // no ICRC covers it
	default:
		f.Why = "The ICRC covers nearly all of a packet: who checks it drops what was written to."
	}
	return []Finding{f}
}

// Why changes matter: a path may show them, or a rule.
const (
	natWhy    = "The ICRC of RoCE covers addresses and ports: behind a NAT every packet is dropped as corrupt, by cards, rdma_rxe and goroce alike."
	markWhy   = "Congestion control (DCQCN) slows senders down for each mark; where every packet has one they stay at their slowest."
	bleachWhy = "Congestion control (DCQCN) sees no congestion, and only loss slows senders down."
	dscpWhy   = "Switches that give RoCE a priority by DSCP do not find it; PFC then protects nothing."
)
