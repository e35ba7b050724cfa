package paths

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Aims.
const (
	aimOfTCP = 0.95 // of the best TCP's goodput
	aimBound = 0.97 // of what the packet format leaves, if that is less
	aimShare = 1.0 / 3
	aimDrops = 0.005 // of packets, in a queue of a path without loss
)

// page is the report.
func (r *Report) page() []byte {
	var b bytes.Buffer
	b.WriteString("# Paths that lose, delay and are shared\n\ngoroce, TCP and quic-go over the project's own link in user space, between two network namespaces of one machine. Made by\n\n")
	for i := range r.Runs {
		x := &r.Runs[i]
		m := &x.Machine
		fmt.Fprintf(&b, "    %s\n    # %s, %s, %s, load %.0f at the start, %.0f at the end; rounds of %v, after %v that do not count\n",
			x.Command, m.Time, m.Commit, m.User, m.LoadStart, m.LoadEnd, x.Time, x.Warm)
	}
	m := &r.Runs[0].Machine
	fmt.Fprintf(&b, `
on %s, %d processors, %s, %s.

Each round is a connection of its own, between two new processes. WRITE and READ have 128
messages of 64 KiB posted on one queue pair of a device with the link udp, event-driven, with the defaults, and with each congestion control of `+"`--cc`"+`. As many READs
are under way as a device has, 128, as in perftest. The ACK timeout is 67 ms, and 537 ms where a round trip with a full queue takes more than half of that. rsocket, TCP and QUIC are written in chunks of 256 KiB. The devices have an MTU of
1,500, of which RoCE packets of 1,024 bytes leave a third unused. Both directions have the path's loss, delay and order; a rate is that of the cable, frame overhead included, and a
queue of 100 packets has room for 100 of 1,500 bytes. Figures are medians of the rounds that count. "behind" is where the link fell behind in all rounds.

`, m.CPU, m.Cores, m.Kernel, m.Go)
	r.goodput(&b)
	r.shares(&b)
	r.repeats(&b)
	r.small(&b)
	r.instrument(&b)
	return b.Bytes()
}

// median is the middle of what the rounds of a cell gave that count; false if none does.
func (r *Report) median(row, contender string, of func(*Result) float64) (float64, bool) {
	var v []float64
	for i := range r.Results {
		x := &r.Results[i]
		if x.Row == row && x.Contender == contender && x.Error == "" && x.Behind == "" {
			v = append(v, of(x))
		}
	}
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	return v[len(v)/2], true
}

func mbps(x *Result) float64 { return x.Mbps }

// table writes a table of the rows and columns for which cell has something to say.
func table(b *bytes.Buffer, rows []Row, cols []Contender, cell func(*Row, *Contender) string) {
	lines := make([][]string, len(rows))
	used := make([]bool, len(cols))
	for i := range rows {
		for k := range cols {
			s := cell(&rows[i], &cols[k])
			lines[i] = append(lines[i], s)
			used[k] = used[k] || s != ""
		}
	}
	line := func(name string, cell func(k int) string) {
		b.WriteString("| " + name + " |")
		for k := range cols {
			if used[k] {
				b.WriteString(" " + cell(k) + " |")
			}
		}
		b.WriteByte('\n')
	}
	line("path", func(k int) string { return cols[k].Name })
	line("---", func(int) string { return "---" })
	for i := range rows {
		if strings.Join(lines[i], "") != "" {
			line(strings.TrimSuffix(rows[i].Name, smallSuffix), func(k int) string { return lines[i][k] })
		}
	}
	b.WriteByte('\n')
}

// pick are the rows of a kind.
func pick(is func(*Row) bool) (rows []Row) {
	for _, row := range Rows() {
		if is(&row) {
			rows = append(rows, row)
		}
	}
	return rows
}

func isAlone(r *Row) bool { return r.Beside == "" && !r.Small }

// bold marks what misses an aim.
func bold(missed bool, format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	if missed {
		return "**" + s + "**"
	}
	return s
}

func (r *Report) goodput(b *bytes.Buffer) {
	fmt.Fprintf(b, "## Goodput\n\nMb/s of payload. Bold: below %g of the better TCP, or below quic-go. Where that is more than RoCE's packets leave of the rate (%.1f of 200 Mb/s),\n"+
		"below %g of what they leave.\n\n", aimOfTCP, payloadOf(200), aimBound)
	var missed, cells [2]int // with the defaults, and otherwise
	table(b, pick(isAlone), contenders(), func(row *Row, c *Contender) string {
		v, ok := r.median(row.Name, c.Name, mbps)
		if !ok {
			return r.why(row, c)
		}
		if !c.isGoroce() {
			return fmt.Sprintf("%.0f", v)
		}
		best := r.toBeat(row)
		kind := 0
		if c.GoBack || c.Control != "" {
			kind = 1
		}
		cells[kind]++
		if v < best {
			missed[kind]++
		}
		return bold(v < best, "%.0f", v)
	})
	fmt.Fprintf(b, "With the defaults %d of %d cells miss the aim; with another control, or going back, %d of %d.\n\n",
		missed[0], cells[0], missed[1], cells[1])
}

// isGoroce reports whether it is goroce.
func (c *Contender) isGoroce() bool { return c.Kind != flowTCP && c.Kind != flowQUIC }

// toBeat is what goroce is to reach on a path.
func (r *Report) toBeat(row *Row) (best float64) {
	for _, c := range contenders() {
		if v, ok := r.median(row.Name, c.Name, mbps); ok {
			switch c.Kind {
			case flowTCP:
				best = max(best, aimOfTCP*v)
			case flowQUIC:
				best = max(best, v)
			}
		}
	}
	if row.Path.Mbps > 0 {
		best = min(best, aimBound*payloadOf(row.Path.Mbps))
	}
	return best
}

// payloadOf is the payload, in Mb/s, of full RoCE packets that fill a rate.
func payloadOf(mbps float64) float64 {
	const payload, headers = 1024, 20 + 8 + 12 + 4 // IPv4, UDP, BTH, ICRC
	return mbps * payload / (payload + headers + frameOverhead)
}

// why says why a cell has no figure, "" if it was not measured.
func (r *Report) why(row *Row, c *Contender) (why string) {
	for i := range r.Results {
		switch x := &r.Results[i]; {
		case x.Row != row.Name || x.Contender != c.Name:
		case x.Error != "":
			return "fails"
		case x.Behind != "":
			why = "behind"
		}
	}
	return why
}

func (r *Report) shares(b *bytes.Buffer) {
	b.WriteString("## Beside a TCP flow\n\nMb/s of payload, of the contender and of the TCP flow. Bold: one of them has less than a third of both.\n\n")
	table(b, pick(func(r *Row) bool { return r.Beside != "" }),
		slices.DeleteFunc(contenders(), func(c Contender) bool { return c.Kind == flowQUIC }),
		func(row *Row, c *Contender) string {
			v, ok := r.median(row.Name, c.Name, mbps)
			w, _ := r.median(row.Name, c.Name, func(x *Result) float64 { return x.Beside })
			if !ok {
				return r.why(row, c)
			}
			return bold(c.isGoroce() && min(v, w) < aimShare*(v+w), "%.0f / %.0f", v, w)
		})
}

func (r *Report) repeats(b *bytes.Buffer) {
	fmt.Fprintf(b, `## Dropped, sent again, and sent again for nothing

In percent of the packets with payload that came to the link: what its queue had no room for; what was sent again; what of that the link had delivered before. As the link
counts them. QUIC's numbers are encrypted. Bold: more than %g %% have no room on a path that loses nothing by itself and marks nothing.

`, aimDrops*100)
	share := func(n func(*Result) int) func(*Result) float64 {
		return func(x *Result) float64 { return 100 * float64(n(x)) / float64(max(1, x.Data)) }
	}
	table(b, pick(isAlone), contenders(), func(row *Row, c *Contender) string {
		d, ok := r.median(row.Name, c.Name, share(func(x *Result) int { return x.Dropped }))
		if !ok {
			return ""
		}
		clean := row.Path.Loss == 0 && row.Path.Mark == 0 && c.isGoroce()
		if c.Kind == flowQUIC {
			return fmt.Sprintf("%.2f", d)
		}
		again, _ := r.median(row.Name, c.Name, share(func(x *Result) int { return x.Repeats }))
		needless, _ := r.median(row.Name, c.Name, share(func(x *Result) int { return x.Needless }))
		return bold(clean && d > aimDrops*100, "%.2f", d) + fmt.Sprintf(" / %.2f / %.2f", again, needless)
	})
}

func (r *Report) small(b *bytes.Buffer) {
	fmt.Fprintf(b, `## A small message beside a bulk transfer

%d bytes there and back on a connection of their own, one each %v, while the bulk transfer goes on; half of them, and all but one in a thousand, within so many milliseconds.

`, pingBytes, pingEvery)
	cols := slices.DeleteFunc(contenders(), func(c Contender) bool { return c.Kind == flowRead })
	table(b, pick(func(r *Row) bool { return r.Small }), cols, func(row *Row, c *Contender) string {
		half, ok := r.median(row.Name, c.Name, func(x *Result) float64 { return x.P50 / 1e3 })
		most, _ := r.median(row.Name, c.Name, func(x *Result) float64 { return x.P999 / 1e3 })
		if !ok {
			return r.why(row, c)
		}
		return fmt.Sprintf("%.1f / %.1f", half, most)
	})
}

// instrument says what the link is good for.
func (r *Report) instrument(b *bytes.Buffer) {
	b.WriteString("## What the link carries, and how exact it is\n\nWithout a rate, a delay or a loss, in Mb/s of payload: what is below is bound by the path, and not by the machine.\n\n")
	table(b, []Row{calibration()}, contenders(), func(row *Row, c *Contender) string {
		if v, ok := r.median(row.Name, c.Name, mbps); ok {
			return fmt.Sprintf("%.0f", v)
		}
		return ""
	})
	var late50, late99, worst, busy []float64
	behind := 0
	for i := range r.Results {
		x := &r.Results[i]
		if x.Row == calibration().Name || x.Error != "" {
			continue
		}
		if x.Behind != "" {
			behind++
			continue
		}
		late50, late99, worst, busy = append(late50, x.Late50), append(late99, x.Late99),
			append(worst, x.LateWorst), append(busy, x.Busy)
	}
	if len(late50) == 0 {
		return
	}
	for _, v := range [][]float64{late50, late99, worst, busy} {
		slices.Sort(v)
	}
	mid := len(late50) / 2
	fmt.Fprintf(b, `Over the rounds that count, half of the packets left the link no later than %.0f us after their time, and 99 %% no later than %.0f us, in the median of the rounds; %.0f us in
the worst one. The latest packet of a round was %.1f ms late in the median. Of %d rounds the link fell behind in %d, which do not count and were played again, at most %d times: more than one packet in a hundred left
it later than %.1f of a round trip and %d us, or the kernel had to drop one that it had not read. Other processes took %.0f %% of the machine in the median of the rounds. As root the link has a real-time
priority and the ends nice %d.
`, late50[mid], late99[mid], late99[len(late99)-1], worst[mid]/1e3, len(late50)+behind, behind, againMost, lateShare, lateUs, 100*busy[mid], niceness)
}
