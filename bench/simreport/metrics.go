package simreport

import (
	"math"

	"github.com/goroce/goroce/transport/cc"
)

// window over which goodputs are compared, and how long they must stay fair
// for a flow to count as converged.
const (
	fairWindowNs = 2 * Millisecond
	fairStayNs   = 10 * Millisecond
	fairIndex    = 0.95
)

// at returns the index of the first sample at ns or later.
func (r *Result) at(ns int64) int {
	for i, s := range r.Samples {
		if s.AtNs >= ns {
			return i
		}
	}
	return len(r.Samples) - 1
}

// GoodputBetween returns the goodput of each flow, in Gb/s, between two times.
func (r *Result) GoodputBetween(from, to int64) []float64 {
	a, b := &r.Samples[r.at(from)], &r.Samples[r.at(to)]
	g := make([]float64, len(a.Delivered))
	if b.AtNs == a.AtNs {
		return g
	}
	for i := range g {
		g[i] = float64(b.Delivered[i]-a.Delivered[i]) * 8 / float64(b.AtNs-a.AtNs)
	}
	return g
}

// Convergence returns how long after from the flows began to share fairly: the
// time from which on Jain's index over 2 ms stays at 0.95 or more for 10 ms.
// ok is false if that does not happen in the run.
func (r *Result) Convergence(from int64) (ns int64, ok bool) {
	since := int64(-1)
	for t := from; t+fairWindowNs <= r.Scenario.DurationNs; t += r.Scenario.SampleNs {
		if Jain(r.GoodputBetween(t, t+fairWindowNs)) < fairIndex {
			since = -1
			continue
		}
		if since < 0 {
			since = t
		}
		if t-since >= fairStayNs {
			return since - from, true
		}
	}
	return 0, false
}

// Recovery returns how long after from a flow was allowed the fraction of line rate again.
func (r *Result) Recovery(flow int, from int64, fraction float64) (ns int64, ok bool) {
	for _, s := range r.Samples[r.at(from):] {
		if s.Allowed[flow] >= fraction*LineRate.Gbit() {
			return s.AtNs - from, true
		}
	}
	return 0, false
}

// FixedPoint returns the fraction of packets that has to be marked for n flows with the profile
// to stay at their shares of line rate, if packets take wireBytes on the cable (Zhu et
// al., CoNEXT 2016): at it, what marks take from a flow is what its increase gives it.
func FixedPoint(n int, p *cc.Profile, wireBytes int) float64 {
	bits := float64(8 * wireBytes)
	line, increase := float64(LineRate)/bits, float64(p.AdditiveIncrease)/bits // packets a second
	flows := float64(n)
	step := bits/(8*float64(p.ByteCounter)) + flows/(float64(p.IncreasePeriod)/1e9*line)
	return math.Cbrt(increase * flows * flows / (float64(p.AlphaPeriod) / 1e9 * line * line) * step * step)
}

// MarkedShare is the fraction of packets to the receiver that were marked, after the warm-up.
func (r *Result) MarkedShare() float64 {
	if r.Queue.Packets == 0 {
		return 0
	}
	return float64(r.Queue.Marked) / float64(r.Queue.Packets)
}

// goodputs returns the goodput of all flows together, in Gb/s, in consecutive windows of ns, and
// the time in which each begins.
func (r *Result) goodputs(ns int64) (at []int64, gbps []float64) {
	for t := int64(0); t+ns <= r.Scenario.DurationNs; t += ns {
		sum := 0.0
		for _, g := range r.GoodputBetween(t, t+ns) {
			sum += g
		}
		at, gbps = append(at, t), append(gbps, sum)
	}
	return at, gbps
}

// settledShare is the share of what the port carries from which on an incast counts as settled,
// over windows of settledWindowNs.
const (
	settledShare    = 0.9
	settledWindowNs = 10 * Millisecond
)

// settled returns the end of the first window in which all flows together had a goodput.
func (r *Result) settled(gbps float64) (ns int64, ok bool) {
	at, g := r.goodputs(settledWindowNs)
	for i := range g {
		if g[i] >= gbps {
			return at[i] + settledWindowNs, true
		}
	}
	return 0, false
}

// least is the lowest rate that any flow was allowed while it ran, in Gb/s.
func (r *Result) least() float64 {
	least := LineRate.Gbit()
	for _, s := range r.Samples {
		for i, v := range s.Allowed {
			if r.Scenario.Flows[i].runs(s.AtNs) {
				least = min(least, v)
			}
		}
	}
	return least
}
