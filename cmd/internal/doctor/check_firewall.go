package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
)

const firewallWhy = "RoCE packets of the peer come unasked to UDP port 4791: acknowledgements too, since each side sends from ports of its own. A firewall that only lets answers in stops them."

var firewallMend = []string{
	"nft insert rule inet filter input udp dport 4791 accept",
	"# or: iptables -I INPUT -p udp --dport 4791 -j ACCEPT; ufw allow 4791/udp; firewall-cmd --add-port=4791/udp",
}

// checkFirewall looks for rules that drop what comes to UDP port 4791. It knows nft and iptables, and of
// them rules that name the port and policies, not every way to write a rule.
func checkFirewall(v *view) (out []Finding) {
	read := false
	var problems []string
	for _, fw := range []struct {
		name    string
		args    []string
		verdict func([]byte) (portRules, error)
	}{
		{"nft", []string{"-j", "list", "ruleset"}, nftRules},
		{"iptables-save", []string{"-t", "filter"}, iptablesRules},
		{"ip6tables-save", []string{"-t", "filter"}, iptablesRules},
	} {
		text, err := v.Run(v.ctx, fw.name, fw.args...)
		if errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fw.name+" is not installed")
			continue
		}
		var rules portRules
		if err == nil {
			rules, err = fw.verdict(text)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", fw.name, err))
			continue
		}
		read = true
		if f, bad := rules.finding(fw.name); bad {
			out = append(out, f)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case !read:
		f := Finding{Level: Unknown, Found: "the rules cannot be read: " + strings.Join(problems, "; "), Why: firewallWhy,
			Mend: []string{"roce doctor --serve   # on the other machine, and here: roce doctor OTHER_MACHINE"}}
		if v.User != 0 {
			f.Mend = append([]string{"sudo roce doctor"}, f.Mend...)
		}
		return []Finding{f}
	}
	return []Finding{{Found: "no rule here keeps UDP port 4791 out"}}
}

// portRules is what rules do with what comes to the port.
type portRules struct {
	closed  []string // chains that drop what no rule accepts
	accepts bool     // a rule lets the port in
	drops   []string // chains with a rule that drops the port
}

func (r *portRules) finding(tool string) (f Finding, bad bool) {
	switch {
	case len(r.drops) > 0 && !r.accepts:
		return Finding{Subject: tool, Level: Fail, Found: "a rule in " + strings.Join(r.drops, ", ") + " drops UDP port 4791", Why: firewallWhy, Mend: firewallMend}, true
	case len(r.drops) > 0:
		return Finding{Subject: tool, Level: Warn, Found: "one rule lets UDP port 4791 in, another one (" + strings.Join(r.drops, ", ") + ") drops it: which comes first depends on the packet", Why: firewallWhy, Mend: firewallMend}, true
	case len(r.closed) > 0 && !r.accepts:
		return Finding{Subject: tool, Level: Fail, Found: strings.Join(r.closed, ", ") + " drops what no rule accepts, and no rule names UDP port 4791", Why: firewallWhy, Mend: firewallMend}, true
	}
	return Finding{}, false
}

// nftRules reads "nft -j list ruleset" (libnftables-json(5)).
func nftRules(text []byte) (r portRules, err error) {
	var all struct {
		Objects []struct {
			Chain *struct{ Family, Table, Name, Hook, Policy string }
			Rule  *struct {
				Family, Table, Chain string
				Expr                 []map[string]json.RawMessage
			}
		} `json:"nftables"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return r, fmt.Errorf("its output is not what is known of it: %w", err)
	}
	hooks := map[string]string{} // of base chains; others are jumped to
	for _, o := range all.Objects {
		c := o.Chain
		if c == nil {
			continue
		}
		hooks[c.Family+" "+c.Table+" "+c.Name] = c.Hook
		if entrance(c.Hook) && c.Policy == "drop" {
			r.closed = append(r.closed, "chain "+c.Table+" "+c.Name)
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
		names, conditions, verdict := false, 0, ""
		for _, e := range o.Rule.Expr {
			if m, ok := e["match"]; ok {
				conditions++
				names = names || nftNamesPort(m)
			}
			for _, word := range []string{"accept", "drop", "reject"} {
				if _, ok := e[word]; ok {
					verdict = word
				}
			}
		}
		r.add("chain "+o.Rule.Table+" "+o.Rule.Chain, names, conditions == 0 && entrance(hook), verdict)
	}
	return r, nil
}

// entrance reports whether packets to this machine pass a hook.
func entrance(hook string) bool { return hook == "input" || hook == "prerouting" }

// add counts a rule: does it name the port, or concern all that comes in, and what becomes of that?
func (r *portRules) add(chain string, names, everything bool, verdict string) {
	switch verdict {
	case "accept", "ACCEPT":
		r.accepts = r.accepts || names
	case "drop", "reject", "DROP", "REJECT":
		if names {
			r.drops = append(r.drops, chain)
		} else if everything && !slices.Contains(r.closed, chain) {
			r.closed = append(r.closed, chain)
		}
	}
}

// nftNamesPort reports whether a match is one of UDP port 4791 as destination.
func nftNamesPort(raw json.RawMessage) bool {
	var m struct {
		Op   string
		Left struct {
			Payload struct{ Protocol, Field string }
		}
		Right any
	}
	if json.Unmarshal(raw, &m) != nil || m.Left.Payload.Field != "dport" || m.Op == "!=" {
		return false
	}
	return (m.Left.Payload.Protocol == "udp" || m.Left.Payload.Protocol == "th") && holdsPort(m.Right)
}

// holdsPort looks for the port in a number, a set or a range.
func holdsPort(v any) bool {
	switch v := v.(type) {
	case float64:
		return v == ib.UDPPort
	case []any:
		return slices.ContainsFunc(v, holdsPort)
	case map[string]any:
		if r, ok := v["range"].([]any); ok && len(r) == 2 {
			lo, _ := r[0].(float64)
			hi, _ := r[1].(float64)
			return lo <= ib.UDPPort && ib.UDPPort <= hi
		}
		return holdsPort(v["set"])
	}
	return false
}

// iptablesRules reads "iptables-save -t filter".
func iptablesRules(text []byte) (r portRules, err error) {
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		if len(w) >= 2 && w[0] == ":INPUT" && w[1] == "DROP" {
			r.closed = append(r.closed, "chain INPUT")
		}
		if len(w) < 4 || w[0] != "-A" || w[1] == "OUTPUT" || w[1] == "FORWARD" {
			continue
		}
		names, verdict, conditions := false, "", 0
		for i := 2; i+1 < len(w); i++ {
			switch w[i] {
			case "--dport", "--dports":
				names = names || (w[i-1] != "!" && listsPort(w[i+1]))
			case "-j":
				verdict = w[i+1]
			case "-p", "-s", "-d", "-i", "-m":
				conditions++
			}
		}
		udp := strings.Contains(line, "-p udp")
		r.add("chain "+w[1], names && udp, conditions == 0 && w[1] == "INPUT", verdict)
	}
	return r, nil
}

// listsPort looks for the port in "4791", "1,4791" or "4000:5000".
func listsPort(s string) bool {
	for _, part := range strings.Split(s, ",") {
		from, to, isRange := strings.Cut(part, ":")
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if !isRange {
			hi, err2 = lo, nil
		}
		if err1 == nil && err2 == nil && lo <= ib.UDPPort && ib.UDPPort <= hi {
			return true
		}
	}
	return false
}

// checkConntrack: a table of connections costs every packet time, and drops packets when it is full.
func checkConntrack(v *view) []Finding {
	const dir = "proc/sys/net/netfilter/"
	n, err := v.number(dir + "nf_conntrack_count")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{{Found: "connections are not tracked here"}}
	case err != nil:
		return []Finding{unknown("", "the table of connections", err)}
	}
	limit, err := v.number(dir + "nf_conntrack_max")
	if err != nil {
		return []Finding{unknown("", "the size of the table of connections", err)}
	}
	f := Finding{Found: fmt.Sprintf("%d of %d connections tracked", n, limit)}
	mend := []string{
		"nft add table inet roce",
		"nft add chain inet roce in '{ type filter hook prerouting priority raw; }'",
		"nft add chain inet roce out '{ type filter hook output priority raw; }'",
		"nft add rule inet roce in udp dport 4791 notrack",
		"nft add rule inet roce out udp dport 4791 notrack",
	}
	switch {
	case limit > 0 && n >= limit:
		f.Level, f.Why, f.Mend = Fail, "The table is full: packets of new flows are dropped, and a device has a flow for each of its source ports and peers.", mend
	case limit > 0 && n >= limit/10*9:
		f.Level, f.Why, f.Mend = Warn, "When the table is full packets of new flows are dropped.", mend
	case n > 0:
		f.Level, f.Why, f.Mend = Note, "Each packet is looked up in the table, which RoCE has no use for.", mend
	default:
		f.Found = "no connection is tracked here"
	}
	return []Finding{f}
}
