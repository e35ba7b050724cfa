package transport

import "github.com/goroce/goroce/ib"

// rttEstimate estimates the round-trip time of a QP and its variance (RFC 6298). It times one
// packet at a time, from sending to acknowledgement. Packets sent twice are no samples (Karn),
// since the answer may be to either; but a round trip is no longer than the time since the first
// of them, which serves where answers are so late that everything is sent twice.
type rttEstimate struct {
	timing bool
	twice  bool   // the timed packet was sent again
	slow   uint8  // answers after the ACK timeout since the last sample, up to 2
	psn    ib.PSN // of the timed packet
	sentAt int64

	smoothed   int64 // ns; 0 if unknown
	variance   int64 // ns
	least      int64 // ns
	last       int64 // ns
	low        int64 // ns: shortest of the last few samples, which waits for processors do not change
	lowNext    int64 // ns: of those after them
	belowNs    int64 // ns: the longest round trip of those counted by below
	mostLow    int64 // ns: the longest low, lately
	lows       uint8 // how many lowNext is of
	below      uint8 // times in a row that progress after going back took less than least
	empty      bool  // the last sample shows no queue
	short      bool  // the last sample shows no queue, or a short one
	waits      bool  // the shortest of the last few samples shows a long queue
	awaits     int64 // ns: an answer may take that long; 0 if unknown
	window     int32 // that of the last sample, when its packet left
	nextWindow int32 // that of the next sample
}

// start begins to time a packet that requests an answer. It returns false while timing another.
func (e *rttEstimate) start(now int64, psn ib.PSN) bool {
	if e.timing {
		return false
	}
	e.timing, e.twice, e.psn, e.sentAt = true, false, psn, now
	return true
}

// again notes that packets were sent again, perhaps the timed one.
func (e *rttEstimate) again() { e.twice = true }

// answered takes the answer to the timed packet, and reports whether it is a sample.
func (e *rttEstimate) answered(now, timeout int64) bool {
	e.timing = false
	rtt := now - e.sentAt
	switch {
	case timeout != 0 && rtt > timeout*maxTimeouts:
		return false // a process was stopped, or the clock has jumped
	case e.twice:
		e.atMost(rtt, timeout)
		return false
	}
	e.sampleOf(rtt)
	return true
}

// atMost takes the time since a packet left first that was sent twice, or may have been. Without a
// sample, one longer than the ACK timeout makes the QP wait for twice as long until there is one
// (RFC 6298, 5.5 to 5.7). With a sample the second does: a lost packet is no reason to wait.
func (e *rttEstimate) atMost(rtt, timeout int64) {
	if rtt <= timeout {
		return
	}
	if e.slow = min(e.slow+1, 2); e.smoothed == 0 || e.slow > 1 {
		e.awaits = 2 * rtt
	}
}

// cancel stops timing without a sample, because something was sent again.
func (e *rttEstimate) cancel() { e.timing = false }

// answers reports whether una shows that the timed packet was answered: everything before una was.
func (e *rttEstimate) answers(una ib.PSN) bool { return e.timing && una.After(e.psn) }

// sampleOf takes one round trip as a sample.
func (e *rttEstimate) sampleOf(rtt int64) {
	rtt = max(rtt, 1)
	e.last, e.slow, e.below, e.window = rtt, 0, 0, e.nextWindow
	if e.smoothed == 0 {
		e.smoothed, e.variance, e.least = rtt, rtt/2, rtt
		e.low, e.lowNext, e.mostLow, e.short = rtt, rtt, rtt, true
		e.awaits = 4 * rtt
		return
	}
	e.least = min(e.least, rtt)
	e.queueOf(rtt)
	d := rtt - e.smoothed
	e.smoothed += d / 8
	e.variance += (max(d, -d) - e.variance) / 4
	e.awaits = 2*e.smoothed + 4*e.variance
}

// queueOf judges the queue on the way by a sample. A long queue is one that is over half as long as
// the longest, lately, and takes a quarter of the shortest round trip: with less of a queue, half
// the window would not fill the path. One long round trip does not show it, because a process may
// have waited for a processor, but a few in a row do.
func (e *rttEstimate) queueOf(rtt int64) {
	e.lowNext = min(e.lowNext, rtt)
	if e.lows++; e.lows == lowSamples {
		e.low, e.lowNext, e.lows = e.lowNext, rtt, 0
		e.mostLow = max(e.low, e.mostLow-(e.mostLow-e.low)/16)
	}
	e.short, e.waits = rtt <= e.longNs(), e.lately() > e.longNs()
	e.empty = rtt <= e.emptyNs()
}

// longNs is the longest round trip that shows no long queue.
func (e *rttEstimate) longNs() int64 { return e.least + max((e.mostLow-e.least)/2, e.least/4) }

// lately is the shortest of the last few samples; 0 if there is none.
func (e *rttEstimate) lately() int64 { return min(e.low, e.lowNext) }

// emptyNs returns the longest round trip that shows no queue.
func (e *rttEstimate) emptyNs() int64 { return e.least + max((e.mostLow-e.least)/4, e.least/8) }

// wentBack takes the time from going back to progress. It is no sample, as an answer may be late,
// but it shows whether there is a queue where each window loses packets, and none is one. If it is
// below the shortest round trip a few times in a row, the path has become shorter, and holds less
// than the window: wentBack returns true. Not so of READs: responses behind the loss come soon.
func (e *rttEstimate) wentBack(ns int64, reads bool) (shorter bool) {
	switch {
	case e.smoothed == 0 || reads && ns < e.least:
	case ns >= e.least:
		e.below, e.window = 0, e.nextWindow
		e.queueOf(ns)
	default:
		if e.below++; e.below == 1 || ns > e.belowNs {
			e.belowNs = ns
		}
		if e.below == lowSamples {
			e.below, e.least = 0, e.belowNs
			return true
		}
	}
	return false
}

// late returns the time after which an answer is overdue if nothing else delays it; 0 if unknown.
func (e *rttEstimate) late() int64 {
	if e.smoothed == 0 {
		return 0
	}
	return e.smoothed + max(e.smoothed/4, 4*e.variance, minReorderNs)
}
