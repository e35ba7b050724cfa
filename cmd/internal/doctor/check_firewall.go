package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

const (
	firewallWhy    = "RoCE packets of the peer come unasked to UDP port 4791: acknowledgements too, since each side sends from ports of its own. A firewall that only lets answers in stops them."
	firewallWhyOut = "All RoCE packets go to UDP port 4791 of the peer, acknowledgements too."
)

// firewallTools print the rules of this network namespace.
var firewallTools = []struct {
	name string
	args []string
	read func([]byte) ([]*chain, error)
}{
	{"nft", []string{"-j", "list", "ruleset"}, nftChains},
	{"iptables-save", nil, savedBy("iptables")},
	{"ip6tables-save", nil, savedBy("ip6tables")},
	// Rules of the older kind, which the tools above do not show where they are those of nf_tables.
	{"iptables-legacy-save", nil, savedBy("iptables-legacy")},
	{"ip6tables-legacy-save", nil, savedBy("ip6tables-legacy")},
}

func savedBy(tool string) func([]byte) ([]*chain, error) {
	return func(text []byte) ([]*chain, error) { return iptablesChains(tool, text) }
}

// firewall is all the rules that could be read.
type firewall struct {
	chains   []*chain
	read     bool
	problems []string
}

// rules reads the rules of all tools.
func (v *view) rules() (f firewall) {
	compat := map[string]bool{} // tables of nf_tables that iptables made: that tool shows more of them
	for _, fw := range firewallTools {
		text, err := v.Run(v.ctx, fw.name, fw.args...)
		if errors.Is(err, fs.ErrNotExist) {
			if !strings.Contains(fw.name, "legacy") {
				f.problems = append(f.problems, fw.name+" is not installed")
			}
			continue
		}
		var chains []*chain
		if err == nil {
			chains, err = fw.read(text)
		}
		if err != nil {
			f.problems = append(f.problems, fmt.Sprintf("%s: %v", fw.name, err))
			continue
		}
		f.read = true
		f.chains = append(f.chains, chains...)
		if bytes.Contains(text, []byte("(nf_tables)")) {
			for _, c := range chains {
				compat[c.family+" "+c.table] = true
			}
		}
	}
	f.chains = slices.DeleteFunc(f.chains,
		func(c *chain) bool { return c.tool == "nft" && compat[c.family+" "+c.table] })
	return f
}

// walks follows RoCE through all base chains, in the families that this machine has.
func (v *view) walks(f *firewall) (all []*walk) {
	var have [2]bool
	for _, a := range v.addrs() {
		have[0], have[1] = have[0] || a.Is4(), have[1] || a.Is6()
	}
	if have == [2]bool{} {
		have = [2]bool{true, true}
	}
	byTool := map[string]map[string]*chain{}
	for _, c := range f.chains {
		if byTool[c.tool] == nil {
			byTool[c.tool] = map[string]*chain{}
		}
		byTool[c.tool][c.key()] = c
	}
	for _, c := range f.chains {
		out, ok := c.direction()
		if !ok {
			continue
		}
		for _, v6 := range c.families(have) {
			w := &walk{base: c, chains: byTool[c.tool], flow: flow{out, v6}}
			w.run()
			all = append(all, w)
		}
	}
	return all
}

// checkFirewall looks for rules that drop or change packets to UDP port 4791, in and out. It knows
// nft and iptables, and follows their chains; a condition that it does not know counts as true of
// some packets.
func checkFirewall(v *view) (out []Finding) {
	fw := v.rules()
	for _, w := range v.walks(&fw) {
		for _, f := range w.judge() {
			// A chain of both families is walked twice.
			if !slices.ContainsFunc(out, func(g Finding) bool { return g.Subject == f.Subject && g.Found == f.Found }) {
				out = append(out, f)
			}
		}
	}
	switch {
	case len(out) > 0:
		return out
	case !fw.read:
		f := Finding{Level: Unknown, Found: "the rules cannot be read: " + strings.Join(fw.problems, "; "),
			Why:  firewallWhy,
			Mend: []string{"roce doctor --serve   # on the other machine, and here: roce doctor OTHER_MACHINE"}}
		if v.User != 0 {
			f.Mend = append([]string{"sudo roce doctor"}, f.Mend...)
		}
		return []Finding{f}
	}
	return []Finding{{Found: "no rule here keeps UDP port 4791 out, or in"}}
}

// untracked reports whether rules keep RoCE out of the table of connections, both ways.
func (v *view) untracked() bool {
	fw := v.rules()
	var ways [2]bool
	for _, w := range v.walks(&fw) {
		if w.untracks {
			ways[map[bool]int{true: 1}[w.flow.out]] = true
		}
	}
	return ways[0] && ways[1]
}

// checkConntrack: a table of connections costs every packet time, and drops packets when it is
// full.
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
	case n > 0 && v.untracked():
		f.Found += ", none of RoCE"
	case limit > 0 && n >= limit:
		f.Level, f.Why, f.Mend = Fail,
			"The table is full: packets of new flows are dropped, and a device has a flow for each of its source ports and peers.", mend
	case limit > 0 && n >= limit/10*9:
		f.Level, f.Why, f.Mend = Warn, "When the table is full packets of new flows are dropped.", mend
	case n > 0:
		f.Level, f.Why, f.Mend = Note, "Each packet is looked up in the table, which RoCE has no use for.", mend
	default:
		f.Found = "no connection is tracked here"
	}
	return []Finding{f}
}
