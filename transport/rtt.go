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
	most     int64 // ns, lately
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
		e.smoothed, e.variance, e.least, e.most = rtt, rtt/2, rtt, rtt
		return
	}
	e.least = min(e.least, rtt)
	if rtt < e.most {
		e.most -= (e.most - rtt) / 32
	} else {
		e.most = min(rtt, e.most+e.most/4) // one that waited for a process says little
	}
	d := rtt - e.smoothed
	e.smoothed += d / 8
	e.variance += (max(d, -d) - e.variance) / 4
}

// full reports whether a round trip of ns, where the least is least, is one through a queue that may be full: it is much
// longer than the least, and nearly as long as any lately. A queue drops packets when it is full; what is lost while it is not, is
// lost otherwise.
func (e *rttEstimate) full(ns, least int64) bool {
	return e.smoothed == 0 || ns > least+max(least/2, (e.most-least)/4*3)
}

// late returns after what time an answer is not to be expected any more that nothing else keeps
// waiting; 0 if that is not known.
func (e *rttEstimate) late() int64 {
	if e.smoothed == 0 {
		return 0
	}
	return e.smoothed + max(e.smoothed/4, 4*e.variance, minReorderNs)
}
