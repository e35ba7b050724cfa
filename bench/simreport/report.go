package simreport

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Write makes the report in a folder: README.md and its charts.
func (o *Outcome) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := o.Charts()
	files["README.md"] = o.Markdown()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
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
seed alone: made again, this page shows no difference.

The network: one switch, cables of 40 Gb/s and 1 us each way; a buffer of 12 MiB that
the ports share (a queue may be as long as what is free), no priority flow control.
Each sender has one RC connection with MTU 1024, a window of 256 packets, and WRITEs of
16 KiB always queued. With DCQCN the switch marks with RED, Kmin 5 KB, Kmax 200 KB,
Pmax 1 %%, as in the paper (Zhu et al., SIGCOMM 2015), and CNPs are at least 50 us apart
(4 us for dcqcn-mellanox). 40 Gb/s on the cable are 37.1 Gb/s of payload at this MTU.

## Incast

K senders start together. Figures are of the time after settling: the last 10 ms of 20
(none), 60 of 120 (dcqcn-paper), 100 of 400 (dcqcn-mellanox). Marks, CNPs and drops are
those of the whole run.

| senders | congestion control | utilisation | goodput, Gb/s | Jain | queue p50, KB | p90 | p99 | most | marked | CNPs | dropped |
|---|---|---|---|---|---|---|---|---|---|---|---|`)
	row := func(k int, name string, r *Result) {
		q := &r.Queue
		p("| %d | %s | %.1f %% | %.2f | %.3f | %s | %s | %s | %s | %d | %d | %d |", k, name, 100*r.Utilization, r.Total, r.Jain,
			kb(q.Percentile(0.5)), kb(q.Percentile(0.9)), kb(q.Percentile(0.99)), kb(q.PeakBytes), r.Marked, r.CNPs, r.Dropped)
	}
	for i, k := range IncastSenders {
		for _, x := range schemes {
			row(k, x.name, o.Incast[x.name][i])
		}
	}
	row(16, "dcqcn-paper, Pmax 10 %", o.Pmax10)
	p(`
![utilisation](incast-utilization.svg)
![queue percentile](incast-queue.svg)
![queue over time](incast-queue-time.svg)

Without congestion control the queue holds the windows of all senders. With the paper's
parameters it is a ninth of that or less, and the port stays busy. The more senders there
are, the more often each has to be marked: by the fixed point of the algorithm (Zhu et
al., CoNEXT 2016) 16 flows of this packet size need about 1.5 %%, which is above Pmax, so
that the queue swings about Kmax; with Pmax 10 %% it does not. ConnectX's defaults cut the
rate every 4 us while the first burst drains, down to hundreds of Mb/s, and then add 5 or
50 Mb/s in 300 us: they are gentle to the queue and slow to come back.

## A buffer that is too small

%d:1 with a buffer of 1 MiB, less than the windows of all senders.

| congestion control | goodput, Gb/s | Jain | slowest flow, Gb/s | dropped | packets sent again | timeouts |
|---|---|---|---|---|---|---|`, shallowK)
	for i, r := range o.Shallow {
		p("| %s | %.2f | %.3f | %.2f | %d | %d | %d |", []string{"none", "dcqcn-paper"}[i], r.Total, r.Jain, slices.Min(r.Goodput),
			r.Dropped, r.Resent, r.Timeouts)
	}
	ns, ok := o.Late.Convergence(lateStartNs)
	p(`
Dropped, sent again and timeouts are of the whole run of 120 ms; with DCQCN they are
those of its first moments, when all senders begin at line rate.

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
