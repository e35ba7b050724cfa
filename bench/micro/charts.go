package micro

import (
	"math"

	"github.com/goroce/goroce/internal/report"
)

// Charts returns the charts by file name: those for which there are samples.
func (d *Data) Charts() map[string][]byte {
	files := map[string][]byte{}
	for _, c := range []struct {
		file, title, x string
		m              metric
	}{
		{"nak-made.svg", "NAK generation: from the packet behind the gap to the NAK, WRITE", "us",
			metric{op: "NAK latency WRITE", key: "nak_made_us", of: responder}},
		{"resend.svg", "Retransmission: from the NAK to the missing packet, WRITE", "us",
			metric{op: "NAK latency WRITE", key: "nak_to_resend_us", of: requester}},
		{"read-recovery.svg", "READ recovery: from the response behind the gap to the new request", "us",
			metric{op: "READ recovery", key: "gap_to_request_us", of: requester}},
		{"cnp-gap.svg", "CNP gap: 256 packets with CE, from one CNP to the next", "us",
			metric{op: "CNP for CE", key: "cnp_gap_us", of: responder}},
	} {
		if chart := d.shares(c.title, c.x, c.m); len(chart.Series) > 0 {
			files[c.file] = chart.SVG()
		}
	}
	if c := d.timeouts(); len(c.Series) > 0 {
		files["timeouts.svg"] = c.SVG()
	}
	files["neighbours.svg"] = d.neighbours().SVG()
	return files
}

// shares shows, for each time, which part of the reactions took no longer.
func (d *Data) shares(title, unit string, m metric) *report.Chart {
	c := &report.Chart{Title: title, XLabel: unit, YLabel: "share of the reactions", LogX: true, YMax: 1}
	for _, who := range d.Columns() {
		samples := d.samples(m.op, m.key, who, m.of)
		if len(samples) == 0 {
			continue
		}
		s := report.Series{Name: who}
		for i, v := range samples {
			// A step: up at each sample, level to the next one.
			s.X = append(s.X, v, v)
			s.Y = append(s.Y, float64(i)/float64(len(samples)), float64(i+1)/float64(len(samples)))
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// timeouts shows when a packet that is always lost was sent, from the first time on.
func (d *Data) timeouts() *report.Chart {
	c := &report.Chart{Title: "Timeouts: transmissions of a packet that is always lost",
		XLabel: "transmission", YLabel: "ms since the first, median"}
	for _, who := range d.Columns() {
		s := report.Series{Name: who, X: []float64{1}, Y: []float64{0}}
		for i := 1; ; i++ {
			v := d.intervals(i, who)
			if len(v) == 0 {
				break
			}
			s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, s.Y[i-1]+quantile(v, 0.5))
		}
		if len(s.X) > 1 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

// neighbours shows the victim's latency beside others with losses and without.
func (d *Data) neighbours() *report.Bars {
	b := &report.Bars{Title: "Noisy neighbours: time of a WRITE of 64 bytes to its ACK, median", YLabel: "us",
		LogY: true, Groups: d.Columns()}
	for _, x := range []struct{ name, key string }{
		{"others without losses", victims[0].quiet}, {"others with losses", victims[0].lossy},
	} {
		s := report.BarSeries{Name: x.name}
		for _, who := range b.Groups {
			v := math.NaN()
			if samples := d.samples(noiseOp, x.key, who, requester); len(samples) > 0 {
				v = quantile(samples, 0.5)
			}
			s.Values = append(s.Values, v)
		}
		b.Series = append(b.Series, s)
	}
	return b
}
