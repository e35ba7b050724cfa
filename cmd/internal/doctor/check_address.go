package doctor

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
)

// checkAddress: the GID table of a device is the local addresses.
func checkAddress(v *view) (out []Finding) {
	const why = "A device's GIDs are the IP addresses of its interface; without one nobody can name it."
	n := 0
	for i := range v.ifaces {
		f := &v.ifaces[i]
		usable := f.usable()
		n += len(usable)
		var gids []string
		for _, a := range usable {
			gids = append(gids, tool.GIDText(a))
		}
		switch {
		case len(gids) > 0 && f.Loopback && !v.named:
			out = append(out, Finding{
				Subject: f.Name, Level: Warn, Found: "only loopback has an address: GIDs " + strings.Join(gids, ", "),
				Why:  "Other machines cannot reach it.",
				Mend: v.otherInterface(),
			})
		case len(gids) > 0:
			out = append(out, Finding{Subject: f.Name, Found: "GIDs " + strings.Join(gids, ", ")})
		case v.named:
			out = append(out, Finding{Subject: f.Name, Level: Fail, Found: "no address but link-local ones", Why: why,
				Mend: []string{"ip addr add 192.0.2.1/24 dev " + f.Name}})
		}
	}
	if n == 0 && !v.named {
		out = append(out, Finding{Level: Fail, Found: "no interface has an address but link-local ones", Why: why,
			Mend: []string{"ip addr add 192.0.2.1/24 dev " + v.ifaces[0].Name}})
	}
	return append(out, unsettled(v)...)
}

// otherInterface is what gives an interface that is not loopback an address, and switches it on.
func (v *view) otherInterface() []string {
	all, err := v.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		if !i.Loopback {
			return []string{fmt.Sprintf(
				"ip addr add 192.0.2.1/24 dev %s && ip link set %[1]s up   # with an address of your network", i.Name)}
		}
	}
	return []string{"ip link   # there is no other interface here"}
}

// Flags of IPv6 addresses (linux/if_addr.h).
const (
	dadFailed = 0x08
	tentative = 0x40
)

// unsettled finds IPv6 addresses that cannot be used yet, or at all. /proc/net/if_inet6 has
// address, index, prefix length, scope and flags in hexadecimal, and the name.
func unsettled(v *view) (out []Finding) {
	text, err := v.read("proc/thread-self/net/if_inet6")
	if err != nil {
		return nil // no IPv6, and so no such address
	}
	for line := range strings.Lines(text) {
		c := strings.Fields(line)
		if len(c) < 6 {
			continue
		}
		var flags, bits uint
		var raw []byte
		if _, err := fmt.Sscanf(c[4], "%x", &flags); err != nil || flags&(dadFailed|tentative) == 0 {
			continue
		}
		if _, err := fmt.Sscanf(c[0], "%x", &raw); err != nil {
			continue
		}
		if _, err := fmt.Sscanf(c[2], "%x", &bits); err != nil {
			continue
		}
		a, ok := netip.AddrFromSlice(raw)
		if !ok || !v.has(c[5], a) {
			continue
		}
		f := Finding{Subject: c[5], Level: Warn, Found: a.String() + " is still being tested for duplicates",
			Why: "Until that is over no device can use it.", Mend: []string{"sleep 2; roce doctor"}}
		if flags&dadFailed != 0 {
			f.Level, f.Found = Fail, a.String()+" is used by another machine on this network"
			f.Why, f.Mend = "The kernel does not let anyone use it.", []string{
				fmt.Sprintf(
					"ip addr del %v/%d dev %s   # and give it one that is free, or take it from the other machine", a,
					bits, c[5]),
			}
		}
		out = append(out, f)
	}
	return out
}

// has reports whether an interface that matters has the address.
func (v *view) has(iface string, a netip.Addr) bool {
	for i := range v.ifaces {
		for _, b := range v.ifaces[i].Addrs {
			if v.ifaces[i].Name == iface && a == b {
				return true
			}
		}
	}
	return false
}

// checkInterface: packets need an interface that is up and has a carrier.
func checkInterface(v *view) (out []Finding) {
	up := false
	for i := range v.ifaces {
		f := &v.ifaces[i]
		r := Finding{Subject: f.Name, Found: "up, with a carrier"}
		switch {
		case !f.Up:
			r.Level, r.Found, r.Mend = Fail, "switched off", []string{"ip link set " + f.Name + " up"}
			r.Why = "Nothing is sent or received there."
		case !f.Running:
			r.Level, r.Found, r.Mend = Fail, "no carrier: the cable, the switch port or the other end is off",
				[]string{"ethtool " + f.Name}
			r.Why = "Nothing is sent or received there."
		default:
			up = true
		}
		out = append(out, r)
	}
	if up && !v.named {
		// Others work, and which of them is meant is not known.
		for i := range out {
			out[i].Level = min(out[i].Level, Warn)
		}
	}
	return out
}

// goodMTU carries the largest path MTU.
const goodMTU = 4200

// checkMTU: the path MTU of RoCE is a power of two that must fit with all headers.
func checkMTU(v *view) (out []Finding) {
	for i := range v.ifaces {
		f := &v.ifaces[i]
		m, ok := ib.MTUForInterface(f.MTU)
		r := Finding{Subject: f.Name, Found: fmt.Sprintf("%d bytes: path MTU %d", f.MTU, m.Bytes())}
		switch {
		case !ok:
			r.Level, r.Found = Fail, fmt.Sprintf("%d bytes: too small for any path MTU", f.MTU)
			r.Why, r.Mend = "The smallest RoCE packet with 256 bytes of payload needs 336.",
				[]string{"ip link set " + f.Name + " mtu 1500"}
		case m < ib.MTU1024:
			r.Level, r.Mend = Warn, []string{"ip link set " + f.Name + " mtu 1500"}
			r.Why = "Each packet carries little, and costs as much as a large one. Peers that insist on 1024 refuse the connection or lose packets."
		case m < ib.MTU4096:
			r.Level, r.Mend = Note, []string{fmt.Sprintf("ip link set %s mtu %d", f.Name, goodMTU)}
			r.Why = fmt.Sprintf("%d bytes carry path MTU 4096, which costs a quarter of the packets of 1024; it has to be on both machines and every switch between.", goodMTU)
		}
		out = append(append(out, r), v.narrowRoutes(f)...)
	}
	return out
}
