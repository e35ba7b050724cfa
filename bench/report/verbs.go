package report

import "fmt"

// Names of what is measured of the verbs libraries.
const (
	VerbsPoll = "empty ibv_poll_cq"
	// XOwn is a figure: the result on the libraries to that of the project's own tool.
	XOwn = "x roce's tool"
)

// VerbsPair is a test of perftest, and the same one of the project's own tools.
type VerbsPair struct {
	Name    string
	Tool    string // without ib_
	Args    string // of both
	Latency bool   // the figure is in us, and otherwise in MB/s, or in M/s of small messages
	Small   bool
	Goal    float64 // of XOwn
}

// VerbsPairs are those that are measured.
func VerbsPairs() []VerbsPair {
	ps := []VerbsPair{}
	for _, op := range []string{"write", "read", "send"} {
		ps = append(ps,
			VerbsPair{Name: "ib_" + op + "_bw, 64 KiB", Tool: op + "_bw", Args: "-s 65536 -n 10000", Goal: 0.95})
	}
	ps = append(ps,
		VerbsPair{Name: "ib_write_bw, 64 B, one post a call", Tool: "write_bw", Args: "-s 64 -n 300000",
			Small: true, Goal: 0.9},
		VerbsPair{Name: "ib_write_bw, 64 B, 16 posts a call", Tool: "write_bw", Args: "-s 64 -n 320000 -l 16",
			Small: true, Goal: 0.95})
	for _, op := range []string{"send", "write"} {
		ps = append(ps, VerbsPair{Name: "ib_" + op + "_lat, 64 B", Tool: op + "_lat", Args: "-s 64 -n 20000",
			Latency: true, Goal: 1.15})
	}
	return ps
}

// Unit is that of the figures of a pair.
func (p *VerbsPair) Unit() string {
	switch {
	case p.Latency:
		return "us"
	case p.Small:
		return "M/s"
	}
	return "MB/s"
}

// verbsAims are those of programs in C: the way through the libraries is to cost little.
func verbsAims(add func(what string, less bool, goal float64, unit string, of func(*Report) float64)) {
	for _, p := range VerbsPairs() {
		add(fmt.Sprintf("verbs libraries, %s: x roce %s", p.Name, p.Tool), p.Latency, p.Goal, "x",
			named("verbs", XOwn, p.Name))
	}
	add("verbs libraries, "+VerbsPoll, true, 25, "ns", named("verbs", "time", VerbsPoll))
}

func (r *Report) verbs(p printer) {
	if len(r.Of("verbs")) == 0 {
		return
	}
	p(`
## Verbs libraries

Debian's programs on libibverbs and librdmacm of this project (docs/verbs.md), between two namespaces: perftest, compared with the
project's own tool of the same name and options; UCX, compared with itself over TCP. Messages a second, goodput, and the typical
latency of half a round trip, for which both poll.

| | libraries | compared with | | x |
|---|---|---|---|---|`)
	for _, c := range r.Of("verbs") {
		if c.Name == VerbsPoll {
			p("| %s | %s ns | | | |", c.Name, c.ranged("time"))
			continue
		}
		x, with := XOwn, "roce "+c.Op
		if c.Get(x) == nil {
			x, with = "x TCP", "TCP"
		}
		unit := ""
		if f := c.Get("libraries"); f != nil {
			unit = " " + f.Unit
		}
		p("| %s | %s%s | %s | %s%s | %s |", c.Name, num(c.Value("libraries")), unit, with,
			num(c.Value("compared")), unit, c.ranged(x))
	}
}
