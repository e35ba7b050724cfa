package simreport

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goroce/goroce/transport/cc"
)

// Write makes docs/congestion in a folder: all pages, or only one, and their charts.
func Write(dir, only string, progress func(string)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, page := range []struct {
		name  string
		files func() (map[string][]byte, error)
	}{
		{"loss", func() (map[string][]byte, error) { return LossPage(progress) }},
		{"control", func() (map[string][]byte, error) { return ControlPage(progress) }},
		{"README", func() (map[string][]byte, error) {
			o, err := Experiments(func(r *Result) {
				progress(fmt.Sprintf("%s: %d packets, %.1f %% of the port", r.Scenario.Name, r.Packets,
					100*r.Utilization))
			})
			if err != nil {
				return nil, err
			}
			return o.Files(), nil
		}},
	} {
		if only != "" && only != page.name {
			continue
		}
		files, err := page.files()
		if err != nil {
			return err
		}
		for name, b := range files {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// Files returns the report by file name: README.md and its charts.
func (o *Outcome) Files() map[string][]byte {
	files := o.Charts()
	files["README.md"] = o.Markdown()
	return files
}

func kb(bytes int) string { return fmt.Sprintf("%.0f", float64(bytes)/1000) }

// after prints a time, or that it did not come.
func after(ns int64, ok bool) string {
	if !ok {
		return "not in the run"
	}
	return fmt.Sprintf("%.1f ms", float64(ns)/float64(Millisecond))
}

// Markdown returns the report.
func (o *Outcome) Markdown() []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p(`# Congestion control in the simulated fabric

Made by ` + "`make sim-report`" + `; don't edit. The engine that runs is the real one, on every
host; hosts, cables, switch and clock are those of ` + "`roce/link/sim`" + `. A run depends on its
seed alone: made again, this page shows no difference. Other pages: [what loss leaves of the rate](loss.md),
[control by round trips on slow paths](control.md).

The network: one switch, cables of 40 Gb/s and 1 us each way; a buffer of 12 MiB that
the ports share (a queue may be as long as what is free), no priority flow control.
Each sender has one RC connection with MTU 1024, a window of 256 packets, and WRITEs of
16 KiB always queued. With DCQCN the switch marks with RED, Kmin 5 KB, Kmax 200 KB,
Pmax 1 %%, by the queue that a packet leaves behind, as in the paper (Zhu et al., SIGCOMM 2015), and CNPs are at least 50 us apart
(4 us for dcqcn-mellanox). 40 Gb/s on the cable are 37.1 Gb/s of payload at this MTU.

## Incast

K senders start together. Figures are of the time after settling: the last 10 ms of 20
(none), 60 of 120 (dcqcn-paper), 120 of 240 (dcqcn-mellanox). Marks, CNPs and drops are
those of the whole run.

| senders | congestion control | utilisation | goodput, Gb/s | Jain | queue p50, KB | p90 | p99 | most | marked | CNPs | dropped |
|---|---|---|---|---|---|---|---|---|---|---|---|`)
	row := func(k int, name string, r *Result) {
		q := &r.Queue
		p("| %d | %s | %.1f %% | %.2f | %.3f | %s | %s | %s | %s | %d | %d | %d |", k, name,
			100*r.Utilization, r.Total, r.Jain, kb(q.Percentile(0.5)), kb(q.Percentile(0.9)),
			kb(q.Percentile(0.99)), kb(q.PeakBytes), r.Marked, r.CNPs, r.Dropped)
	}
	for i, k := range IncastSenders {
		for _, x := range schemes {
			row(k, x.name, o.Incast[x.name][i])
		}
		row(k, "dcqcn-paper, Pmax 10 %", o.Pmax10[i])
	}
	p(`
![utilisation](incast-utilization.svg)
![queue percentile](incast-queue.svg)
![queue over time](incast-queue-time.svg)

Without congestion control the queue holds the windows of all senders. With the paper's
parameters it is bounded by Kmax, and the port stays busy.

### What 16:1 and 20:1 depend on

The paper has more than 39 of 40 Gb/s on the port for incasts of up to 20, and so has this. For that the
switch has to mark a packet when it leaves, by the queue that is then behind it, as switches with a shared memory
do. If it marks a packet when it arrives, the mark waits in the queue with it, some 50 us at Kmax, which is as much
again as the gap between CNPs: the flows learn too late that there is a queue, and too late that there is none, and
the queue swings between nothing and beyond Kmax. %d:1, changed:

| changed | utilisation | queue p50, KB | p90 | marked packets |
|---|---|---|---|---|`, variantSenders)
	for _, v := range o.Variants {
		r := v.result
		p("| %s | %.1f %% | %s | %s | %.2f %% |", v.name, 100*r.Utilization, kb(r.Queue.Percentile(0.5)),
			kb(r.Queue.Percentile(0.9)), 100*r.MarkedShare())
	}
	p(`
How flows start has no part in it, and a CNP for every mark would be far too much: the rate is cut again before
the last cut has shown.

The length of the queue follows from how much has to be marked. The algorithm has a fixed point (Zhu et al., CoNEXT 2016):
the fraction of packets that must be marked for what marks take from a flow to be what its increase
gives it. It grows with the number of flows, and RED marks as much at a certain length only:

| senders | fixed point | marked, Pmax 1 %% | utilisation | queue p90, KB | marked, Pmax 10 %% | utilisation | queue p90, KB |
|---|---|---|---|---|---|---|---|`)
	profile := cc.Paper()
	for i, k := range IncastSenders {
		one, ten := o.Incast["dcqcn-paper"][i], o.Pmax10[i]
		p("| %d | %.2f %% | %.2f %% | %.1f %% | %s | %.2f %% | %.1f %% | %s |", k,
			100*FixedPoint(k, &profile, wireBytes), 100*one.MarkedShare(), 100*one.Utilization,
			kb(one.Queue.Percentile(0.9)), 100*ten.MarkedShare(), 100*ten.Utilization, kb(ten.Queue.Percentile(0.9)))
	}
	p(`
With more than about ten flows of this packet size the fixed point is above Pmax = 1 %%, so that the queue stands at Kmax,
where marking goes to 100 %%. The paper's testbed had a 90th percentile of 77 KB for 20:1 with the same thresholds. At that length RED
marks 0.4 %%, a fifth of what 20 flows need by the paper's own equations, so that its senders must have asked for
less than they say; with Pmax 10 %% the queue is as long as that here.

### ConnectX's defaults

ConnectX's defaults take a tenth of a second to settle, and then use 95 %% and more of the port. The two
incasts, for longer:

| senders | least rate of a flow, Mb/s | goodput is 90 %% of what the port carries after | Gb/s of the first 100 ms | 100 to 200 | 200 to 300 | 300 to 400 | 400 to 500 | 500 to 600 |
|---|---|---|---|---|---|---|---|---|`)
	for i, r := range o.Long {
		_, g := r.goodputs(100 * Millisecond)
		ns, ok := r.settled(settledShare * payloadGbps)
		p("| %d | %.0f | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |", longSenders[i], 1000*r.least(),
			after(ns, ok), g[0], g[1], g[2], g[3], g[4], g[5])
	}
	p(`
![allowed rate of one flow, start](mellanox-start.svg)
![allowed rate of one flow, later](mellanox-later.svg)

All senders begin at line rate. While that burst is in the queue there are CNPs every 4 us, and alpha, which begins near 1,
hardly falls in between: some 15 cuts by nearly a half bring each flow to 1 or 2 Mb/s. The way up is
given by the parameters. 5 Mb/s in 300 us are 17 Gb/s in a second. The hyper increase, which is ten times that, begins when not only the timer but
the byte counter, too, has made two steps, of 2 MB each: 61 ms after the start, at 1 Gb/s. From there it takes 22 ms to
the share of a flow of 8:1, 8 ms to that of 16:1. Afterwards flows go up and down about their share: a cut by a few percent, since alpha
halves within 142 us without CNPs, then steps of 5 Mb/s, then of 50.

## A buffer that is too small

%d:1 with a buffer of 1 MiB, less than the windows of all senders.

| congestion control | goodput, Gb/s | Jain | slowest flow, Gb/s | dropped | packets sent again | timeouts |
|---|---|---|---|---|---|---|`, shallowK)
	for i, r := range o.Shallow {
		p("| %s | %.2f | %.3f | %.2f | %d | %d | %d |", []string{"none", "dcqcn-paper"}[i], r.Total, r.Jain,
			slices.Min(r.Goodput), r.Dropped, r.Resent, r.Timeouts)
	}
	p(`
Dropped, sent again and timeouts are of the whole run of 120 ms; with DCQCN they are
those of its first moments, when all senders begin at line rate.

## Four senders across a Clos network

Two senders are under one switch, a third is under another, the fourth under the receiver's own. The packets of the first
three pass four more cables of 40 Gb/s, two of them sharing the last; ACKs and CNPs come back by as
many. Each switch marks as above. The paper has about 10 Gb/s for each; of payload a fair share is 9.28.

| congestion control | flow 1, Gb/s | flow 2 | flow 3 | flow 4, near | Jain | utilisation | queue p90, KB |
|---|---|---|---|---|---|---|---|`)
	for i, r := range o.Clos {
		p("| %s | %.2f | %.2f | %.2f | %.2f | %.3f | %.1f %% | %s |", schemes[i].name, r.Goodput[0],
			r.Goodput[1], r.Goodput[2], r.Goodput[3], r.Jain, 100*r.Utilization, kb(r.Queue.Percentile(0.9)))
	}
	p(`
![four flows across a Clos network](clos.svg)`)
	ns, ok := o.Late.Convergence(lateStartNs)
	p(`
## A late flow

Three flows share the port for 20 ms, then a fourth one starts at line rate. All four
share fairly (Jain's index over 2 ms stays at 0.95 or more for 10 ms) after %s.

![late flow](late-flow.svg)

## A lone flow recovers

Of two flows one stops at 60 ms. The other is back at 95 %% of line rate after

| congestion control | time |
|---|---|`, after(ns, ok))
	for i, r := range o.Lone {
		ns, ok := r.Recovery(0, leaveNs, 0.95)
		p("| %s | %s |", []string{"dcqcn-paper", "dcqcn-mellanox"}[i], after(ns, ok))
	}
	p(`
![lone flow](lone-flow.svg)
![lone flow, ConnectX's defaults](lone-flow-mlnx.svg)

## Parameters that do not converge

Two flows that begin at 40 and at 5 Gb/s. With a timer of 1.5 ms and a byte counter of
150 KB, those of QCN, the faster flow increases more often than the slower one, and
cut-off marking punishes both alike: the slow one starves. The paper's parameters bring
both to the half. Jain's index over the last 50 of 150 ms, for seeds 1 to %d, and the
goodputs of seed 1; converged is as above.

| increase by | Jain, seeds | flow 1, Gb/s | flow 2, Gb/s | converged, seed 1 |
|---|---|---|---|---|`, fairnessSeeds)
	for _, f := range o.Fairness {
		jain := ""
		for _, r := range f.results {
			jain += fmt.Sprintf("%.3f ", r.Jain)
		}
		r := f.results[0]
		ns, ok := r.Convergence(0)
		p("| %s | %s | %.1f | %.1f | %s |", f.name, jain[:len(jain)-1], r.Goodput[0], r.Goodput[1], after(ns, ok))
	}
	p("")
	for _, f := range o.Fairness {
		p("![%s](fairness-%s.svg)", f.name, f.file)
	}
	return b.Bytes()
}
