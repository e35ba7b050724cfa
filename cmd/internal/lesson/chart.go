package lesson

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/transport/cc"
)

// series is something over the time of a run.
type series struct {
	name, unit string
	top        float64 // of the axis
	values     []float64
}

// curves are the queue of the switch on the way to B, A's rate where congestion control limits it,
// and A's packets that were lost, in n parts of the time: the largest value of the queue, the last
// one of the rate, and how many were lost of those sent then.
func (r *run) curves(n int) ([]series, error) {
	end := max(r.s.Net.Now(), 1)
	queue := series{name: "queue to B", unit: "KiB", top: queueKiB, values: make([]float64, n)}
	rate := series{name: "A's limit", unit: "Gb/s", top: lineGbps, values: make([]float64, n)}
	at := func(ns int64) int { return min(int(ns*int64(n)/end), n-1) }
	for _, h := range r.s.Hosts { // the host that takes a step sees the queue
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
	lost := series{name: "lost", unit: "packets", values: make([]float64, n)}
	sent, _, err := r.s.Fates(0)
	if err != nil {
		return nil, err
	}
	for _, f := range sent {
		if f.Lost() {
			lost.values[at(f.AtNs)]++
		}
	}
	lost.top = max(1, slices.Max(lost.values))
	return []series{queue, rate, lost}, nil
}

const (
	lineGbps = 40  // what A can send where nothing limits it
	queueKiB = 400 // the room before the last link to B
)

// chart draws the curves in the terminal.
func (r *run) chart() (string, error) {
	all, err := r.curves(80)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	bars := []rune(" ▁▂▃▄▅▆▇█")
	for _, s := range all {
		fmt.Fprintf(&b, "%12s ", s.name)
		for _, v := range s.values {
			k := 0
			if v > 0 {
				k = 1 + int(v/s.top*float64(len(bars)-2)+0.5)
			}
			b.WriteRune(bars[min(k, len(bars)-1)])
		}
		fmt.Fprintf(&b, " at most %.0f of %.0f %s\n", slices.Max(s.values), s.top, s.unit)
	}
	fmt.Fprintf(&b, "%13s0%*s\n", "", 79, fmt.Sprintf("%.0f us", r.us()))
	return b.String(), nil
}
