package perftest

import (
	"math"
	"slices"
)

// latencyTail is how many of the longest latencies do not count, as in the originals.
const latencyTail = 2

// latency is the outcome of a latency test; times in microseconds.
type latency struct {
	Size    int     `json:"size"`
	Iters   uint64  `json:"iterations"`
	Min     float64 `json:"t_min"`
	Max     float64 `json:"t_max"`
	Typical float64 `json:"t_typical"` // median
	Average float64 `json:"t_avg"`
	Stdev   float64 `json:"t_stdev"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p99_9"`

	inOrder []float64
	sorted  []float64
}

// latencyOf computes the figures from the times at which messages were
// posted, in ns, at least minIters of them. A round trip is divided by
// roundTrip: 2 where a message goes each way, 1 for READ and atomics.
func latencyOf(size int, posted []int64, roundTrip int) latency {
	n := len(posted) - 1
	l := latency{Size: size, Iters: uint64(len(posted)), inOrder: make([]float64, n)}
	for i := range l.inOrder {
		l.inOrder[i] = float64(posted[i+1]-posted[i]) / 1000 / float64(roundTrip)
	}
	l.sorted = slices.Clone(l.inOrder)
	slices.Sort(l.sorted)
	all := l.sorted
	l.sorted = all[:n-latencyTail]
	n = len(l.sorted)

	l.Min, l.Max = all[0], all[n]
	l.Typical = l.sorted[n/2]
	if n%2 == 0 {
		l.Typical = (l.sorted[n/2] + l.sorted[n/2-1]) / 2
	}
	for _, t := range l.sorted {
		l.Average += t / float64(n)
	}
	for _, t := range l.sorted {
		l.Stdev += (t - l.Average) * (t - l.Average) / float64(n)
	}
	l.Stdev = math.Sqrt(l.Stdev)
	l.P99 = all[int(math.Ceil(float64(n)*0.99))]
	l.P999 = all[int(math.Ceil(float64(n)*0.999))]
	return l
}

// latencyTimed is the outcome of a latency test that ran for a time.
type latencyTimed struct {
	Size    int     `json:"size"`
	Iters   uint64  `json:"iterations"`
	Average float64 `json:"t_avg"` // us
	Rate    float64 `json:"tps"`   // transactions a second
}

// latencyOverTime computes the figures of iters round trips in ns nanoseconds.
func latencyOverTime(size int, iters uint64, ns int64, roundTrip int) latencyTimed {
	l := latencyTimed{Size: size, Iters: iters}
	if iters > 0 && ns > 0 {
		l.Average = float64(ns) / 1000 / float64(roundTrip) / float64(iters)
		l.Rate = float64(iters) / (float64(ns) / 1e9)
	}
	return l
}

// bwOf computes the figures of messages in ns nanoseconds. peakNs is the
// shortest time a message took, 0 if it was not looked for.
func bwOf(size int, messages uint64, ns int64, peakNs float64, gbits bool) bwReport {
	unit := float64(1 << 20) // MiB
	if gbits {
		unit = 1e9 / 8 // Gbit
	}
	r := bwReport{Size: uint64(size), Iters: messages}
	if ns > 0 {
		seconds := float64(ns) / 1e9
		r.Average = float64(size) * float64(messages) / seconds / unit
		r.Rate = float64(messages) / seconds / 1e6
	}
	if peakNs > 0 {
		r.Peak = float64(size) / (peakNs / 1e9) / unit
	}
	return r
}

// peakNs returns the shortest time a message took in any run of messages from the posting of one to
// the completion of another, in ns. completed[j] is 0 where message j made no completion.
func peakNs(posted, completed []int64, postList int) float64 {
	best := math.Inf(1)
	for i := 0; i < len(posted); i += postList {
		for j := i; j < len(completed); j++ {
			if completed[j] == 0 {
				continue
			}
			if t := float64(completed[j]-posted[i]) / float64(j-i+1); t < best {
				best = t
			}
		}
	}
	if math.IsInf(best, 1) || best <= 0 {
		return 0
	}
	return best
}
