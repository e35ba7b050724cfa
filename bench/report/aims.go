package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Aim is what a figure should be.
type Aim struct {
	What  string
	Floor float64 // the least that is acceptable; NaN if there is only a goal
	Goal  float64
	// Less is set if smaller is better.
	Less bool
	Unit string
	// item measures the figure, on link unless that is "".
	item, link string
	// of finds the figure.
	of func(*Report) float64
	// scale is what to multiply the figure by, 0 is 1.
	scale float64
}

// Verdicts.
const (
	VerdictGoal   = "goal"
	VerdictFloor  = "floor"
	VerdictMissed = "missed"
	VerdictNone   = "not measured"
)

// Verdict judges a figure.
func (a *Aim) Verdict(v float64) string {
	at := func(limit float64) bool { return a.Less && v <= limit || !a.Less && v >= limit }
	switch {
	case math.IsNaN(v):
		return VerdictNone
	case at(a.Goal):
		return VerdictGoal
	case !math.IsNaN(a.Floor) && at(a.Floor):
		return VerdictFloor
	}
	return VerdictMissed
}

// Value is the figure of a report that the aim is about; NaN if it was not measured.
func (a *Aim) Value(r *Report) float64 {
	if a.scale != 0 {
		return a.of(r) * a.scale
	}
	return a.of(r)
}

// due reports whether a report has to say something about the aim: runs of other items, and on
// other links, are silent about it.
func (a *Aim) due(r *Report) bool {
	switch {
	case !math.IsNaN(a.Value(r)):
		return true
	case a.item == itemLab:
		return !r.LabPart && len(r.Of(itemLab)) > 0
	}
	return r.ran(a.item) && (a.link == "" || slices.Contains(r.links(), a.link))
}

// dueAims are the aims that a report has to say something about.
func (r *Report) dueAims() []Aim {
	return slices.DeleteFunc(Aims(), func(a Aim) bool { return !a.due(r) })
}

// bulk finds a figure of item 1.
func bulk(op string, size, mtu, region int, link, mode, figure string) func(*Report) float64 {
	return pick("single", figure, func(c *Case) bool {
		return c.Op == op && c.Size == size && c.MTU == mtu && c.Region == region && c.Link == link && c.Mode == mode
	})
}

func pick(item, figure string, f func(*Case) bool) func(*Report) float64 {
	return func(r *Report) float64 {
		c := r.Find(func(c *Case) bool { return c.Item == item && f(c) && c.Get(figure) != nil })
		if c == nil {
			return math.NaN()
		}
		return c.Value(figure)
	}
}

func named(item, figure, prefix string) func(*Report) float64 {
	return pick(item, figure, func(c *Case) bool { return strings.HasPrefix(c.Name, prefix) })
}

// ModeEther is the mode of bulk cases on interfaces of the MTU that most have.
const ModeEther = "interface MTU 1500"

const (
	mib   = 1 << 20
	large = 64 << 20
)

// Aims are those of the project, in the order of the report. They come from measurements
// of what the kernel's interfaces can do between two namespaces on 2 cores: a floor of
// about 65 % of that, a goal of about 85 %.
func Aims() []Aim {
	none := math.NaN()
	var as []Aim
	var ofItem, onLink string // see Aim.item
	from := func(item, link string) { ofItem, onLink = item, link }
	add := func(what string, floor, goal float64, less bool, unit string, scale float64, of func(*Report) float64) {
		as = append(as, Aim{What: what, Floor: floor, Goal: goal, Less: less, Unit: unit, item: ofItem,
			link: onLink, scale: scale, of: of})
	}
	for _, link := range []string{"udp", "packet"} {
		from("single", link)
		for _, op := range []string{"WRITE", "READ"} {
			add(op+" of 1 MiB, MTU 4096, 64 MiB regions, "+link+": goodput x TCP", 0.75, 0.95, false, "x", 0,
				bulk(op, mib, 4096, large, link, "", "x TCP"))
			add(op+" of 1 MiB, MTU 4096, 1 MiB regions, "+link+": goodput x TCP", 0.50, 0.65, false, "x", 0,
				bulk(op, mib, 4096, mib, link, "", "x TCP"))
			add(op+" of 1 MiB, MTU 1024, 64 MiB regions, "+link+": goodput x TCP", 0.50, 0.65, false, "x", 0,
				bulk(op, mib, 1024, large, link, "", "x TCP"))
		}
		for _, op := range []string{"WRITE", "READ"} {
			add(op+" of 1 MiB, "+ModeEther+", "+link+": goodput x TCP", none, 1, false, "x", 0,
				bulk(op, mib, 1024, large, link, ModeEther, "x TCP"))
			add(op+" of 1 MiB, "+ModeEther+", "+link+": goodput x the link's ceiling with CRC and copy", none,
				0.85, false, "x", 0, bulk(op, mib, 1024, large, link, ModeEther, "x ceiling"))
			add(op+" of 1 MiB, "+ModeEther+", "+link+": CPU seconds per GB x TCP", none, 1.2, true, "x", 0,
				bulk(op, mib, 1024, large, link, ModeEther, "CPU x TCP"))
		}
		add("WRITE of 4 KiB, "+ModeEther+", "+link+": goodput x TCP", none, 1, false, "x", 0,
			bulk("WRITE", 4096, 1024, large, link, ModeEther, "x TCP"))
		add("WRITE of 1 MiB, MTU 4096, "+link+": goodput x the link's ceiling with CRC and copy", none, 0.85,
			false, "x", 0, bulk("WRITE", mib, 4096, large, link, "", "x ceiling"))
		add("WRITE of 1 MiB, MTU 4096, "+link+": CPU seconds per GB x TCP", 1.6, 1.2, true, "x", 0,
			bulk("WRITE", mib, 4096, large, link, "", "CPU x TCP"))
		add("WRITE of 64 B, posted in batches, one QP, "+link, 1.5, 3, false, "M/s", 1e-6,
			bulk("WRITE", 64, 4096, large, link, "", "messages"))
		add("WRITE of 64 B, one datagram each, "+link, 0.1, 0.2, false, "M/s", 1e-6,
			bulk("WRITE alone", 64, 4096, large, link, "", "messages"))
		add("WRITE of 64 B, one QP, "+link+": messages x TCP with one write each", none, 3, false, "x", 0,
			bulk("WRITE", 64, 4096, large, link, "", "x TCP"))
	}
	for _, link := range []string{"udp", "packet", "xdp"} {
		from("latency", link)
		for _, w := range []struct {
			what, mode  string
			floor, goal float64
		}{{"polling", "polling", 0.40, 0.30}, {"event-driven", "event", 0.85, 0.70}, {"event-driven without spinning",
			"event, no spin", 1.3, 1.1}} {
			if w.mode == "polling" && link != "udp" { // no system call to receive
				w.floor, w.goal = 0.25, 0.18
			}
			half := func(figure string) func(*Report) float64 {
				return pick("latency", figure,
					func(c *Case) bool { return c.Link == link && c.Mode == w.mode && c.Place == OwnCPU })
			}
			add("half round trip, "+w.what+", "+link+": p50 x TCP", w.floor, w.goal, true, "x", 0, half("p50 x TCP"))
			add("half round trip, "+w.what+", "+link+": p99/p50", 4, 2.5, true, "x", 0, half("p99/p50"))
		}
	}
	from("single", "xdp")
	// Over xdp, in copy mode, there is no segmentation offload: its aims are those without.
	add("WRITE of 1 MiB, MTU 4096, 64 MiB regions, xdp: goodput x TCP", 0.25, 0.33, false, "x", 0,
		bulk("WRITE", mib, 4096, large, "xdp", "", "x TCP"))
	add("WRITE of 1 MiB, MTU 4096, xdp: goodput x the link's ceiling with CRC and copy", none, 0.85, false,
		"x", 0, bulk("WRITE", mib, 4096, large, "xdp", "", "x ceiling"))
	add("WRITE of 64 B, one datagram each, xdp", 0.1, 0.2, false, "M/s", 1e-6,
		bulk("WRITE alone", 64, 4096, large, "xdp", "", "messages"))
	from("single", "udp")
	add("WRITE of 1 MiB, MTU 4096, udp, software segmentation: goodput x TCP", 0.40, 0.55, false, "x", 0,
		bulk("WRITE", mib, 4096, large, "udp", "software segmentation", "x TCP"))
	add("WRITE of 1 MiB, MTU 4096, udp, no GSO and GRO: goodput x TCP", 0.25, 0.33, false, "x", 0,
		bulk("WRITE", mib, 4096, large, "udp", "no GSO, no GRO", "x TCP"))
	socketAims(func(link, what string, of func(*Report) float64, less bool, goal float64) {
		from("sockets", link)
		add(what, none, goal, less, "x", 0, of)
	})
	for _, link := range []string{"udp", "packet"} {
		from("shards", link)
		for _, size := range []int{mib, 64} {
			add(fmt.Sprintf("WRITE of %s, two shards a side, %s: goodput x one shard", Bytes(size), link),
				0.90, 0.95, false, "x", 0, pick("shards", "x 1 shard", func(c *Case) bool {
					return c.Link == link && c.Op == "WRITE" && c.Size == size
				}))
		}
	}
	from("scale", "")
	add("memory of an idle QP", none, 8, true, "KiB", 1.0/1024, named("scale", "heap", "memory of an idle QP"))
	add("CPU at rest, 100 idle connections", none, 1, true, "% of a core", 0, named("scale", "CPU", "CPU at rest"))
	from("engine", "")
	for _, op := range []string{"SEND", "RDMA_WRITE"} {
		for _, part := range []string{"send", "receive"} {
			add(fmt.Sprintf("engine alone, %s of 64 B, %s", op, part), none, 200, true, "ns/packet", 0,
				named("engine", "time", "Packet/"+op+"/64/"+part))
			add(fmt.Sprintf("engine alone, %s of 64 B, %s", op, part), none, 0, true, "allocs/packet", 0,
				named("engine", "allocs", "Packet/"+op+"/64/"+part))
		}
	}
	for _, op := range []string{"WRITE/64", "WRITE/1024", "SEND/64"} {
		add("two engines without I/O on two cores, "+op+" B: messages x one engine", 1.6, 1.8, false, "x", 0,
			named("engine", XOneEngine, "Engines/"+op+"/2"))
	}
	from("verbs", "")
	verbsAims(func(what string, less bool, goal float64, unit string, of func(*Report) float64) {
		add(what, none, goal, less, unit, 0, of)
	})
	from(itemLab, "")
	for _, place := range []string{"offloads", "no offloads"} {
		for _, op := range []string{"write", "read", "send"} {
			for _, mtu := range []string{"4096", "1024"} {
				add("two guests, "+place+": "+op+"_bw, MTU "+mtu+": bandwidth x kernel rxe", none, 1.5, false,
					"x", 0, pick(itemLab, "x rxe", func(c *Case) bool {
						return c.Place == place && c.Op == op+"_bw" && c.Mode == "polling" &&
							strings.Contains(c.Name, "-m "+mtu)
					}))
			}
		}
		for _, tool := range []string{"write_lat", "read_lat", "send_lat"} {
			for _, mode := range []string{"event-driven", "polling"} {
				add("two guests, "+place+": "+tool+", "+mode+": latency x kernel rxe", none, 1, true, "x", 0,
					pick(itemLab, "x rxe", func(c *Case) bool {
						return c.Place == place && c.Op == tool && c.Mode == mode
					}))
			}
		}
	}
	return as
}
