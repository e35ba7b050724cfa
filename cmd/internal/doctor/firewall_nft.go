package doctor

import (
	"encoding/json"
	"fmt"
	"slices"

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
	Rule *struct {
		Family, Table, Chain string
		Expr                 []map[string]json.RawMessage
	}
}

// nftSets are the elements of named sets and maps.
type nftSets map[string][]any

// nftRules reads "nft -j list ruleset".
func nftRules(text []byte) (r portRules, err error) {
	var all struct {
		Objects []nftObject `json:"nftables"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return r, fmt.Errorf("its output is not what is known of it: %w", err)
	}
	hooks := map[string]string{} // of base chains; others are jumped to
	sets := nftSets{}
	for _, o := range all.Objects {
		switch {
		case o.Set != nil:
			sets[o.Set.Family+" "+o.Set.Table+" @"+o.Set.Name] = o.Set.Elem
		case o.Map != nil:
			sets[o.Map.Family+" "+o.Map.Table+" @"+o.Map.Name] = o.Map.Elem
		case o.Chain != nil:
			c := o.Chain
			hooks[c.Family+" "+c.Table+" "+c.Name] = c.Hook
			if entrance(c.Hook) && c.Policy == "drop" {
				r.closed = addChain(r.closed, "chain "+c.Table+" "+c.Name)
			}
		}
	}
	for _, o := range all.Objects {
		if o.Rule == nil {
			continue
		}
		hook := hooks[o.Rule.Family+" "+o.Rule.Table+" "+o.Rule.Chain]
		if hook != "" && !entrance(hook) {
			continue
		}
		x := rule{chain: "chain " + o.Rule.Table + " " + o.Rule.Chain, base: hook != ""}
		in := func(v any) any { return sets.resolve(o.Rule.Family+" "+o.Rule.Table+" ", v) }
		if x.read(o.Rule.Expr, in) {
			r.add(x)
		}
	}
	return r, nil
}

// entrance reports whether packets to this machine pass a hook.
func entrance(hook string) bool { return hook == "input" || hook == "prerouting" || hook == "ingress" }

// resolve replaces the name of a set by its elements.
func (s nftSets) resolve(table string, v any) any {
	if name, ok := v.(string); ok && len(name) > 0 && name[0] == '@' {
		return s[table+name]
	}
	return v
}

// read takes the conditions and the verdict of a rule. It returns false if the rule is not about what matters here.
func (x *rule) read(expr []map[string]json.RawMessage, in func(any) any) bool {
	for _, e := range expr {
		for word, raw := range e {
			switch word {
			case "accept":
				x.verdict = accept
			case "drop", "reject":
				x.verdict = drop
			case "match":
				if !x.condition(nftMatch(raw, in)) {
					return false
				}
			case "vmap":
				a, v := nftVerdictMap(raw, in)
				if !x.condition(a) {
					return false
				}
				x.verdict = v
			case "xt", "limit", "quota", "lookup":
				x.condition(limits)
			}
		}
	}
	return true
}

// nftLeft is what a match looks at.
type nftLeft struct {
	Payload struct{ Protocol, Field string }
	Meta    struct{ Key string }
	CT      struct{ Key string }
}

// nftMatch says what a match is to the packets that matter.
func nftMatch(raw json.RawMessage, in func(any) any) aspect {
	var m struct {
		Op    string
		Left  nftLeft
		Right any
	}
	if json.Unmarshal(raw, &m) != nil {
		return limits
	}
	a := m.Left.aspect(in(m.Right))
	if m.Op == "!=" {
		switch a {
		case misses:
			return covers
		case names, covers:
			return misses
		}
	}
	return a
}

// aspect says what it is to the packets that matter that a field has a value.
func (l *nftLeft) aspect(value any) aspect {
	is := func(yes bool, a aspect) aspect {
		if yes {
			return a
		}
		return misses
	}
	switch {
	case l.Payload.Field == "dport" && (l.Payload.Protocol == "udp" || l.Payload.Protocol == "th"):
		return is(holdsPort(value), names)
	case l.Payload.Protocol == "tcp" || l.Payload.Protocol == "icmp" || l.Payload.Protocol == "icmpv6" || l.Payload.Protocol == "sctp" || l.Payload.Protocol == "arp":
		return misses
	case l.Meta.Key == "l4proto", l.Payload.Protocol == "ip" && l.Payload.Field == "protocol", l.Payload.Protocol == "ip6" && l.Payload.Field == "nexthdr":
		return is(holdsWord(value, "udp") || holdsNumber(value, 17), covers)
	case l.CT.Key == "state":
		return is(holdsWord(value, "new"), covers)
	}
	return limits
}

// nftVerdictMap says what a map of verdicts does to the packets that matter.
func nftVerdictMap(raw json.RawMessage, in func(any) any) (aspect, verdict) {
	var m struct {
		Key  nftLeft
		Data any
	}
	if json.Unmarshal(raw, &m) != nil {
		return limits, none
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
		a := m.Key.aspect(pair[0])
		if a == misses {
			continue
		}
		word, _ := pair[1].(map[string]any)
		for w := range word {
			switch w {
			case "accept":
				return a, accept
			case "drop":
				return a, drop
			}
		}
		return a, none
	}
	return misses, none
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
