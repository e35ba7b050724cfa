package doctor

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/cmd/internal/doctor/probe"
	"github.com/goroce/goroce/ib"
)

// pathChecks are the names of what is found of a path, in the order of harm.
var pathChecks = []string{"reach", "peer", "unasked", "nat", "icrc", "path-mtu", "loss", "corrupt", "order",
	"ecn-path", "dscp", "rtt", "goodput"}

// around is what this machine knows of a path beside the probe.
type around struct {
	owners   []string  // MAC addresses that answer for the peer
	asked    bool      // they could be asked for
	routeMTU int       // of the route to the peer; 0 if it is not known
	route    []string  // the command that mends the route
	firewall []Finding // rules of this machine that drop or change RoCE
	shown    bool      // those are in the report already
}

// judgePath turns what a probe found into findings.
func judgePath(r *probe.Result, by *around) []Finding {
	if !r.Reachable {
		f := Finding{Check: "reach", Subject: r.Remote.String(), Level: Fail, Found: r.Silence,
			Why: "Either no \"roce doctor --serve\" runs there, or something on the way drops UDP port 4791.",
			Mend: []string{serveCommand(r.Remote) + "   # on " + r.Remote.Addr().String(),
				"ping -c 3 " + r.Remote.Addr().String()}}
		if r.Damaged > 0 {
			f.Found = fmt.Sprintf("%d answers came with a wrong UDP checksum, and nothing else", r.Damaged)
			f.Why, f.Mend = damageWhy, []string{"ethtool -K INTERFACE tx off   # on " + r.Remote.Addr().String()}
		}
		out := []Finding{f}
		if by.asked {
			out = append(out, judgeOwners(r.Remote.Addr(), by.owners))
		}
		if !by.shown {
			out = append(out, by.firewall...)
		}
		return out
	}
	out := []Finding{{Check: "reach", Subject: r.Remote.String(),
		Found: fmt.Sprintf("answers, %s away", hops(&r.Forward))}}
	if by.asked {
		out = append(out, judgeOwners(r.Remote.Addr(), by.owners))
	}
	out = append(out, judgeUnasked(r, by))
	out = append(out, judgeHeaders(r)...)
	out = append(out, judgeMTU(r, by)...)
	out = append(out, judgeBurst(r)...)
	out = append(out, judgeMarks("there", &r.Forward.ECN, &r.Burst.Forward)...)
	out = append(out, judgeMarks("back", &r.Back.ECN, &r.Burst.Back)...)
	return append(out, judgeSpeed(r)...)
}

// serveCommand is what answers at an address: without --addr it would be the first one, of IPv4.
func serveCommand(at netip.AddrPort) string {
	s := "roce doctor --serve --addr " + at.Addr().String()
	if at.Port() != ib.UDPPort {
		s += fmt.Sprintf(" --port %d", at.Port())
	}
	return s
}

// sentTTL is the hop limit of the packets.
const sentTTL = 64

func hops(w *probe.Way) string {
	switch n := sentTTL - int(w.TTL); {
	case w.TTL == 0 || n < 0:
		return "an unknown number of hops"
	case n == 0:
		return "no router"
	case n == 1:
		return "1 router"
	default:
		return fmt.Sprintf("%d routers", n)
	}
}

func judgeUnasked(r *probe.Result, by *around) Finding {
	f := Finding{Check: "unasked", Found: "packets of the peer's own come to UDP port 4791 here"}
	switch {
	case r.Untried != "":
		f.Level, f.Found = Unknown,
			"whether packets of the peer's own come to UDP port 4791 here was not tried: "+r.Untried
		f.Mend = []string{"ss -ulpn sport = :4791   # end those, and try again"}
	case !r.Unasked:
		f.Level, f.Found = Fail, "answers come back, packets of the peer's own to UDP port 4791 do not"
		f.Why = "A firewall with state, here or on the way, takes them for unasked. " + firewallWhy
		f.Mend = []string{
			"roce doctor --only firewall   # on each machine between: no rule of this one is known to do it",
		}
		if len(by.firewall) > 0 {
			f.Found += ": " + by.firewall[0].Found
			f.Mend = by.firewall[0].Mend
		}
	}
	return f
}

// ways are both directions with their names.
func ways(r *probe.Result) [2]struct {
	name string
	*probe.Way
} {
	return [2]struct {
		name string
		*probe.Way
	}{{"there", &r.Forward}, {"back", &r.Back}}
}

func judgeHeaders(r *probe.Result) (out []Finding) {
	for _, w := range ways(r) {
		if w.ICRC == probe.Unseen {
			out = append(out,
				Finding{Check: "nat", Subject: w.name, Level: Unknown, Found: "no packet came to look at"})
			continue
		}
		nat := Finding{Check: "nat", Subject: w.name, Found: "addresses and ports arrive as they were sent"}
		if w.Src != w.SeenSrc || w.Dst != w.SeenDst {
			nat.Level = Fail
			nat.Found = fmt.Sprintf("%v to %v arrives as %v to %v", w.Src, w.Dst, w.SeenSrc, w.SeenDst)
			nat.Why = natWhy
			nat.Mend = []string{onlyFirewall,
				"# use a path without NAT, or a tunnel (VXLAN, GRE, WireGuard) between the machines"}
		}
		out = append(out, nat, judgeICRC(w.name, w.Way))
	}
	return out
}

func judgeICRC(name string, w *probe.Way) Finding {
	f := Finding{Check: "icrc", Subject: name, Found: "right"}
	switch {
	case w.ICRC == probe.Bad:
		f.Level, f.Found = Fail,
			"wrong, with a right UDP checksum: something on the way changes packets, and repairs that"
		f.Why = "RoCE drops packets whose ICRC is wrong."
		f.Mend = []string{onlyFirewall, "# look for a middlebox: a firewall that inspects, a VPN, a WAN optimizer"}
	case w.Header && (w.ID != 0 || w.NoDF):
		f.Level, f.Found = Fail, fmt.Sprintf("the IPv4 header is changed: identification 0 arrives as %d, DF %s", w.ID,
			map[bool]string{true: "cleared", false: "kept"}[w.NoDF])
		f.Why = "The ICRC covers both: who checks all of it (cards, rdma_rxe, the links packet and xdp) drops every packet. The link udp does not see the identification, and lets it pass."
		f.Mend = []string{onlyFirewall, "# look for a router that scrubs or normalizes IP headers"}
	case w.ICRC == probe.Rewritten:
		f.Level, f.Found = Fail, "wrong for the addresses that arrive; right for those that were sent"
		f.Why, f.Mend = "See nat: nothing else is changed.", []string{onlyFirewall}
	case !w.Header && w.SeenSrc.Addr().Is4():
		f.Found = "right, as far as a UDP socket shows: the receiver would need CAP_NET_RAW to see whether the IPv4 identification is kept"
	}
	return f
}

func judgeMTU(r *probe.Result, by *around) (out []Finding) {
	const why = "A QP with a larger path MTU sends packets that vanish: it fails with \"transport retry counter exceeded\" at the first long message, while short ones work."
	for _, w := range ways(r) {
		f := Finding{Check: "path-mtu", Subject: w.name, Found: fmt.Sprintf("%d", w.MTU)}
		switch {
		case w.MTU == 0:
			f.Level, f.Found, f.Why = Fail, "no packet of any path MTU comes through", why
		case w.name == "back" && w.Narrower && r.Forward.Narrower && w.MTU == r.Forward.MTU:
			// No answer is longer than its question.
			f.Level, f.Found = Unknown,
				fmt.Sprintf("at least %d: longer packets do not get there to be answered", w.MTU)
		case w.Narrower:
			f.Level, f.Found, f.Why = Warn,
				fmt.Sprintf("%d, which is less than what the interface here carries", w.MTU), why
			if w.name == "there" && !w.Told {
				f.Found += ", and no router says so"
			}
			f.Mend = []string{fmt.Sprintf("# -m %d (pingpongs, perftest); in Go: verbs.Config.MTU", w.MTU),
				"roce doctor --only mtu   # on " + r.Remote.Addr().String() +
					" and on each router between: it prints the command there"}
		}
		out = append(out, f)
	}
	if by.routeMTU == 0 {
		return out
	}
	if m, _ := ib.MTUForInterface(by.routeMTU); m.Bytes() < r.Forward.MTU || m == 0 {
		// The probe goes past the route's MTU, devices do not.
		out[0] = Finding{Check: "path-mtu", Subject: "there", Level: Fail, Mend: by.route,
			Found: fmt.Sprintf("the network carries %d, and the route of this machine has MTU %d, %s",
				r.Forward.MTU, by.routeMTU, carries(by.routeMTU)),
			Why: "Packets that are longer than the route's MTU do not leave this machine: \"transport retry counter exceeded\" at the first long message."}
	}
	return out
}

// Shares of packets.
const (
	badLoss  = 0.01   // go-back-N sends most of its window again for each
	someLoss = 0.0001 // a clean network has none
)

func judgeBurst(r *probe.Result) (out []Finding) {
	const why = "RoCE repairs loss by go-back-N: all since the lost packet is sent again (docs/loss.md)."
	for _, w := range []struct {
		name string
		fate probe.Fate
	}{{"there", r.Burst.Forward}, {"back", r.Burst.Back}} {
		if w.fate.Sent == 0 {
			out = append(out, Finding{Check: "loss", Subject: w.name, Level: Unknown,
				Found: "the other side did not say what it got"})
			continue
		}
		vanished := w.fate.Lost - w.fate.Damaged
		share := float64(vanished) / float64(w.fate.Sent)
		f := Finding{Check: "loss", Subject: w.name, Found: fmt.Sprintf("%d of %d packets lost", vanished, w.fate.Sent)}
		if w.fate.Full > 0 {
			f.Found += fmt.Sprintf(", %d of them in the receive buffer of a socket that was full", w.fate.Full)
		}
		switch {
		case share >= badLoss:
			f.Level, f.Why = Fail, why+" With so much loss little else happens."
		case share >= someLoss:
			f.Level, f.Why = Warn, why
		}
		if f.Level > OK {
			f.Mend = []string{"ip -s link; nstat -az UdpRcvbufErrors   # drops on either machine",
				"roce doctor --only firewall,buffers,offloads   # on both machines, and on each between"}
		}
		out = append(out, f)
		out = append(out, judgeDamage(w.name, &w.fate))
		o := Finding{Check: "order", Subject: w.name, Found: "all in order, none twice"}
		if w.fate.Reordered > 0 || w.fate.Duplicate > 0 {
			o.Level = Note
			o.Found = fmt.Sprintf("%d of %d packets overtaken, %d came twice", w.fate.Reordered, w.fate.Sent,
				w.fate.Duplicate)
			o.Why = "A packet that comes early looks like loss of those before it, and makes the sender go back."
			if w.fate.Reordered*100 > w.fate.Sent {
				o.Level = Warn
			}
			o.Mend = []string{
				"# spread load by flow (UDP ports), not by packet, on switches and bonds: cat /proc/net/bonding/*",
			}
		}
		out = append(out, o)
	}
	return out
}

// judgeDamage tells packets that were damaged on the way from those that vanished.
func judgeDamage(name string, fate *probe.Fate) Finding {
	f := Finding{Check: "corrupt", Subject: name, Found: "no packet came damaged"}
	if fate.Damaged == 0 && fate.BadICRC == 0 {
		return f
	}
	f.Level = Warn
	if float64(fate.Damaged+fate.BadICRC) >= badLoss*float64(fate.Sent) {
		f.Level = Fail
	}
	var parts []string
	if fate.Damaged > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d packets came with a wrong UDP checksum", fate.Damaged, fate.Sent))
	}
	if fate.BadICRC > 0 {
		parts = append(parts,
			fmt.Sprintf("%d of %d with a right UDP checksum and a wrong ICRC", fate.BadICRC, fate.Sent))
	}
	f.Found = strings.Join(parts, "; ")
	f.Why = "They were damaged on the way: this is no congestion. A cable, a transceiver, or the memory of something between; where the UDP checksum is right, something that writes to packets."
	f.Mend = []string{
		"roce doctor --only damage   # on both machines, and on each between: where do frames come damaged?",
	}
	return f
}

func judgeMarks(name string, m *probe.Mark, fate *probe.Fate) []Finding {
	if !m.Tried {
		return []Finding{{Check: "ecn-path", Subject: name, Level: Unknown,
			Found: "no packet with ECN came through, or back"}}
	}
	e := Finding{Check: "ecn-path", Subject: name, Found: "ECN is kept"}
	switch {
	case !m.ECT:
		e.Level, e.Found = Warn, "ECN is bleached: ECT(0) is cleared on the way"
	case !m.CE:
		e.Level, e.Found = Warn, "ECN is broken: the mark CE is cleared on the way"
	case fate.Marked > 0 && float64(fate.Marked) >= allMarked*float64(fate.Sent-fate.Lost):
		e.Level, e.Found, e.Why = Warn,
			fmt.Sprintf("%d of %d packets came with the mark CE, at 44 Mb/s: something marks whatever passes",
				fate.Marked, fate.Sent), markWhy
		e.Mend = []string{onlyFirewall,
			"# on switches: the threshold of ECN is 0, or counts other traffic"}
		return append([]Finding{e}, judgeDSCP(name, m))
	case m.Congest > 0 || fate.Marked > 0:
		e.Level, e.Found = Note, fmt.Sprintf("ECN is kept, and %d of %d packets were marked: the path is congested now",
			max(fate.Marked, m.Congest), max(fate.Sent, 1))
	}
	if e.Level == Warn {
		e.Why = bleachWhy
		e.Mend = []string{onlyFirewall,
			"# look for a switch, router or tunnel that rewrites the TOS byte; tunnels need ECN encapsulation (RFC 6040)"}
	}
	return []Finding{e, judgeDSCP(name, m)}
}

// onlyFirewall finds rules of machines that are not looked at here.
const onlyFirewall = "roce doctor --only firewall   # on both machines, and on each between: it prints the command for a rule that does this"

// allMarked is the share of marked packets that no congestion explains at the probe's rate.
const allMarked = 0.9

func judgeDSCP(name string, m *probe.Mark) Finding {
	d := Finding{Check: "dscp", Subject: name, Found: fmt.Sprintf("DSCP %d is kept", m.Sent)}
	if m.DSCP != m.Sent {
		d.Level, d.Found = Note, fmt.Sprintf("DSCP %d arrives as %d", m.Sent, m.DSCP)
		d.Why = dscpWhy
		d.Mend = []string{onlyFirewall, "# have the switches trust DSCP on these ports"}
	}
	return d
}

func judgeSpeed(r *probe.Result) (out []Finding) {
	t := Finding{Check: "rtt", Level: Unknown, Found: "no round trip was measured"}
	if r.RTT.Samples > 0 {
		us := func(ns int64) float64 { return float64(ns) / 1e3 }
		t = Finding{Check: "rtt", Found: fmt.Sprintf("min %.0f us, p50 %.0f us, p99 %.0f us over %d packets",
			us(r.RTT.Min), us(r.RTT.P50), us(r.RTT.P99), r.RTT.Samples)}
	}
	g := Finding{Check: "goodput", Level: Unknown, Found: "it was not measured"}
	if r.Goodput.Packets > 0 {
		g = Finding{Check: "goodput", Found: fmt.Sprintf("at least %s with path MTU %d, %d of %d packets lost; each packet is a system call here: roce write_bw measures what RoCE reaches",
			rate(r.Goodput.Bits), r.Goodput.MTU, r.Goodput.Lost, r.Goodput.Packets+r.Goodput.Lost)}
	}
	return append(out, t, g)
}

func rate(bits float64) string {
	switch {
	case bits >= 1e9:
		return fmt.Sprintf("%.2f Gb/s", bits/1e9)
	case bits >= 1e6:
		return fmt.Sprintf("%.1f Mb/s", bits/1e6)
	}
	return fmt.Sprintf("%.1f kb/s", bits/1e3)
}
