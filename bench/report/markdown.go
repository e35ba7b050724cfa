package report

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// num prints a number with three digits or so.
func num(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// ranged is the median with the smallest and largest of the rounds.
func (c *Case) ranged(name string) string {
	f := c.Get(name)
	if f == nil {
		return "–"
	}
	return fmt.Sprintf("%s [%s–%s]", num(f.Median), num(f.Min), num(f.Max))
}

// spread is how far the farthest round is from the median.
func (c *Case) spread(name string) string {
	if f := c.Get(name); f != nil {
		if s := f.Spread(); !math.IsNaN(s) {
			return fmt.Sprintf("± %.0f %%", 100*s)
		}
	}
	return "–"
}

// Markdown returns the report; why is the section on what stops the aims that were missed.
func (r *Report) Markdown(why string) []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	m := &r.Machine
	p("# Benchmarks\n\nMade by `make bench`; don't edit. The data is in [%s](%s).\n", fileName, fileName)
	p("Every ratio is of two figures from the same round, measured one after the other; given is the median over the rounds%s,", r.length())
	p("and the smallest and largest round in brackets. Absolute figures are those of this machine at that time.")
	p("`go run ./bench/cmd/bench compare OLD NEW` says what differs between two runs by more than chance.\n")
	p("| | |\n|---|---|")
	p("| command | `%s` |\n| commit | %s |\n| time | %s |\n| kernel | %s |\n| CPU | %s, %d cores |\n| Go | %s |\n| network | %s |",
		strings.ReplaceAll(r.Command, "|", `\|`), m.Commit, m.Time, m.Kernel, m.CPU, m.Cores, m.Go, r.Network)
	if m.User != "" {
		p("| user | %s |", m.User)
	}
	for _, l := range r.Links {
		p("| link | %s |", l)
	}
	if r.Seconds > 0 {
		p("| took | %s |", took(r.Seconds))
	}
	p("| load average | %.1f at the start, %.1f at the end (this run included) |", m.LoadStart, m.LoadEnd)
	p("| CPU time taken by other processes | %.0f %% of the machine |", 100*m.Foreign)
	if m.Foreign > 0.1 {
		p("\n**The machine was not quiet.** Other processes took %.0f %% of its CPU time, so that latencies, percentiles above all, and", 100*m.Foreign)
		p("everything that needs both cores at once are worse than they would be, and ratios may be off either way.")
	}
	r.aims(p)
	r.single(p)
	r.latency(p)
	r.sockets(p)
	r.scale(p)
	r.shards(p)
	r.engine(p)
	r.verbs(p)
	r.contended(p)
	r.lab(p)
	r.why(p, why)
	if len(r.Notes) > 0 {
		p("\n## Notes\n")
		for _, n := range r.Notes {
			p("- %s", n)
		}
	}
	return b.Bytes()
}

// length is how many rounds there are, and how long a measurement takes; contended says that of
// each of its settings.
func (r *Report) length() string {
	if slices.Equal(r.Items, []string{ItemContended}) {
		return ""
	}
	return fmt.Sprintf(" (%d, of %d ms a measurement)", r.Rounds, r.RoundMs)
}

type printer = func(format string, args ...any)

func (r *Report) single(p printer) {
	if len(r.Of("single")) == 0 {
		return
	}
	p(`
## One queue pair

TCP is Go's net.Conn with one write for each message; it reads into and writes from the same memory. The
ceiling is the same link with packets of the same size, CRC on both sides and one copy, but no protocol: flow control is by
memory that both processes share. CPU and cycles are of both processes, cycles as the CPU counts them, if the kernel lets us
read that: many virtual machines have no such counter. WRITE alone is posted one by one, other small
messages in batches of 32. Medians of absolute figures need not be in the ratio given; the spread is how far the farthest round is from the median.
Where no MTU of the interface is given it is 9000.
An interface takes one xdp link: there device and ceiling are opened in turn, and neither is open while TCP runs. The
xdp link sends and receives frame by frame: nothing segments in copy mode.

%s
| | goodput, Gb/s | spread | messages, 1/s | x TCP | x ceiling | CPU, s/GB | spread | CPU x TCP | cycles/packet | packets/datagram | sent again |
|---|---|---|---|---|---|---|---|---|---|---|---|`, r.images("single"))
	for _, c := range r.Of("single") {
		p("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |", c.Name, num(c.Value("goodput")),
			c.spread("goodput"), num(c.Value("messages")), c.ranged("x TCP"), c.ranged("x ceiling"),
			num(c.Value("CPU")), c.spread("CPU"), c.ranged("CPU x TCP"), num(c.Value(CyclesPerPacket)),
			num(c.Value("packets/datagram")), num(c.Value("sent again")))
	}
}

func (r *Report) latency(p printer) {
	if len(r.Of("latency")) == 0 {
		return
	}
	p(`
## Half round trips of 64 B

Microseconds. The link is the same link with packets of the same size, no protocol, and the same way of waiting. TCP is Go's
net.Conn. The aims are about a CPU each: either process, with all its threads, may run on one CPU only, each on another; so
are those of TCP and of the link. With any CPU the scheduler may put both processes on one, where waking the other needs no
interrupt of an idle CPU, and mostly does so with TCP. On one CPU, where either process has to wait for the other to give
way, the link alone gives way at every look. Event-driven devices look for 30 us before they block, and for up to 200 us where packets come that soon after it; without spinning they
block at once.

![half round trips](latency.svg)

| | round trips a round | p50 | p99 | p99.9 | p50 x TCP | p50 x link | p99/p50 | p99 x link | TCP p50, p99, p99.9 | link p50, p99, p99.9 |
|---|---|---|---|---|---|---|---|---|---|---|`)
	for _, c := range r.Of("latency") {
		v := func(n string) string { return num(c.Value(n)) }
		p("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s, %s, %s | %s, %s, %s |", c.Name,
			v("round trips"), v("p50"), v("p99"), v("p99.9"), c.ranged("p50 x TCP"),
			c.ranged("p50 x link"), c.ranged("p99/p50"), c.ranged("p99 x link"), v("TCP p50"), v("TCP p99"),
			v("TCP p99.9"), v("link p50"), v("link p99"), v("link p99.9"))
	}
}

func (r *Report) scale(p printer) {
	if len(r.Of("scale")) == 0 {
		return
	}
	p(`
## Many queue pairs

All queue pairs are connected between the two devices; the first of them are used, with at least one message under way
on each. Messages of different queue pairs to one peer share datagrams on udp and packet. Jain's index is over the messages that each queue pair completed.

![many queue pairs](scale.svg)

| | goodput, Gb/s | messages, 1/s | x 1 QP | Jain | sent again |
|---|---|---|---|---|---|`)
	for _, c := range r.Of("scale") {
		if c.Mode == "goodput" {
			p("| %s | %s | %s | %s | %s | %s |", c.Name, num(c.Value("goodput")), num(c.Value("messages")),
				c.ranged("x 1 QP"), c.ranged("Jain"), num(c.Value("sent again")))
		}
	}
	p("\n| | |\n|---|---|")
	for _, c := range r.Of("scale") {
		if c.Mode != "goodput" {
			for _, f := range c.Figures {
				p("| %s: %s | %s %s |", c.Name, f.Name, num(f.Median), f.Unit)
			}
		}
	}
}

func (r *Report) shards(p printer) {
	if len(r.Of("shards")) == 0 {
		return
	}
	p(`
## Several shards

Two goroutines, each with a queue pair and a completion queue, post to one peer; on devices with two shards a side, a connection
on each, and on devices with one. On a machine with two cores the two nodes have no more CPUs for two shards than for one: the ratio
says what shards cost, not what they bring. Lock waits are from pprof's mutex profile of the requester, in a run apart, as a
share of the time of these goroutines; others of the device wait, too, and the waits of all are in the figure. After it, who held
what was waited for.

| | goodput, Gb/s | messages, 1/s | x 1 shard | CPU x 1 shard | packets/datagram | sent again | lock waits, 1 shard | lock waits | of these |
|---|---|---|---|---|---|---|---|---|---|`)
	for _, c := range r.Of("shards") {
		p("| %s | %s | %s | %s | %s | %s | %s | %s %% | %s %% | %s |", c.Name, num(c.Value("goodput")),
			num(c.Value("messages")), c.ranged("x 1 shard"), c.ranged("CPU x 1 shard"),
			num(c.Value("packets/datagram")), num(c.Value("sent again")),
			num(c.Value("lock waits, 1 shard")), num(c.Value("lock waits")), c.Text)
	}
}

func (r *Report) engine(p printer) {
	if len(r.Of("engine")) == 0 {
		return
	}
	p(`
## The engine alone

The benchmarks of package transport, without system calls. Packet: one op is a packet of the part named; +icrc is with the
ICRC of every packet computed or checked, as the links do it. Stream and Window: a packet, sent and received; ManyQPs: a
WRITE on the next of so many queue pairs, with its acknowledgement. Each round runs all of them once.

### What the ICRC costs

![engine with and without ICRC](engine-icrc.svg)

| packet | engine, ns | with ICRC, ns | ICRC, ns | x without |
|---|---|---|---|---|`)
	for _, c := range r.Of("engine") {
		plain, ok := strings.CutSuffix(c.Name, icrcSuffix)
		if base := r.engineCase(plain); ok && base != nil {
			p("| %s | %s | %s | %s | %s |", strings.TrimPrefix(plain, "Packet/"), num(base.Value("time")),
				num(c.Value("time")), num(c.Value("time")-base.Value("time")), c.ranged(XWithoutICRC))
		}
	}
	p(`
### Growth with queue pairs and with the window

x is the time of an op against that with the fewest, of the same round.

![growth](engine-growth.svg)

| | ns/op | x |
|---|---|---|`)
	for _, c := range r.Of("engine") {
		if k := kind(c); k == "ManyQPs" || k == "Window" {
			p("| %s | %s | %s |", c.Name, c.ranged("time"), c.ranged(XSmallest))
		}
	}
	p(`
### Engines on several cores

So many engines of one device, each with a peer and in a goroutine of its own, share a table of memory. An op is a batch of 32 messages of any of them, with
acknowledgements and completions; x is how many times as fast as one engine, of the same round.

| | ns/op | x one engine |
|---|---|---|`)
	for _, c := range r.Of("engine") {
		if kind(c) == "Engines" {
			p("| %s | %s | %s |", strings.TrimPrefix(c.Name, "Engines/"), c.ranged("time"), c.ranged(XOneEngine))
		}
	}
	p(`
### All

| | ns/op | allocs/op | MB/s |
|---|---|---|---|`)
	for _, c := range r.Of("engine") {
		p("| %s | %s | %s | %s |", c.Name, c.ranged("time"), num(c.Value("allocs")), num(c.Value("goodput")))
	}
}

// icrcSuffix ends the names of benchmarks of the engine with ICRC.
const icrcSuffix = "+icrc"

func (r *Report) engineCase(name string) *Case {
	return r.Find(func(c *Case) bool { return c.Item == "engine" && c.Name == name })
}

// kind is the first part of the name of a benchmark.
func kind(c *Case) string {
	k, _, _ := strings.Cut(c.Name, "/")
	return k
}

// images are the charts of goodput, one a link.
func (r *Report) images(item string) string {
	var b strings.Builder
	for _, l := range r.links() {
		if r.Find(func(c *Case) bool { return c.Item == item && c.Link == l }) != nil {
			fmt.Fprintf(&b, "![goodput over %s](goodput-%s.svg)\n", l, l)
		}
	}
	return b.String()
}

// took prints a duration.
func took(seconds float64) string { return time.Duration(seconds * 1e9).Round(time.Second).String() }

// why is the section on the aims that were missed: which they are, and the text.
func (r *Report) why(p printer, text string) {
	missed := r.Missed()
	if len(missed) == 0 && text == "" {
		return
	}
	p("\n## What stops it\n")
	if len(missed) == 0 {
		p("No aim that was measured was missed in this run.")
	} else {
		p("Missed in this run:\n")
		for _, m := range missed {
			p("- %s", m)
		}
	}
	if text != "" {
		p("\nThe rest of this section is written by hand ([%s](%s)), from profiles that `go run ./bench/cmd/bench -profile CASE` stores and prints.\n\n%s",
			whyName, whyName, strings.TrimSpace(text))
	}
}

func (r *Report) lab(p printer) {
	if len(r.Of("lab")) == 0 {
		return
	}
	rounds := 0
	for _, c := range r.Of("lab") {
		if f := c.Get("x rxe"); f != nil {
			rounds = max(rounds, len(f.Rounds))
		}
	}
	p(`
## Two guests: goroce and the kernel's rxe

The same two emulated machines, kernel, network and perftest arguments, in turn, in each of %d rounds; a run of its own:
`+"`%s`"+`, which took %s. Guests: %s.

Bandwidth in MB/s, latency (t_typical) in microseconds. CPU is that of both guests. perftest spins on the completion queue unless told -e;
its tests of WRITE can only spin. Polling: goroce's thread polls the device. Rows of ib_* are perftest itself in both places: on rxe, and on this
project's verbs libraries; all others compare with the project's tool.
goroce hands the kernel runs of packets, whose UDP checksums somebody has to compute; rxe sends packet by packet, without checksums.
With offloads (scatter-gather, checksum, segmentation: virtual machines on a bridge of the kernel have them, and most network cards) a run
passes whole. Without (on the interop lab's wire) the kernel cuts it up by copying, and computes a checksum at either end.

| | goroce | rxe | goroce x rxe | CPU a byte x rxe | p99 x rxe |
|---|---|---|---|---|---|`, rounds, r.LabCommand, took(r.LabSeconds), r.Lab)
	for _, c := range r.Of("lab") {
		p("| %s | %s | %s | %s | %s | %s |", c.Name, num(c.Value("goroce")), num(c.Value("rxe")),
			c.ranged("x rxe"), c.ranged("CPU x rxe"), c.ranged("p99 x rxe"))
	}
}
