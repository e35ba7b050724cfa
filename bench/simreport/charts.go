package simreport

import (
	"fmt"

	"github.com/goroce/goroce/internal/report"
)

// maxPoints is how many points a line of a chart has at most: more are not
// seen, and make the file large.
const maxPoints = 400

// line reduces the samples to maxPoints by means, or by the largest of each group for a queue.
func (r *Result) line(name string, largest bool, value func(*Sample) float64) report.Series {
	s := report.Series{Name: name}
	group := max((len(r.Samples)+maxPoints-1)/maxPoints, 1)
	for i := 0; i+group <= len(r.Samples); i += group {
		sum, top := 0.0, 0.0
		for j := i; j < i+group; j++ {
			v := value(&r.Samples[j])
			sum, top = sum+v, max(top, v)
		}
		s.X = append(s.X, float64(r.Samples[i].AtNs)/float64(Millisecond))
		if largest {
			s.Y = append(s.Y, top)
		} else {
			s.Y = append(s.Y, sum/float64(group))
		}
	}
	return s
}

// rates is the chart of what the flows were allowed to send.
func (r *Result) rates(title string) []byte {
	c := report.Chart{Title: title, XLabel: "time, ms", YLabel: "allowed rate, Gb/s", YMax: 42}
	for i := range r.Scenario.Flows {
		c.Series = append(c.Series,
			r.line(fmt.Sprintf("flow %d", i+1), false, func(s *Sample) float64 { return s.Allowed[i] }))
	}
	return c.SVG()
}

// kilobytes of the queue to the receiver.
func kilobytes(s *Sample) float64 { return float64(s.QueueBytes) / 1000 }

// Charts returns the charts of the report by file name.
func (o *Outcome) Charts() map[string][]byte {
	files := map[string][]byte{
		"clos.svg":           o.Clos[1].rates("Four senders across a Clos network (dcqcn-paper)"),
		"late-flow.svg":      o.Late.rates("A fourth flow starts at 20 ms (dcqcn-paper)"),
		"lone-flow.svg":      o.Lone[0].rates("The second flow stops at 60 ms (dcqcn-paper)"),
		"lone-flow-mlnx.svg": o.Lone[1].rates("The second flow stops at 60 ms (dcqcn-mellanox)"),
	}
	for _, f := range o.Fairness {
		files["fairness-"+f.file+".svg"] = f.results[0].rates("2:1 from 40 and 5 Gb/s: " + f.name)
	}
	groups := make([]string, len(IncastSenders))
	for i, k := range IncastSenders {
		groups[i] = fmt.Sprintf("%d:1", k)
	}
	bars := func(title, label string, logY bool, yMax float64, value func(*Result) float64) []byte {
		b := report.Bars{Title: title, YLabel: label, LogY: logY, YMax: yMax, Groups: groups}
		for _, x := range schemes {
			s := report.BarSeries{Name: x.name}
			for _, r := range o.Incast[x.name] {
				s.Values = append(s.Values, value(r))
			}
			b.Series = append(b.Series, s)
		}
		return b.SVG()
	}
	files["incast-utilization.svg"] = bars("Incast: utilisation of the receiver's port", "", false, 1,
		func(r *Result) float64 { return r.Utilization })
	files["incast-queue.svg"] = bars("Incast: 90th percentile of the queue", "KB", true, 0,
		func(r *Result) float64 { return float64(r.Queue.Percentile(0.9)) / 1000 })
	for _, x := range []struct {
		file     string
		from, to int64 // ms
	}{{"start", 0, 150}, {"later", 400, 500}} {
		c := report.Chart{
			Title:  fmt.Sprintf("One flow of an incast (dcqcn-mellanox), %d to %d ms", x.from, x.to),
			XLabel: "time, ms", YLabel: "allowed rate, Gb/s", YMax: 8,
		}
		for i, r := range o.Long {
			part := *r
			part.Samples = r.Samples[r.at(x.from*Millisecond):r.at(x.to*Millisecond)]
			c.Series = append(c.Series,
				part.line(fmt.Sprintf("%d:1", longSenders[i]), false, func(s *Sample) float64 { return s.Allowed[0] }))
		}
		files["mellanox-"+x.file+".svg"] = c.SVG()
	}
	// The first burst, before any CNP, is up to twenty times as long.
	q := report.Chart{Title: "Incast: queue to the receiver (dcqcn-paper), up to 300 KB", XLabel: "time, ms",
		YLabel: "KB", YMax: 300}
	for i, r := range o.Incast["dcqcn-paper"] {
		q.Series = append(q.Series, r.line(groups[i], true, kilobytes))
	}
	files["incast-queue-time.svg"] = q.SVG()
	return files
}
