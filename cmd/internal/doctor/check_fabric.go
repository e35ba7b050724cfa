package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/unix"
)

// offloads are the switches of an interface, in the order in which they matter here.
var offloads = []struct {
	name, ethtool, why string
	command            uint32
}{
	{"GRO", "gro", "Without it each packet of a run is received by itself, which costs about as much as handling it.",
		unix.ETHTOOL_GGRO},
	{"GSO", "gso", "Without it each packet of a run goes through the kernel by itself.", unix.ETHTOOL_GGSO},
	{"TX checksum", "tx", "Without it the kernel computes UDP checksums, and cannot segment.", unix.ETHTOOL_GTXCSUM},
	{"RX checksum", "rx", "Without it the kernel computes UDP checksums.", unix.ETHTOOL_GRXCSUM},
}

// checkOffloads: what the interface does for runs of packets.
func checkOffloads(v *view) (out []Finding) {
	for i := range v.ifaces {
		f := &v.ifaces[i]
		var on []string
		bad := false
		for _, o := range offloads {
			is, err := v.Feature(f.Name, o.command)
			switch {
			case errors.Is(err, unix.EOPNOTSUPP):
				continue // nothing to switch
			case err != nil:
				out, bad = append(out, unknown(f.Name, o.name, err)), true
			case is:
				on = append(on, o.name)
			default:
				out, bad = append(out, Finding{Subject: f.Name, Level: Warn, Found: o.name + " is off", Why: o.why,
					Mend: []string{fmt.Sprintf("ethtool -K %s %s on", f.Name, o.ethtool)}}), true
			}
		}
		switch {
		case bad:
		case len(on) == 0:
			out = append(out,
				Finding{Subject: f.Name, Level: Unknown, Found: "the driver does not tell of its offloads"})
		default:
			out = append(out, Finding{Subject: f.Name, Found: strings.Join(on, ", ") + " on"})
		}
		out = append(out, localRuns(v, f)...)
	}
	return out
}

// localRuns: a virtual interface may take a run of packets whole to a link that older kernels
// cannot hand it to.
func localRuns(v *view, f *Interface) []Finding {
	dir, err := v.sysfs(f)
	if err != nil {
		return nil
	}
	if _, err := fs.Stat(v.FS, dir+"/device"); err == nil {
		return nil // a card's, which cuts up what it sends
	}
	k := v.kernel()
	if k.before(4, 18) || !k.before(6, 6) { // older ones send no runs
		return nil
	}
	to := "xdp links in generic mode"
	if k.before(6, 2) {
		to = "packet links and " + to
	}
	if out, err := v.Run(v.ctx, "ethtool", "-k", f.Name); err == nil &&
		strings.Contains(string(out), "tx-udp-segmentation: off") {
		return nil
	}
	return []Finding{{Subject: f.Name, Level: Note,
		Found: fmt.Sprintf("Linux %s loses runs of packets that a udp link here sends to %s on this machine", k, to),
		Why:   "They leave this interface whole, and that kernel cannot say how to split them. Each is lost again when it is repeated. Other machines and udp links get them.",
		Mend: []string{
			fmt.Sprintf("ethtool -K %s tx-udp-segmentation off   # if such a link is at the other end", f.Name),
		}}}
}

// checkECN: congestion control needs the marks of switches to get through, both ways.
func checkECN(v *view) (out []Finding) {
	for _, a := range v.addrs() {
		caps, err := v.open(a)
		switch {
		case err != nil: // the check of the port says why
			out = append(out, Finding{Subject: a.String(), Level: Unknown,
				Found: "no device could be opened to see whether it can set and read ECN"})
		case !caps.ECN:
			out = append(out,
				Finding{Subject: a.String(), Level: Warn, Found: "a device here can neither set nor read ECN",
					Why: "Congestion control (DCQCN) lives on the marks of switches."})
		default:
			out = append(out, Finding{Subject: a.String(),
				Found: "a device can set and read ECN; whether it gets through is a matter of the path: roce doctor HOST"})
		}
	}
	if q, err := v.read("proc/sys/net/core/default_qdisc"); err == nil && q == "pfifo_fast" {
		out = append(out, Finding{Subject: "default_qdisc", Level: Note, Found: "pfifo_fast drops and never marks",
			Why:  "A full queue of this machine's own interface shows as loss, which RoCE pays for more than for a mark.",
			Mend: []string{"sysctl -w net.core.default_qdisc=fq_codel   # for interfaces made from now on"}})
	}
	if n, err := v.number("proc/sys/net/ipv4/tcp_ecn"); err == nil {
		out = append(out,
			Finding{Subject: "tcp_ecn", Found: fmt.Sprintf("%d: it is about TCP alone; nothing to set for RoCE", n)})
	}
	return append(out, cardECN(v)...)
}

// cardECN reads the switches of Mellanox cards, by priority.
func cardECN(v *view) (out []Finding) {
	for i := range v.ifaces {
		f := &v.ifaces[i]
		dir, err := v.sysfs(f)
		if err != nil {
			continue
		}
		for _, point := range []struct{ dir, what string }{{"roce_np", "answers marks with CNPs"}, {"roce_rp",
			"slows down for CNPs"}} {
			list, err := fs.ReadDir(v.FS, dir+"/ecn/"+point.dir+"/enable")
			if err != nil {
				continue
			}
			var off []string
			for _, e := range list {
				if n, err := v.number(dir + "/ecn/" + point.dir + "/enable/" + e.Name()); err == nil && n == 0 {
					off = append(off, e.Name())
				}
			}
			if len(off) > 0 {
				out = append(out, Finding{Subject: f.Name, Level: Note, Found: fmt.Sprintf(
					"the card's own RoCE does not: %s, priorities %s", point.what, strings.Join(off, " ")),
					Why: "It concerns queue pairs of the card, not those of goroce.",
					Mend: []string{fmt.Sprintf("echo 1 > /sys/class/net/%s/ecn/%s/enable/%s", f.Name,
						point.dir, off[0])}})
			}
		}
	}
	return out
}

// checkPFC: priority flow control makes a network lossless, where switches and cards agree on a
// priority.
func checkPFC(v *view) (out []Finding) {
	const why = "In a network with PFC the priority of RoCE is never dropped. Without it loss is repaired by sending again, which works, and costs (docs/loss.md)."
	for i := range v.ifaces {
		f := &v.ifaces[i]
		if f.Loopback {
			out = append(out, Finding{Subject: f.Name, Found: "loopback has no use for it"})
			continue
		}
		text, err := v.Run(v.ctx, "dcb", "-j", "pfc", "show", "dev", f.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return append(out,
				Finding{Level: Unknown, Found: "PFC cannot be read: dcb (of iproute2) is not installed", Why: why})
		case err != nil && strings.Contains(err.Error(), "not supported"):
			out = append(out, Finding{Subject: f.Name, Level: Note, Found: "the driver has no PFC", Why: why})
			continue
		case err != nil:
			out = append(out, unknown(f.Name, "PFC", err))
			continue
		}
		out = append(out, pfcFinding(f.Name, text, why))
		if dscp, err := v.Run(v.ctx, "dcb", "-j", "app", "show", "dev", f.Name); err == nil {
			out = append(out, dscpFinding(f.Name, dscp))
		}
	}
	return out
}

// pfcFinding reads "dcb -j pfc show".
func pfcFinding(iface string, text []byte, why string) Finding {
	var d struct {
		Prio []bool `json:"prio-pfc"`
	}
	if err := json.Unmarshal(text, &d); err != nil || len(d.Prio) == 0 {
		return Finding{Subject: iface, Level: Unknown,
			Found: "PFC cannot be read: the output of dcb is not what is known of it"}
	}
	var on []string
	for p, is := range d.Prio {
		if is {
			on = append(on, strconv.Itoa(p))
		}
	}
	if len(on) == 0 {
		return Finding{Subject: iface, Level: Note, Found: "PFC is off for all priorities",
			Why:  why + " The switches must have the same.",
			Mend: []string{"dcb pfc set dev " + iface + " prio-pfc 3:on"}}
	}
	return Finding{Subject: iface, Found: "PFC is on for priority " + strings.Join(on, ", ")}
}

// dscpFinding reads "dcb -j app show": which DSCP is which priority.
func dscpFinding(iface string, text []byte) Finding {
	var d map[string]json.RawMessage
	if err := json.Unmarshal(text, &d); err != nil {
		return Finding{Subject: iface, Level: Unknown,
			Found: "the priorities of DSCPs cannot be read: the output of dcb is not what is known of it"}
	}
	for name, list := range d {
		if strings.Contains(name, "dscp") && len(strings.Trim(string(list), "[] ")) > 0 {
			return Finding{Subject: iface, Found: "DSCP to priority: " + string(list)}
		}
	}
	return Finding{Subject: iface, Level: Note, Found: "no DSCP has a priority of its own",
		Why:  "With PFC the traffic class of RoCE must lead to the priority that is lossless.",
		Mend: []string{"dcb app add dev " + iface + " dscp-prio 26:3"}}
}
