package simreport

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

// Recovery returns how long after from a flow was allowed the fraction of line
// rate again.
func (r *Result) Recovery(flow int, from int64, fraction float64) (ns int64, ok bool) {
	for _, s := range r.Samples[r.at(from):] {
		if s.Allowed[flow] >= fraction*LineRate.Gbit() {
			return s.AtNs - from, true
		}
	}
	return 0, false
}
