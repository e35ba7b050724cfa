package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/goroce/goroce/ib"
)

// nftObject is one of what "nft -j list ruleset" prints (libnftables-json(5)).
type nftObject struct {
	Chain *struct{ Family, Table, Name, Hook, Policy string }
	Set   *struct {
		Family, Table, Name string
		Elem                []any
	}
	Map *struct {
		Family, Table, Name string
		Elem                []any
	}
	Rule *nftRule
}

// nftSets are the elements of named sets and maps.
type nftSets map[string][]any

// nftRule is a rule as nft prints it.
type nftRule struct {
	Family, Table, Chain string
	Handle               int
	Expr                 []map[string]json.RawMessage
}

// nftChains reads "nft -j list ruleset".
func nftChains(text []byte) (list []*chain, err error) {
	var all struct {
		Objects []nftObject `json:"nftables"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("its output is not what is known of it: %w", err)
	}
	byName := map[string]*chain{}
	rules := map[string][]*nftRule{}
	sets := nftSets{}
	for _, o := range all.Objects {
		switch {
		case o.Set != nil:
			sets[o.Set.Family+" "+o.Set.Table+" @"+o.Set.Name] = o.Set.Elem
		case o.Map != nil:
			sets[o.Map.Family+" "+o.Map.Table+" @"+o.Map.Name] = o.Map.Elem
		case o.Chain != nil:
			c := &chain{tool: "nft", family: o.Chain.Family, table: o.Chain.Table, name: o.Chain.Name,
				hook: o.Chain.Hook, drops: o.Chain.Policy == "drop"}
			in := func(v any) any { return sets.resolve(c.family+" "+c.table+" ", v) }
			c.rules = func(f flow) []rule { return nftRules(rules[c.key()], f, in) }
			byName[c.key()] = c
			list = append(list, c)
		case o.Rule != nil:
			k := o.Rule.Family + " " + o.Rule.Table + " " + o.Rule.Chain
			rules[k] = append(rules[k], o.Rule)
		}
	}
	return list, nil
}

// nftRules are the rules of a chain that concern a flow.
func nftRules(list []*nftRule, f flow, in func(any) any) (out []rule) {
	for i, n := range list {
		base := rule{number: i + 1, place: strconv.Itoa(n.Handle)}
		out = append(out, base.read(n.Expr, f, in)...)
	}
	return out
}

// resolve replaces the name of a set by its elements.
func (s nftSets) resolve(table string, v any) any {
	if name, ok := v.(string); ok && len(name) > 0 && name[0] == '@' {
		return s[table+name]
	}
	return v
}

// read takes the conditions and what the rule does, which may be more than one thing. It returns
// nothing if the rule does not concern the flow.
func (r rule) read(expr []map[string]json.RawMessage, f flow, in func(any) any) (out []rule) {
	does := func(v verdict) {
		r.verdict = v
		out = append(out, r)
	}
	for _, e := range expr {
		for word, raw := range e {
			switch word {
			case "accept":
				does(accept)
			case "drop", "reject":
				does(drop)
			case "return":
				does(back)
			case "jump", "goto":
				var to struct{ Target string }
				if json.Unmarshal(raw, &to) == nil {
					r.target = to.Target
					does(map[string]verdict{"jump": jump, "goto": goTo}[word])
				}
			case "notrack":
				does(notrack)
			case "snat", "dnat", "redirect":
				does(nat)
			case "mangle":
				if r.field, r.value = nftChange(raw); r.field != "" {
					does(change)
				}
			case "match":
				if !r.condition(nftMatch(raw, f, in)) {
					return nil
				}
			case "vmap":
				a, v, to := nftVerdictMap(raw, f, in)
				if !r.condition(a) {
					return nil
				}
				r.target = to
				does(v)
			case "xt", "limit", "quota", "lookup":
				r.condition(limits)
			}
		}
	}
	return out
}

// nftChange says which field of a packet a statement writes, and with what; nothing if it writes
// none.
func nftChange(raw json.RawMessage) (field, value string) {
	var m struct {
		Key struct {
			Payload *struct {
				Protocol, Field, Base string
				Offset, Len           int
			}
		}
		Value any
	}
	if json.Unmarshal(raw, &m) != nil || m.Key.Payload == nil {
		return "", ""
	}
	p := m.Key.Payload
	switch {
	case p.Field == "":
		return fmt.Sprintf("%d bits at bit %d of the header (%s)", p.Len, p.Offset, p.Base), ""
	case p.Field == "ecn", p.Field == "dscp", p.Field == "ttl", p.Field == "hoplimit":
		return p.Field, fmt.Sprint(m.Value)
	}
	return p.Protocol + " " + p.Field, ""
}

// nftLeft is what a match looks at.
type nftLeft struct {
	Payload struct{ Protocol, Field string }
	Meta    struct{ Key string }
	CT      struct{ Key string }
}

// nftMatch says what a match is to the packets that matter.
func nftMatch(raw json.RawMessage, f flow, in func(any) any) aspect {
	var m struct {
		Op    string
		Left  nftLeft
		Right any
	}
	if json.Unmarshal(raw, &m) != nil {
		return limits
	}
	a := m.Left.aspect(in(m.Right), f)
	if m.Op == "!=" {
		switch a {
		case onlyLo:
			return limits
		case misses:
			return covers
		case names, covers:
			return misses
		}
	}
	return a
}

// aspect says what it is to the packets that matter that a field has a value.
func (l *nftLeft) aspect(value any, f flow) aspect {
	is := func(yes bool, a aspect) aspect {
		if yes {
			return a
		}
		return misses
	}
	switch {
	case l.Payload.Field == "dport" && (l.Payload.Protocol == "udp" || l.Payload.Protocol == "th"):
		return is(holdsPort(value), names)
	case l.Payload.Protocol == "tcp" || l.Payload.Protocol == "icmp" || l.Payload.Protocol == "icmpv6" ||
		l.Payload.Protocol == "sctp" || l.Payload.Protocol == "arp":
		return misses
	case l.Payload.Protocol == "ip" && f.v6, l.Payload.Protocol == "ip6" && !f.v6:
		return misses
	case l.Meta.Key == "nfproto", l.Meta.Key == "protocol":
		return is(holdsWord(value, map[bool]string{false: "ipv4", true: "ipv6"}[f.v6]) ||
			holdsWord(value, map[bool]string{false: "ip", true: "ip6"}[f.v6]), covers)
	case (l.Meta.Key == "iifname" || l.Meta.Key == "iif" || l.Meta.Key == "oifname" || l.Meta.Key == "oif") &&
		value == "lo":
		return onlyLo
	case l.Meta.Key == "l4proto", l.Payload.Protocol == "ip" && l.Payload.Field == "protocol",
		l.Payload.Protocol == "ip6" && l.Payload.Field == "nexthdr":
		return is(holdsWord(value, "udp") || holdsNumber(value, 17), covers)
	case l.CT.Key == "state":
		return is(holdsWord(value, "new"), covers)
	}
	return limits
}

// nftVerdictMap says what a map of verdicts does to the packets that matter.
func nftVerdictMap(raw json.RawMessage, f flow, in func(any) any) (aspect, verdict, string) {
	var m struct {
		Key  nftLeft
		Data any
	}
	if json.Unmarshal(raw, &m) != nil {
		return limits, none, ""
	}
	data := in(m.Data)
	if set, ok := data.(map[string]any); ok {
		data = set["set"]
	}
	list, _ := data.([]any)
	for _, e := range list {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			continue
		}
		a := m.Key.aspect(pair[0], f)
		if a == misses {
			continue
		}
		word, _ := pair[1].(map[string]any)
		for w, to := range word {
			target, _ := to.(map[string]any)
			name, _ := target["target"].(string)
			switch w {
			case "accept":
				return a, accept, ""
			case "drop":
				return a, drop, ""
			case "return":
				return a, back, ""
			case "jump":
				return a, jump, name
			case "goto":
				return a, goTo, name
			}
		}
		return a, none, ""
	}
	return misses, none, ""
}

// holdsPort looks for the port in a number, a set or a range.
func holdsPort(v any) bool { return holdsNumber(v, ib.UDPPort) }

func holdsNumber(v any, n float64) bool {
	switch v := v.(type) {
	case float64:
		return v == n
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return holdsNumber(v, n) })
	case map[string]any:
		if r, ok := v["range"].([]any); ok && len(r) == 2 {
			lo, _ := r[0].(float64)
			hi, _ := r[1].(float64)
			return lo <= n && n <= hi
		}
		if e, ok := v["elem"].(map[string]any); ok { // with a timeout or a counter
			return holdsNumber(e["val"], n)
		}
		return holdsNumber(v["set"], n)
	}
	return false
}

func holdsWord(v any, word string) bool {
	switch v := v.(type) {
	case string:
		return v == word
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return holdsWord(v, word) })
	case map[string]any:
		return holdsWord(v["set"], word)
	}
	return false
}
