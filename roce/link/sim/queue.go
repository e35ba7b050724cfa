package sim

import (
	"slices"
	"time"
)

// queueBinBytes is the resolution of the distribution of queue lengths.
const queueBinBytes = 1 << 10

// QueueStats is what the queue before a pipe has seen since the link was made or [Link.ResetQueues]
// was called. It is kept for pipes with a rate.
type QueueStats struct {
	Packets, Bytes uint64 // that went through, as on the cable
	Marked         uint64 // CE
	Dropped        uint64 // no room
	PeakBytes      int
	Observed       time.Duration // for how long

	binsNs []int64 // time spent at each length, in bins of queueBinBytes
	empty  int64   // time without a queue, ns
	area   float64 // byte ns
}

// Percentile returns the length in bytes, rounded up to a KiB, that the queue did not exceed for
// the fraction p, in [0, 1], of the time.
func (s *QueueStats) Percentile(p float64) int {
	left := int64(p*float64(s.Observed)) - s.empty
	for i, ns := range s.binsNs {
		if left <= 0 {
			return i * queueBinBytes
		}
		left -= ns
	}
	return len(s.binsNs) * queueBinBytes
}

// Mean returns the mean length over time, in bytes.
func (s *QueueStats) Mean() float64 {
	if s.Observed == 0 {
		return 0
	}
	return s.area / float64(s.Observed)
}

// Utilization returns the fraction of the time in which the pipe sent.
func (s *QueueStats) Utilization() float64 {
	if s.Observed == 0 {
		return 0
	}
	return 1 - float64(s.empty)/float64(s.Observed)
}

// observe accounts for the time up to now. Between two packets a queue only drains, at the rate of
// the pipe, so its distribution is known exactly.
func (p *pipeState) observe(now int64) {
	if p.BitsPerSecond == 0 || now <= p.since {
		return
	}
	if p.pauses != nil {
		p.observeStill(now)
		return
	}
	s := &p.seen
	s.Observed += time.Duration(now - p.since)
	perNs := float64(p.BitsPerSecond) / 8e9
	at := float64(p.since)
	end := float64(min(now, p.freeAt))
	for at < end {
		q := (float64(p.freeAt) - at) * perNs
		bin := int(q / queueBinBytes)
		leaves := float64(p.freeAt) - float64(bin)*queueBinBytes/perNs
		if leaves <= at { // on the edge: the bin below
			if bin == 0 {
				break
			}
			bin--
			leaves = float64(p.freeAt) - float64(bin)*queueBinBytes/perNs
		}
		to := min(leaves, end)
		if bin >= len(s.binsNs) {
			s.binsNs = append(s.binsNs, make([]int64, bin+1-len(s.binsNs))...)
		}
		s.binsNs[bin] += int64(to) - int64(at)
		s.area += (to - at) * (q - (to-at)*perNs/2)
		at = to
	}
	if idle := now - max(p.since, p.freeAt); idle > 0 {
		s.empty += idle
	}
	p.since = now
}

// observeStill is observe for a queue that changes at its events only.
func (p *pipeState) observeStill(now int64) {
	s, ns, q := &p.seen, now-p.since, p.pauses.bytes
	p.since = now
	s.Observed += time.Duration(ns)
	if q == 0 {
		s.empty += ns
		return
	}
	bin := (q - 1) / queueBinBytes
	if bin >= len(s.binsNs) {
		s.binsNs = append(s.binsNs, make([]int64, bin+1-len(s.binsNs))...)
	}
	s.binsNs[bin] += ns
	s.area += float64(ns) * float64(q)
}

// QueueStats returns what the queues to and from the switch have seen. down is the egress queue of
// the switch.
func (l *Link) QueueStats() (up, down QueueStats) {
	l.f.lock()
	defer l.f.mu.Unlock()
	return l.up.stats(l.f.now), l.down.stats(l.f.now)
}

func (p *pipeState) stats(now int64) QueueStats {
	p.observe(now)
	s := p.seen
	s.binsNs = slices.Clone(s.binsNs)
	return s
}

// ResetQueues starts the observation of the queues over, for instance once a simulation has
// settled.
func (l *Link) ResetQueues() {
	l.f.lock()
	defer l.f.mu.Unlock()
	l.up.reset(l.f.now)
	l.down.reset(l.f.now)
}

func (p *pipeState) reset(now int64) {
	p.seen = QueueStats{PeakBytes: p.queued(now)}
	p.since = now
}

// Queued returns how many bytes wait now on the way to and from the switch.
func (l *Link) Queued() (up, down int) {
	l.f.lock()
	defer l.f.mu.Unlock()
	return l.up.queued(l.f.now), l.down.queued(l.f.now)
}
