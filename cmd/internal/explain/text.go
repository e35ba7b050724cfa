package explain

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/analyse"
)

// textStyle is how text is printed.
type textStyle struct {
	width int
	color bool
}

const (
	defaultWidth = 100
	minWidth     = 40
	shownOfKind  = 10
)

// styleOf is the style for an output: colours only on a terminal, and not if NO_COLOR is set.
func styleOf(w io.Writer) textStyle {
	s := textStyle{width: defaultWidth}
	f, ok := w.(*os.File)
	if !ok {
		return s
	}
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
		if ws.Col > 0 {
			s.width = max(int(ws.Col), minWidth)
		}
		s.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return s
}

func (s textStyle) bold(t string) string { return s.paint("1", t) }

func (s textStyle) paint(code, t string) string {
	if !s.color {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}

// Wrap breaks text at spaces; every line begins with indent.
func Wrap(indent, text string) string { return textStyle{width: defaultWidth}.wrap(indent, text) }

// wrap breaks text at spaces; every line begins with indent.
func (s textStyle) wrap(indent, text string) string {
	var b strings.Builder
	line := indent
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && len(line)+1+len(word) > s.width {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	if !empty {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// print writes the explanation as text.
func (e *explanation) print(w io.Writer, s textStyle, all bool) {
	r := e.Report
	fmt.Fprintf(w, "%s: %s of RoCE v2 in %v%s\n", e.Name, count(r.Packets, "packet"),
		duration(r.DurationNs), e.others())
	if r.Packets == 0 {
		fmt.Fprint(w, s.wrap("", "There is nothing to explain. If the application did talk: was the capture taken on the right interface? Packets of a network card with RDMA bypass the kernel, and tcpdump does not see them there; mirror the switch port, or use the card's sniffer. With goroce, roce/link/trace writes what a device sends and receives, without root."))
		return
	}
	for _, c := range r.Connections {
		e.printConnection(w, s, c)
	}
	if r.MoreConnections > 0 {
		fmt.Fprintf(w, "... and more connections, which there was no room for (%d packets)\n", r.MoreConnections)
	}
	if len(r.Findings) == 0 {
		fmt.Fprintf(w, "\n%s\n", s.paint("32", "Nothing went wrong."))
		return
	}
	fmt.Fprintf(w, "\n%s\n", s.bold(count(len(r.Findings)+r.MoreFindings, "finding")))
	shown := map[analyse.Kind]int{}
	var todo advice
	for _, f := range r.Findings {
		shown[f.Kind]++
		todo.add(f)
		if !all && shown[f.Kind] > shownOfKind {
			continue
		}
		sure := "certain"
		if !f.Certain {
			sure = "likely"
		}
		fmt.Fprintf(w, "\n%s  %s, %s, at %v\n", s.paint("33", fmt.Sprintf("packet %d", f.Frames[0])),
			s.bold(string(f.Kind)), sure, duration(f.AtNs))
		fmt.Fprint(w, s.wrap("  ", f.Text))
	}
	for _, k := range slices.Sorted(maps.Keys(shown)) {
		if n := shown[k] - shownOfKind; !all && n > 0 {
			fmt.Fprintf(w, "\n... and %d more of kind %s (-v shows them)\n", n, k)
		}
	}
	fmt.Fprintf(w, "\n%s\n", s.bold("What to do"))
	for _, x := range todo.sorted() {
		fmt.Fprintf(w, "  %s (%d)\n%s", x.head(), x.n, s.wrap("    ", x.text))
	}
}

// advice is what to do, each thing once.
type advice []advised

// advised is what to do about findings of one kind and cause.
type advised struct {
	kind  analyse.Kind
	cause string
	text  string
	n     int // findings
}

func (a *advice) add(f *analyse.Finding) {
	for i := range *a {
		if x := &(*a)[i]; x.kind == f.Kind && x.text == f.Advice {
			x.n++
			return
		}
	}
	*a = append(*a, advised{f.Kind, f.Cause, f.Advice, 1})
}

func (a advice) sorted() advice {
	slices.SortStableFunc(a, func(x, y advised) int { return strings.Compare(string(x.kind), string(y.kind)) })
	return a
}

func (x *advised) head() string {
	if x.cause == "" {
		return string(x.kind)
	}
	return fmt.Sprintf("%s, %s", x.kind, x.cause)
}

// others says what else is in the file.
func (e *explanation) others() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(e.Frames)) {
		if k != "RoCE v2" {
			parts = append(parts, fmt.Sprintf("%d %s", e.Frames[k], k))
		}
	}
	if e.Report.Malformed > 0 {
		parts = append(parts, fmt.Sprintf("%d packets malformed", e.Report.Malformed))
	}
	if e.Report.Twice > 0 {
		parts = append(parts, fmt.Sprintf("%d captured twice", e.Report.Twice))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; besides: " + strings.Join(parts, ", ")
}

func end(p analyse.Endpoint) string {
	if !p.Known {
		return fmt.Sprintf("%v QP ?", p.Addr)
	}
	return fmt.Sprintf("%v QP %v", p.Addr, p.QPN)
}

func (e *explanation) printConnection(w io.Writer, s textStyle, c *analyse.Connection) {
	fmt.Fprintf(w, "\n%s %s, %s - %s", s.bold(fmt.Sprintf("Connection %d:", c.Number)), c.Transport,
		end(c.Ends[0]), end(c.Ends[1]))
	if c.MTU != 0 {
		fmt.Fprintf(w, ", path MTU %d", c.MTU)
	}
	fmt.Fprintf(w, ", %s\n", count(c.Packets, "packet"))
	if len(c.CM) > 0 {
		fmt.Fprint(w, s.wrap("  ", fmt.Sprintf("RDMA-CM, service %s: %s", c.Service, strings.Join(c.CM, "; "))))
	}
	for i := range c.Ways {
		if t := way(&c.Ways[i]); t != "" {
			fmt.Fprint(w, s.wrap("  ", fmt.Sprintf("%v asked: %s", c.Ends[i].Addr, t)))
		}
	}
	for _, n := range c.Notes {
		fmt.Fprint(w, s.wrap("  ", "Note: "+n))
	}
}

// way sums up the requests of one end.
func way(w *analyse.Way) string {
	if w.Packets == 0 {
		return ""
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(w.Operations)) {
		o := w.Operations[k]
		if o.Begun == o.Completed {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", o.Completed, k, bytesText(o.Bytes)))
		} else {
			parts = append(parts, fmt.Sprintf("%d of %d %s (%s)", o.Completed, o.Begun, k, bytesText(o.Bytes)))
		}
	}
	if w.GoodputBps > 0 {
		parts = append(parts, "goodput "+rate(w.GoodputBps))
	}
	if l := w.Latency; l.Count > 0 {
		parts = append(parts,
			fmt.Sprintf("latency p50 %v, p90 %v, p99 %v", duration(l.P50), duration(l.P90), duration(l.P99)))
	}
	if l := w.RTT; l.Count > 0 {
		parts = append(parts, fmt.Sprintf("round trip %v to %v", duration(l.Min), duration(l.P99)))
	}
	t := strings.Join(parts, ", ")
	if w.Again > 0 {
		t += fmt.Sprintf("; %d of %d request packets were sent again (%.1f %%): %s, %s, %s", w.Again,
			w.Packets, 100*float64(w.Again)/float64(w.Packets), count(w.Sequence, "sequence NAK"),
			count(w.RNRNAKs, "RNR NAK"), count(w.Timeouts, "timeout"))
	} else {
		t += "; nothing was sent again"
	}
	if w.CE > 0 {
		t += fmt.Sprintf("; %d marked CE", w.CE)
	}
	if w.CNPs > 0 {
		t += "; " + count(w.CNPs, "CNP")
	}
	return t
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// duration rounds a time to what is worth reading.
func duration(ns int64) time.Duration {
	d := time.Duration(ns)
	for unit := time.Second; unit >= time.Microsecond; unit /= 1000 {
		if d >= unit {
			return d.Round(unit / 1000)
		}
	}
	return d
}

func bytesText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= 10*u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func rate(bps float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "Gb/s"}, {1e6, "Mb/s"}, {1e3, "kb/s"}} {
		if bps >= u.size {
			return fmt.Sprintf("%.2f %s", bps/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f b/s", bps)
}

// kindsText lists what can be found.
func kindsText() string {
	s := textStyle{width: defaultWidth}
	var b strings.Builder
	for _, k := range analyse.Kinds() {
		fmt.Fprintf(&b, "%s\n%s%s", k.Kind, s.wrap("  ", k.Meaning), s.wrap("  ", k.Advice))
	}
	return b.String()
}
