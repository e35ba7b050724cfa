package lesson

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/transport/cc"
)

// series is something over the time of a run.
type series struct {
	name, unit string
	top        float64 // the largest value
	values     []float64
}

// curves are the queue of the switch on the way to B, and A's rate where congestion control limits it, at n moments: the largest
// value of the queue, and the last one of the rate.
func (r *run) curves(n int) []series {
	end := max(r.s.Net.Now(), 1)
	queue := series{name: "queue to B", unit: "KiB", values: make([]float64, n)}
	rate := series{name: "A's limit", unit: "Gb/s", values: make([]float64, n)}
	at := func(ns int64) int { return min(int(ns*int64(n)/end), n-1) }
	for _, h := range r.s.Hosts { // whoever takes a step sees the queue
		for _, s := range h.States {
			queue.values[at(s.AtNs)] = max(queue.values[at(s.AtNs)], float64(s.PortBytes)/1024)
		}
	}
	states := r.s.Hosts[0].States
	for i, k := 0, 0; i < n; i++ {
		for k+1 < len(states) && at(states[k+1].AtNs) <= i {
			k++
		}
		if rate.values[i] = float64(states[k].Rate) / float64(cc.Gbps); states[k].Rate == 0 {
			rate.values[i] = lineGbps
		}
	}
	for _, s := range []*series{&queue, &rate} {
		for _, v := range s.values {
			s.top = max(s.top, v)
		}
	}
	return []series{queue, rate}
}

// lineGbps is what A can send where nothing limits it.
const lineGbps = 40

// chart draws the curves in the terminal.
func (r *run) chart() string {
	var b strings.Builder
	bars := []rune(" ▁▂▃▄▅▆▇█")
	for _, s := range r.curves(80) {
		fmt.Fprintf(&b, "%12s ", s.name)
		for _, v := range s.values {
			k := 0
			if v > 0 {
				k = 1 + int(v/s.top*float64(len(bars)-2)+0.5)
			}
			b.WriteRune(bars[min(k, len(bars)-1)])
		}
		fmt.Fprintf(&b, " top: %.0f %s\n", s.top, s.unit)
	}
	fmt.Fprintf(&b, "%13s0%*s\n", "", 79, fmt.Sprintf("%.0f us", r.us()))
	return b.String()
}
