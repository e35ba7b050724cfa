package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
)

// route is a line of "ip -o route show table all".
type route struct {
	v6    bool
	words []string
}

// option returns the word behind another one.
func (r *route) option(name string) string {
	if i := slices.Index(r.words, name); i >= 0 && i+1 < len(r.words) {
		return r.words[i+1]
	}
	return ""
}

// mtu returns the MTU of the route; 0 if it has none of its own.
func (r *route) mtu() int {
	s := r.option("mtu")
	if s == "lock" {
		s = r.words[slices.Index(r.words, "lock")+1]
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

func (r *route) ip() string {
	if r.v6 {
		return "ip -6"
	}
	return "ip"
}

// shown are words that ip prints and does not take.
var shown = []string{"linkdown", "dead", "offload", "rt_offload", "trap", "rt_trap", "rt_offload_failed",
	"pervasive", "notify", "unresolved", `\`}

// withoutMTU is the command that takes the MTU from the route.
func (r *route) withoutMTU() string {
	var keep []string
	for i := 0; i < len(r.words); i++ {
		switch w := r.words[i]; {
		case w == "mtu":
			if i++; i < len(r.words) && r.words[i] == "lock" {
				i++
			}
		case w == "expires", w == "error":
			i++
		case !slices.Contains(shown, w):
			keep = append(keep, w)
		}
	}
	return r.ip() + " route change " + strings.Join(keep, " ")
}

// routes reads the routes of all tables. fs.ErrNotExist: there is no ip.
func (v *view) routes() (all []route, err error) {
	for _, family := range []string{"-4", "-6"} {
		text, err := v.Run(v.ctx, "ip", "-o", family, "route", "show", "table", "all")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			all = append(all, route{family == "-6", strings.Fields(line)})
		}
	}
	return all, nil
}

// narrowRoutes: a route may have an MTU below that of its interface, and packets that are longer do
// not leave.
func (v *view) narrowRoutes(f *Interface) (out []Finding) {
	own, ok := ib.MTUForInterface(f.MTU)
	all, err := v.routes()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{{Subject: f.Name, Level: Unknown,
			Found: "whether a route has an MTU of its own is not known: ip (of iproute2) is not installed"}}
	case err != nil:
		return []Finding{unknown(f.Name, "the routes", err)}
	case !ok:
		return nil
	}
	for i := range all {
		r := &all[i]
		n := r.mtu()
		if n == 0 || r.option("dev") != f.Name {
			continue
		}
		if m, _ := ib.MTUForInterface(n); m < own {
			out = append(out, Finding{Subject: f.Name, Level: Fail,
				Found: fmt.Sprintf("the route %s has MTU %d, %s", routeName(r), n, carries(n)),
				Why:   fmt.Sprintf("The interface carries path MTU %d, and so devices take that; packets that are longer than the route's MTU do not leave.", own.Bytes()),
				Mend:  []string{r.withoutMTU()}})
		}
	}
	return out
}

// routeName names a route by what its line begins with.
func routeName(r *route) string {
	n := min(len(r.words), 1)
	if n == 1 && !strings.ContainsAny(r.words[0], ".:") && r.words[0] != "default" {
		n = min(len(r.words), 2) // "local 10.0.0.1"
	}
	return strings.Join(r.words[:n], " ")
}

// carries says which path MTU so many bytes carry.
func carries(n int) string {
	if m, ok := ib.MTUForInterface(n); ok {
		return fmt.Sprintf("which carries path MTU %d", m.Bytes())
	}
	return "which carries no path MTU"
}

// checkRPFilter: with a strict filter the kernel drops what does not come in by the interface that
// it would answer by.
func checkRPFilter(v *view) (out []Finding) {
	const dir = "proc/sys/net/ipv4/conf/"
	const why = "The kernel drops packets that come in by another interface than the one by which it would answer. " +
		"Two interfaces in one network, as with two ports of a card, are that case: it answers by the first."
	all, err := v.number(dir + "all/rp_filter")
	if errors.Is(err, fs.ErrNotExist) {
		return []Finding{{Found: "this kernel has none"}}
	}
	if err != nil {
		return []Finding{unknown("", "the filter", err)}
	}
	everyone, err := v.Interfaces()
	if err != nil {
		return []Finding{unknown("", "the interfaces", err)}
	}
	dropped := v.netstat("IPReversePathFilter")
	strict, bad := 0, false
	for i := range v.ifaces {
		f := &v.ifaces[i]
		if f.Loopback || !slices.ContainsFunc(f.Addrs, netip.Addr.Is4) {
			continue
		}
		own, err := v.number(dir + f.Name + "/rp_filter")
		if err != nil {
			out, bad = append(out, unknown(f.Name, "the filter", err)), true
			continue
		}
		if max(all, own) != 1 {
			continue
		}
		strict++
		mend := []string{"sysctl -w net.ipv4.conf." + strings.ReplaceAll(f.Name, ".", "/") + ".rp_filter=2"}
		for j := range everyone {
			if o := &everyone[j]; o.Index != f.Index && o.Up && !o.Loopback {
				if p, ok := shared(f, o); ok {
					out, bad = append(out, Finding{Subject: f.Name, Level: Fail, Why: why, Mend: mend,
						Found: fmt.Sprintf("rp_filter is strict, and %s has addresses of the same network %v",
							o.Name, p)}), true
					break
				}
			}
		}
		if dropped > 0 && len(out) == 0 {
			out, bad = append(out, Finding{Subject: f.Name, Level: Warn, Why: why, Mend: mend,
				Found: fmt.Sprintf("rp_filter is strict, and has dropped %d packets of this network namespace",
					dropped)}), true
		}
	}
	switch {
	case bad:
		return out
	case strict > 0:
		return []Finding{{Found: "strict, and has dropped nothing"}}
	}
	return []Finding{{Found: "not strict"}}
}

// shared returns an IPv4 network that both interfaces have an address of.
func shared(a, b *Interface) (netip.Prefix, bool) {
	for _, p := range a.Nets {
		for _, q := range b.Nets {
			if p.Addr().Is4() && q.Addr().Is4() && p.Bits() < 31 && q.Bits() < 31 && p.Overlaps(q) {
				return p.Masked(), true
			}
		}
	}
	return netip.Prefix{}, false
}

// netstat reads a counter of /proc/net/netstat, whose lines are one of names and one of values; 0
// if there is none.
func (v *view) netstat(name string) int64 {
	return v.pairs("proc/thread-self/net/netstat", "TcpExt:", name)
}

func (v *view) pairs(file, prefix, name string) int64 {
	text, err := v.read(file)
	if err != nil {
		return 0
	}
	var names []string
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || w[0] != prefix {
			continue
		}
		if names == nil {
			names = w
			continue
		}
		if i := slices.Index(names, name); i >= 0 && i < len(w) {
			n, _ := strconv.ParseInt(w[i], 10, 64)
			return n
		}
	}
	return 0
}
