package report

import (
	"github.com/goroce/goroce/bench/plot"
)

// Charts returns the charts by file name.
func (r *Report) Charts() map[string][]byte {
	files := map[string][]byte{}
	for _, link := range []string{"udp", "packet"} {
		files["goodput-"+link+".svg"] = r.goodput(link)
	}
	files["latency.svg"] = r.halfTrips()
	files["scale.svg"] = r.growth()
	return files
}

// goodput is that of each operation over the size of messages.
func (r *Report) goodput(link string) []byte {
	const mtu = 4096
	c := plot.Chart{
		Title: "One QP, MTU 4096, " + link + ", 64 MiB regions", XLabel: "message, bytes", YLabel: "Gb/s", LogX: true, LogY: true,
	}
	line := func(name, op, figure string, dashed bool) {
		s := plot.Series{Name: name, Dashed: dashed}
		for _, x := range r.Of("single") {
			if x.Link == link && x.MTU == mtu && x.Op == op && x.Mode == "" && x.Region == large {
				s.X, s.Y = append(s.X, float64(x.Size)), append(s.Y, x.Value(figure))
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
	return c.SVG()
}

// halfTrips are the percentiles of all modes.
func (r *Report) halfTrips() []byte {
	b := plot.Bars{Title: "Half round trip of 64 B", YLabel: "us", LogY: true}
	ps := []string{"p50", "p99", "p99.9"}
	series := make([]plot.BarSeries, len(ps))
	for i, p := range ps {
		series[i].Name = p
	}
	for _, c := range r.Of("latency") {
		for _, who := range []struct{ name, prefix string }{{c.Link + ", " + c.Mode, ""}, {"link only", "link "}, {"TCP", "TCP "}} {
			b.Groups = append(b.Groups, who.name)
			for i, p := range ps {
				series[i].Values = append(series[i].Values, c.Value(who.prefix+p))
			}
		}
	}
	b.Series, b.Width = series, max(720, 90*len(b.Groups))
	return b.SVG()
}

// growth is the goodput over the number of queue pairs.
func (r *Report) growth() []byte {
	c := plot.Chart{Title: "WRITEs of 1 KiB on many QPs", XLabel: "QPs in use", YLabel: "goodput x 1 QP", LogX: true}
	for _, link := range []string{"udp", "packet"} {
		s := plot.Series{Name: link}
		for _, x := range r.Of("scale") {
			if x.Link == link && x.Mode == "goodput" {
				s.X, s.Y = append(s.X, float64(x.QPs)), append(s.Y, x.Value("x 1 QP"))
			}
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c.SVG()
}
