package transport

import "github.com/goroce/goroce/ib"

// rttEstimate is the round-trip time of a QP: its mean and how far samples are from
// that (RFC 6298). One packet at a time is timed, from sending to acknowledgement,
// and none that was sent twice (Karn): its answer does not tell which it is to.
type rttEstimate struct {
	timing bool
	psn    ib.PSN // that is timed
	sentAt int64

	smoothed int64 // ns; 0 if unknown
	variance int64 // ns
	least    int64 // ns
	last     int64 // ns
}

// start begins to time a packet that asks for an answer. It reports false if another is timed.
func (e *rttEstimate) start(now int64, psn ib.PSN) bool {
	if e.timing {
		return false
	}
	e.timing, e.psn, e.sentAt = true, psn, now
	return true
}

// cancel ends it without a sample: something was sent again.
func (e *rttEstimate) cancel() { e.timing = false }

// answers reports whether una says that the packet that is timed was answered: it is
// behind everything that was.
func (e *rttEstimate) answers(una ib.PSN) bool { return e.timing && una.After(e.psn) }

// sample takes the time until now.
func (e *rttEstimate) sample(now int64) {
	e.timing = false
	e.sampleOf(now - e.sentAt)
}

// sampleOf takes a round trip.
func (e *rttEstimate) sampleOf(rtt int64) {
	rtt = max(rtt, 1)
	e.last = rtt
	if e.smoothed == 0 {
		e.smoothed, e.variance, e.least = rtt, rtt/2, rtt
		return
	}
	e.least = min(e.least, rtt)
	d := rtt - e.smoothed
	e.smoothed += d / 8
	e.variance += (max(d, -d) - e.variance) / 4
}

// queued reports whether packets wait somewhere on the way, by how much longer than the least the
// round trip is, or may do so, because nothing is known.
func (e *rttEstimate) queued() bool { return e.smoothed == 0 || e.last > e.least+e.least/2 }

// late returns after what time an answer is not to be expected any more that nothing else keeps
// waiting; 0 if that is not known.
func (e *rttEstimate) late() int64 {
	if e.smoothed == 0 {
		return 0
	}
	return e.smoothed + max(e.smoothed/4, 4*e.variance, minReorderNs)
}
