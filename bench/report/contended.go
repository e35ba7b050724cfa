package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ItemContended is the item of programs that do not have the machine to themselves.
const ItemContended = "contended"

// Settings of contended, besides OwnCPU and OneCPU.
const (
	FreeCPUs      = "CPUs free"
	BusyEach      = "a busy neighbour on each CPU"
	BusyOne       = "a busy neighbour on one of two CPUs"
	BusyServer    = "a server that computes, GOMAXPROCS=1"
	Pairs         = "eight pairs of processes"
	quotaSettings = "a quota of %g CPU each"
)

// Quota is the setting in which each end gets a share of a CPU.
func Quota(cpus float64) string { return fmt.Sprintf(quotaSettings, cpus) }

// stream is the load of cases with no requests.
const stream = "stream"

// ContendedLoad is what is done in a case: requests of a size, or with 0 a stream, on so many
// connections.
func ContendedLoad(size, conns int) string {
	what, plural := stream, "s"
	if size > 0 {
		what = Bytes(size)
	}
	if conns == 1 {
		plural = ""
	}
	return fmt.Sprintf("%s, %d connection%s", what, conns, plural)
}

// ContendedName is the name of a case.
func ContendedName(setting string, size, conns int, by string) string {
	return setting + ": " + ContendedLoad(size, conns) + ", " + by
}

// contendedAim is what a figure of every case should be.
type contendedAim struct {
	figure, what string
	Aim
}

// contendedAims are those of a case.
func contendedAims(c *Case) []contendedAim {
	aim := func(figure, what string, less bool, goal float64) contendedAim {
		return contendedAim{figure, what, Aim{Floor: math.NaN(), Goal: goal, Less: less}}
	}
	switch {
	case c.Place == BusyServer:
		return []contendedAim{aim("p50 x TCP", "p50", true, 3), aim("p99 x TCP", "p99", true, 1)}
	case c.Size == 0:
		return []contendedAim{aim("x TCP", "goodput", false, 1), aim("CPU x TCP", "CPU", true, 1.2)}
	}
	return []contendedAim{aim("x TCP", "requests", false, 0.9), aim("CPU x TCP", "CPU", true, 1.2),
		aim("p99.9 x TCP", "p99.9", true, 1.2)}
}

// misses are the aims that a case has missed.
func (c *Case) misses() (missed []string) {
	for _, a := range contendedAims(c) {
		if a.Verdict(c.Value(a.figure)) == VerdictMissed {
			missed = append(missed, a.what)
		}
	}
	return missed
}

// judged is a figure with its range, in bold if it misses its aim.
func (c *Case) judged(figure string) string {
	for _, a := range contendedAims(c) {
		if a.figure == figure && a.Verdict(c.Value(figure)) == VerdictMissed {
			return "**" + c.ranged(figure) + "**"
		}
	}
	return c.ranged(figure)
}

// distinct returns what f says of the cases, each once, in their order.
func distinct[T comparable](cs []*Case, f func(*Case) T) (all []T) {
	for _, c := range cs {
		if x := f(c); !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

func (r *Report) contended(p printer) {
	all := r.Of(ItemContended)
	if len(all) == 0 {
		return
	}
	p(`
## Machines that are not idle

Requests that are answered by as many bytes, one at a time on each connection, and streams; by rsocket, by roce.Conn (Send and Recv; streams are
WRITEs of 1 MiB, one at a time on each connection), and by Go's TCP, in turn in every round. A stream of rsocket and TCP is writes of 256 KiB. CPU
is the time of both processes, in us a request or in s/GB of a stream. Latencies are in microseconds, of a request with its answer.

A quota is a limit of the control group that each process is in, by periods of 100 ms, as containers have it. A neighbour is a process that
computes, on the CPU named and no other. Eight pairs of processes do the same on two CPUs: requests are those of all. In the last setting the server has one processor (GOMAXPROCS=1), on which two goroutines compute, and
READ is roce.Conn.Read of the server's memory.

Aims: no less than 0.9 of TCP's requests, no more than 1.2 of its CPU time a request and of its p99.9; of a stream TCP's goodput, at 1.2 of its CPU
time; with a server that computes p50 at most 3 times that of TCP, p99 at most TCP's. **Bold** is what misses its aim.`)
	r.contendedOverview(p, all)
	for _, place := range distinct(all, func(c *Case) string { return c.Place }) {
		of := slices.DeleteFunc(slices.Clone(all), func(c *Case) bool { return c.Place != place })
		contendedSetting(p, place, of)
	}
}

// contendedOverview is requests by TCP's, a row for each setting and size, and how many aims are
// missed.
func (r *Report) contendedOverview(p printer, all []*Case) {
	requests := slices.DeleteFunc(slices.Clone(all), func(c *Case) bool { return c.Size == 0 || c.Place == BusyServer })
	type column struct {
		by    string
		conns int
	}
	var columns []column
	for _, by := range distinct(requests, func(c *Case) string { return c.Op }) {
		for _, n := range slices.Sorted(slices.Values(distinct(requests, func(c *Case) int { return c.QPs }))) {
			columns = append(columns, column{by, n})
		}
	}
	if len(columns) == 0 {
		return
	}
	head, rule := "| requests x TCP |", "|---|"
	for _, c := range columns {
		head, rule = head+fmt.Sprintf(" %s, %d |", c.by, c.conns), rule+"---|"
	}
	p("\n%s cases miss an aim. Requests by those of TCP, for so many connections:\n\n%s\n%s", missedOf(all), head, rule)
	type row struct {
		place string
		size  int
	}
	for _, w := range distinct(requests, func(c *Case) row { return row{c.Place, c.Size} }) {
		line := fmt.Sprintf("| %s, %s |", w.place, Bytes(w.size))
		for _, col := range columns {
			c := r.Find(func(c *Case) bool {
				return c.Item == ItemContended && c.Place == w.place && c.Size == w.size && c.Op == col.by &&
					c.QPs == col.conns
			})
			switch {
			case c == nil:
				line += " – |"
			case slices.Contains(c.misses(), "requests"):
				line += fmt.Sprintf(" **%s** |", num(c.Value("x TCP")))
			default:
				line += fmt.Sprintf(" %s |", num(c.Value("x TCP")))
			}
		}
		p("%s", line)
	}
}

// missedOf says how many of the cases miss an aim.
func missedOf(cs []*Case) string {
	n := 0
	for _, c := range cs {
		if len(c.misses()) > 0 {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(cs))
}

// contendedSetting is the tables of one setting.
func contendedSetting(p printer, place string, cs []*Case) {
	p("\n### %s\n\n%s cases miss an aim.", strings.ToUpper(place[:1])+place[1:], missedOf(cs))
	for _, run := range distinct(cs, func(c *Case) string { return c.Run }) {
		if run != "" {
			p("\n%s", run)
		}
	}
	load := func(c *Case) string { return ContendedLoad(c.Size, c.QPs) + ", " + c.Op }
	v := func(c *Case, names ...string) string {
		var s []string
		for _, n := range names {
			s = append(s, num(c.Value(n)))
		}
		return strings.Join(s, ", ")
	}
	table := func(head string, keep func(*Case) bool, line func(*Case) string) {
		first := true
		for _, c := range cs {
			if !keep(c) {
				continue
			}
			if first {
				p("\n%s\n%s", head, strings.Repeat("|---", strings.Count(head, "|")-1)+"|")
			}
			first = false
			p("%s", line(c))
		}
	}
	if place == BusyServer {
		table("| | p50 x TCP | p99 x TCP | requests/s | p50 | p99 | TCP: requests/s | p50 | p99 | misses |",
			func(*Case) bool { return true }, func(c *Case) string {
				return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |", load(c),
					c.judged("p50 x TCP"), c.judged("p99 x TCP"), v(c, "requests"), v(c, "p50"), v(c, "p99"),
					v(c, "TCP"), v(c, "TCP p50"), v(c, "TCP p99"), strings.Join(c.misses(), ", "))
			})
		return
	}
	table("| | requests x TCP | CPU x TCP | p99.9 x TCP | requests/s | CPU | p50, p99, p99.9 | datagrams | sleeps | TCP: requests/s | CPU | p50, p99, p99.9 | sleeps | misses |",
		func(c *Case) bool { return c.Size > 0 }, func(c *Case) string {
			return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |",
				load(c), c.judged("x TCP"), c.judged("CPU x TCP"), c.judged("p99.9 x TCP"),
				v(c, "requests"), v(c, "CPU"), v(c, "p50", "p99", "p99.9"), v(c, "datagrams"), v(c, "sleeps"),
				v(c, "TCP"), v(c, "TCP CPU"), v(c, "TCP p50", "TCP p99", "TCP p99.9"), v(c, "TCP sleeps"),
				strings.Join(c.misses(), ", "))
		})
	table("| | goodput x TCP | CPU x TCP | Gb/s | CPU | TCP: Gb/s | CPU | misses |",
		func(c *Case) bool { return c.Size == 0 }, func(c *Case) string {
			return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |", load(c), c.judged("x TCP"),
				c.judged("CPU x TCP"), v(c, "goodput"), v(c, "CPU"), v(c, "TCP"), v(c, "TCP CPU"),
				strings.Join(c.misses(), ", "))
		})
}

// SignContended says in each case of contended which run it is from: a report may be put together
// from several.
func (r *Report) SignContended() {
	m := &r.Machine
	for _, c := range r.Of(ItemContended) {
		c.Run = fmt.Sprintf("`%s` at %s, %s, as %s; %s; others took %.0f %% of the machine's CPU time.",
			r.Command, m.Commit, m.Time, m.User, c.Run, 100*m.Foreign)
	}
}

// contendedSettings are the settings in the order of the report.
var contendedSettings = []string{FreeCPUs, Quota(1), Quota(0.5), Quota(0.2), OneCPU, OwnCPU, BusyEach,
	BusyOne, Pairs, BusyServer}

// Keep takes over those cases of contended of an older report that this one has not measured.
func (r *Report) Keep(old *Report) {
	for _, c := range old.Of(ItemContended) {
		if r.Find(func(n *Case) bool { return n.Item == c.Item && n.Name == c.Name }) == nil {
			r.Cases = append(r.Cases, *c)
		}
	}
	rank := func(c *Case) int {
		if c.Item != ItemContended {
			return len(contendedSettings)
		}
		return slices.Index(contendedSettings, c.Place)
	}
	size := func(c *Case) int { return (c.Size - 1) & math.MaxInt32 } // streams come last
	slices.SortStableFunc(r.Cases, func(a, b Case) int {
		if d := cmp.Compare(rank(&a), rank(&b)); d != 0 || a.Item != ItemContended {
			return d
		}
		return cmp.Or(cmp.Compare(size(&a), size(&b)), cmp.Compare(a.QPs, b.QPs))
	})
}
