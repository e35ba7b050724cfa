package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
)

// checkDuplicate asks the network who else has the IPv4 addresses of this machine. Of IPv6
// addresses the kernel knows (see unsettled).
func checkDuplicate(v *view) (out []Finding) {
	var fine []string
	for i := range v.ifaces {
		f := &v.ifaces[i]
		if f.Loopback || !f.Up || !f.Running || f.NoARP {
			continue
		}
		for _, p := range f.Nets {
			if !p.Addr().Is4() || !v.has(f.Name, p.Addr()) {
				continue
			}
			macs, err := v.Owners(v.ctx, f, p.Addr())
			switch {
			case errors.Is(err, fs.ErrPermission):
				return []Finding{{Level: Unknown,
					Found: "whether another machine has an address of this one is not known: asking needs CAP_NET_RAW",
					Mend:  []string{"sudo roce doctor --only duplicate"}}}
			case err != nil:
				out = append(out, unknown(f.Name, "who has "+p.Addr().String(), err))
			case len(macs) > 0:
				out = append(out, Finding{Subject: f.Name, Level: Fail, Found: fmt.Sprintf(
					"%v is an address of another machine too: %s answers for it", p.Addr(), strings.Join(macs, ", ")),
					Why: "Peers send to the one that they heard of last: connections fail, or break after a while.",
					Mend: []string{fmt.Sprintf(
						"ip addr del %v dev %s   # and give it one that is free, or take it from the other machine", p,
						f.Name)}})
			default:
				fine = append(fine, p.Addr().String())
			}
		}
	}
	switch {
	case len(out) > 0:
		return out
	case len(fine) == 0:
		return []Finding{{Found: "no IPv4 address to ask for"}}
	}
	return []Finding{{Found: "nobody else answers for " + strings.Join(fine, ", ")}}
}

// judgeOwners is the finding that more than one machine answers for the peer's address.
func judgeOwners(remote netip.Addr, macs []string) Finding {
	f := Finding{Check: "peer", Subject: remote.String(), Found: "one machine answers for it"}
	switch {
	case len(macs) == 0:
		f.Level, f.Found = Unknown, "it is not on a network of this machine, or does not answer ARP"
	case len(macs) > 1:
		f.Level, f.Found = Fail, fmt.Sprintf("%d machines answer for it: %s", len(macs), strings.Join(macs, ", "))
		f.Why = "Packets go to the one that was heard of last: connections fail, or break after a while."
		f.Mend = []string{"roce doctor --only duplicate   # on " + remote.String() + ": it prints the command there"}
	}
	return f
}
