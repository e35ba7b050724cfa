package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

// Charts returns the charts by file name: those for which there are figures.
func (r *Report) Charts() map[string][]byte {
	files := map[string][]byte{}
	for _, link := range r.links() {
		if c := r.goodput(link); len(c.Series) > 0 {
			files["goodput-"+link+".svg"] = c.SVG()
		}
	}
	if len(r.Of("latency")) > 0 {
		files["latency.svg"] = r.halfTrips().SVG()
	}
	if len(r.Of("scale")) > 0 {
		files["scale.svg"] = r.growth().SVG()
	}
	if len(r.Of("engine")) > 0 {
		files["engine-icrc.svg"] = r.icrc().SVG()
		files["engine-growth.svg"] = r.engineGrowth().SVG()
	}
	return files
}

// goodput is that of each operation over the size of messages.
func (r *Report) goodput(link string) *report.Chart {
	const mtu = 4096
	c := &report.Chart{
		Title: "One QP, MTU 4096, " + link + ", 64 MiB regions", XLabel: "message", YLabel: "Gb/s",
		LogX: true, LogY: true,
	}
	sizes := map[int]bool{}
	line := func(name, op, figure string, dashed bool) {
		s := report.Series{Name: name, Dashed: dashed}
		for _, x := range r.Of("single") {
			if x.Link == link && x.MTU == mtu && x.Op == op && x.Mode == "" && x.Region == large {
				s.X, s.Y = append(s.X, float64(x.Size)), append(s.Y, x.Value(figure))
				sizes[x.Size] = true
			}
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	for _, op := range []string{"WRITE", "READ", "SEND"} {
		line(op, op, "goodput", false)
	}
	line("TCP", "WRITE", "TCP", true)
	line("link without protocol", "WRITE", "ceiling", true)
	c.XTicks = ticks(sizes, Bytes)
	return c
}

// ticks are labelled values in order.
func ticks(values map[int]bool, label func(int) string) []report.Tick {
	var ts []report.Tick
	for v := range values {
		ts = append(ts, report.Tick{At: float64(v), Label: label(v)})
	}
	slices.SortFunc(ts, func(a, b report.Tick) int { return cmp.Compare(a.At, b.At) })
	return ts
}

// halfTrips are medians and 99th percentiles, of all links and ways to wait.
func (r *Report) halfTrips() *report.Bars {
	b := &report.Bars{Title: "Half round trip of 64 B, each process on a CPU of its own", YLabel: "us",
		LogY: true, Width: 1000}
	for _, x := range []struct{ name, figure string }{
		{"goroce p50", "p50"}, {"goroce p99", "p99"}, {"link alone p50", "link p50"}, {"TCP p50", "TCP p50"},
		{"TCP p99", "TCP p99"},
	} {
		s := report.BarSeries{Name: x.name}
		for _, c := range r.Of("latency") {
			if c.Place == OwnCPU {
				s.Values = append(s.Values, c.Value(x.figure))
			}
		}
		b.Series = append(b.Series, s)
	}
	for _, c := range r.Of("latency") {
		if c.Place == OwnCPU {
			b.Groups = append(b.Groups, c.Link+"\n"+c.Mode)
		}
	}
	return b
}

// growth is the goodput over the number of queue pairs.
func (r *Report) growth() *report.Chart {
	c := &report.Chart{Title: "WRITEs of 1 KiB on many QPs", XLabel: "QPs in use", YLabel: "goodput x 1 QP", LogX: true}
	for _, link := range r.links() {
		s := report.Series{Name: link}
		for _, x := range r.Of("scale") {
			if x.Link == link && x.Mode == "goodput" {
				s.X, s.Y = append(s.X, float64(x.QPs)), append(s.Y, x.Value("x 1 QP"))
			}
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

// icrc is the time of a packet in the engine with and without.
func (r *Report) icrc() *report.Bars {
	b := &report.Bars{Title: "The engine alone: a packet with and without ICRC", YLabel: "ns", Width: 1000}
	plain, with := report.BarSeries{Name: "without ICRC"}, report.BarSeries{Name: "with ICRC"}
	for _, c := range r.Of("engine") {
		name, ok := strings.CutSuffix(c.Name, icrcSuffix)
		base := r.engineCase(name)
		if !ok || base == nil {
			continue
		}
		part := strings.Split(name, "/") // Packet, operation, size, part
		if len(part) != 4 {
			continue
		}
		b.Groups = append(b.Groups, strings.TrimPrefix(part[1], "RDMA_")+" "+part[2]+"\n"+part[3])
		plain.Values, with.Values = append(plain.Values, base.Value("time")), append(with.Values, c.Value("time"))
	}
	b.Series = []report.BarSeries{plain, with}
	return b
}

// engineGrowth is the time of an op over the number of queue pairs, and over the window.
func (r *Report) engineGrowth() *report.Chart {
	c := &report.Chart{
		Title:  "The engine alone: growth with queue pairs and with the window",
		XLabel: "QPs; packets of the window", YLabel: "time x smallest", LogX: true,
	}
	for _, k := range []struct{ kind, name string }{
		{"ManyQPs", "a WRITE on the next of so many QPs"}, {"Window", "a packet, with a window of so many"},
	} {
		s := report.Series{Name: k.name}
		for _, x := range r.Of("engine") {
			n, err := strconv.Atoi(x.Name[strings.LastIndexByte(x.Name, '/')+1:])
			if kind(x) != k.kind || err != nil {
				continue
			}
			v := x.Value(XSmallest)
			if math.IsNaN(v) {
				v = 1 // it is the smallest
			}
			s.X, s.Y = append(s.X, float64(n)), append(s.Y, v)
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}
