package micro

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

// Markdown is the page.
func (d *Data) Markdown() []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	var t *report.Table
	p("# Micro-behaviours\n")
	p("How goroce, on each of its links, and the kernel's rdma_rxe react to what goes wrong: the questions are Lumina's (SIGCOMM 2023). Made by\n")
	p("    %s\n", d.Command)
	p("which boots the guests, measures, and writes this page, its charts and [the data](micro.json); `-redraw` makes page and charts of the data again.\n")
	p("- %s, %d cores; %s; %s; %s.", d.Machine.CPU, d.Machine.Cores, d.Machine.Kernel, d.Machine.Go, d.Machine.Time)
	p("- Load of the machine at begin and end: %.1f and %.1f; others had %.0f %% of its CPU time meanwhile.",
		d.Machine.LoadStart, d.Machine.LoadEnd, 100*d.Machine.Foreign)
	for _, g := range d.Guests {
		p("- %s, in a QEMU guest with one emulated CPU.", g)
	}
	p("- goroce and rxe are the two ends of a wire; each row was measured %d times with goroce as requester, and with it as responder. A number is put into", d.Times)
	p("  the column of the side that it is about: goroce's are from runs against every kernel, rxe's from runs against every link.\n")
	p("**rxe runs on an emulated CPU, and goroce does not.** Compare a column with its own line \"ACK\", the shortest reaction that there is, and not with")
	p("another column. Times are those at the wire between the two; the way from there to the implementation and back, an interface of the kernel or of QEMU, is in all of them.\n")
	p("## Times\n")
	p("The median, and in brackets the range from the 10th to the 90th percentile.\n")
	t = d.header(&b)
	for _, m := range metrics {
		d.line(t, m.name, func(who string) string { return times(d.samples(m.op, m.key, who, m.of)) })
	}
	p("\nREAD recovery has an ACK timeout of 268 ms: rxe waits for it ([rxe, row 23](../rxe.md#row-23)). rxe sends no CNP ([row 17](../rxe.md#row-17)). goroce makes two CNPs 50 us apart at least;")
	p("on a busy machine the second is read from its interface together with the first.\n")
	charts := d.Charts()
	show := func(alt, file string) {
		if charts[file] != nil {
			p("![%s](%s)\n", alt, file)
		}
	}
	show("NAK generation", "nak-made.svg")
	show("Retransmission", "resend.svg")
	show("READ recovery", "read-recovery.svg")
	show("CNP gap", "cnp-gap.svg")
	p("## Timeouts\n")
	p("The last packet of a SEND is lost for ever; the ACK timeout is 67.1 ms (code 14), retry_cnt 6. Times between the transmissions, in ms, medians:\n")
	t = d.header(&b)
	for i := 1; ; i++ {
		if !slices.ContainsFunc(d.Columns(), func(who string) bool { return len(d.intervals(i, who)) > 0 }) {
			break
		}
		d.line(t, fmt.Sprintf("%d to %d", i, i+1), func(who string) string { return spread(d.intervals(i, who)) })
	}
	p("\ngoroce sends the last packet again on suspicion before its timer runs out ([loss](../loss.md)); that takes no retry. What is above 7 transmissions besides")
	p("comes from the packets before the lost one: their ACK is progress, which gives the retries back.\n")
	show("Timeout series", "timeouts.svg")
	p("## Numbers of packets\n")
	p("The median, and in brackets the range if there is one.\n")
	t = d.header(&b)
	for _, m := range counts {
		d.line(t, m.name, func(who string) string { return spread(d.samples(m.op, m.key, who, m.of)) })
	}
	p("\n## Noisy neighbours\n")
	qps, percent := d.noise()
	p("One queue pair loses nothing. Beside it %.0f others keep WRITEs of 64 KiB on their way, first without a loss, then with %.0f %% of their packets lost; the", qps, percent)
	p("numbers are the victim's. Goodput is measured from the first packet to the ACK. With goroce as requester all of them wait for the guest's one CPU, which takes what they")
	p("send: the less others send, since they repair losses, the less the victim waits.\n")
	t = d.header(&b)
	for _, v := range victims {
		for _, x := range []struct{ key, beside string }{{v.quiet, "others without losses"}, {v.lossy,
			"others with losses"}} {
			d.line(t, v.name+": "+x.beside, func(who string) string {
				s := d.samples(noiseOp, x.key, who, requester)
				if strings.HasSuffix(x.key, "_us") {
					return times(s)
				}
				return spread(s)
			})
		}
	}
	p("")
	show("Noisy neighbours", "neighbours.svg")
	p("## Counters against the trace\n")
	p("A gap, a copy, a lost response, a damaged packet, marks of congestion and a missing receive, one after the other. What the wire has seen, and, if it is another number, what the counter")
	p("says; sums of all runs.\n")
	t = d.header(&b)
	for _, c := range counters {
		d.line(t, c.name, func(who string) string { return d.counted(c.key, who, c.of) })
	}
	return b.Bytes()
}

// header begins a table with a column for each implementation.
func (d *Data) header(w io.Writer) *report.Table {
	return report.Begin(w, append([]string{""}, d.Columns()...)...)
}

// line is one of its lines.
func (d *Data) line(t *report.Table, name string, cell func(who string) string) {
	t.Row(report.Cells(d.Columns(), cell, name)...)
}

// none is what a cell says where there is nothing.
const none = "-"

// times are those of a cell, which are in microseconds.
func times(us []float64) string {
	if len(us) == 0 {
		return none
	}
	lo, mid, hi := quantile(us, 0.1), quantile(us, 0.5), quantile(us, 0.9)
	unit, by := "us", 1.0
	if mid >= 1e4 {
		unit, by = "ms", 1e3
	}
	return fmt.Sprintf("%s %s (%s-%s)", number(mid/by), unit, number(lo/by), number(hi/by))
}

// spread is the median with the range.
func spread(v []float64) string {
	if len(v) == 0 {
		return none
	}
	lo, mid, hi := number(v[0]), number(quantile(v, 0.5)), number(v[len(v)-1])
	if lo == hi {
		return mid
	}
	return fmt.Sprintf("%s (%s-%s)", mid, lo, hi)
}

// number has three digits, or all before the point.
func number(v float64) string {
	switch {
	case v == float64(int(v)) || v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// counted is what the wire has seen of something, and the counter.
func (d *Data) counted(key, who string, s side) string {
	seen, said, has := 0.0, 0.0, false
	for _, r := range d.rows(countersOp, who, s) {
		seen += r.Measured[key+"_seen"]
		if n, ok := r.Measured[key+"_counted"]; ok {
			said, has = said+n, true
		}
	}
	switch {
	case !has:
		return fmt.Sprintf("%.0f; no counter", seen)
	case said != seen:
		return fmt.Sprintf("%.0f; **counts %.0f**", seen, said)
	}
	return fmt.Sprintf("%.0f", seen)
}

// noise says how many neighbours there were, and how much they lost.
func (d *Data) noise() (qps, percent float64) {
	for _, r := range d.Rows {
		if r.Op == noiseOp && r.Measured != nil {
			return r.Measured["noisy_qps"], r.Measured["loss_percent"]
		}
	}
	return 0, 0
}
