package perftest

import "time"

// epoch makes times small numbers; only differences matter.
var epoch = time.Now()

// nowNs is the monotonic time.
func nowNs() int64 { return int64(time.Since(epoch)) }

// stopwatch is the time of a test with -D: messages count from a margin after
// the beginning to a margin before the end, while the traffic is steady. The
// zero stopwatch is for a test that counts iterations: it is never over.
type stopwatch struct {
	margin, total    int64 // ns
	begun            bool
	from, until, end int64
	samples          uint64
}

func (o *Options) stopwatch() stopwatch {
	if !o.durationSet {
		return stopwatch{}
	}
	return stopwatch{margin: int64(o.Margin) * int64(time.Second), total: int64(o.Duration) * int64(time.Second)}
}

// begin starts the time, once.
func (w *stopwatch) begin(now int64) {
	if w.total == 0 || w.begun {
		return
	}
	w.begun = true
	w.from, w.end = now+w.margin, now+w.total
	w.until = w.end - w.margin
}

// count adds messages that were seen done at now.
func (w *stopwatch) count(now int64, messages uint64) {
	if w.begun && now >= w.from && now < w.until {
		w.samples += messages
	}
}

// over reports whether the time is up.
func (w *stopwatch) over(now int64) bool { return w.begun && now >= w.end }

// sampled is the time for which messages count, in ns.
func (w *stopwatch) sampled() int64 { return w.until - w.from }
