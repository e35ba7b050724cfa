package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
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
		// Rules of the older kind, which the tools above do not show where they are those of nf_tables.
		{"iptables-legacy-save", []string{"-t", "filter"}, iptablesRules},
		{"ip6tables-legacy-save", []string{"-t", "filter"}, iptablesRules},
	} {
		text, err := v.Run(v.ctx, fw.name, fw.args...)
		if errors.Is(err, fs.ErrNotExist) {
			if !strings.Contains(fw.name, "legacy") {
				problems = append(problems, fw.name+" is not installed")
			}
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
