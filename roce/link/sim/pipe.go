package sim

import (
	"time"

	"github.com/goroce/goroce/transport/edge"
)

// Pipe is one direction of a cable with the queue before it.
type Pipe struct {
	// BitsPerSecond is the rate; 0 is unlimited.
	BitsPerSecond int64
	// Latency is the propagation delay.
	Latency time.Duration
	// QueueBytes bounds the queue: a packet that would exceed it is dropped. 0 is unlimited. It has
	// no effect without a rate.
	QueueBytes int
	// Mark decides whether a packet with ECT is marked CE; nil never does. It runs with the fabric
	// locked.
	Mark func(MarkInput) bool
	// MarkDeparting makes the decision when a packet leaves the queue, by what waits behind it, as
	// switches with a shared memory do; otherwise it is made on arrival, by what waits before the
	// packet. A departing mark is not delayed by the queue.
	MarkDeparting bool
}

// MarkInput is the input of a marking decision.
type MarkInput struct {
	Now        int64
	QueueBytes int     // waiting when the packet arrives, or leaves, without it
	Bytes      int     // of the packet on the wire
	Random     float64 // uniform in [0, 1), from the seed of the fabric
}

// pipeState is a pipe in use.
type pipeState struct {
	Pipe
	egress bool  // a queue of the switch, which has a buffer
	freeAt int64 // when the last bit of the queue leaves
	since  int64 // seen covers the time up to here
	seen   QueueStats
	peak   int     // most bytes that ever waited
	pauses *pauses // nil without PFC
}

// queued returns how many bytes wait at now.
func (p *pipeState) queued(now int64) int {
	if p.pauses != nil {
		return p.pauses.bytes
	}
	if p.BitsPerSecond == 0 || p.freeAt <= now {
		return 0
	}
	return int(float64(p.freeAt-now) * float64(p.BitsPerSecond) / 8e9)
}

// enter puts a packet of n bytes into the pipe. It returns when the packet comes out, or false if
// the queue was full.
func (p *pipeState) enter(f *Fabric, n int, pkt *packet) (int64, bool) {
	p.observe(f.now)
	if p.canPause(f) {
		return f.now, p.admit(f, n, pkt)
	}
	q := p.queued(f.now)
	if p.QueueBytes > 0 && q > 0 && q+n > p.QueueBytes || p.egress && q+n > f.bufferRoom() {
		p.seen.Dropped++
		return 0, false
	}
	p.peak = max(p.peak, q+n)
	p.seen.PeakBytes = max(p.seen.PeakBytes, q+n)
	p.seen.Packets++
	p.seen.Bytes += uint64(n)
	if !p.MarkDeparting {
		p.mark(f, q, pkt)
	}
	at := f.now
	if p.BitsPerSecond > 0 {
		p.freeAt = max(p.freeAt, f.now) + int64(float64(n)*8e9/float64(p.BitsPerSecond))
		at = p.freeAt
	}
	return at + int64(p.Latency), true
}

// mark marks a packet that finds q bytes waiting, if it can be marked and the decision is to mark.
func (p *pipeState) mark(f *Fabric, q int, pkt *packet) {
	if p.Mark == nil || pkt.tclass&edge.ECNMask == 0 || pkt.tclass&edge.ECNMask == edge.ECNCE {
		return
	}
	if p.Mark(MarkInput{f.now, q, pkt.wireBytes(), f.rng.Float64()}) {
		pkt.tclass |= edge.ECNCE
		f.stats.Marked++
		p.seen.Marked++
	}
}

// pass schedules the event next for a packet that comes out of the pipe at a time, extra later.
func (p *pipeState) pass(f *Fabric, at, extra int64, next event) {
	if p.pauses != nil {
		next.after = extra
		p.pauses.queues[next.pkt.priority()] = append(p.pauses.queues[next.pkt.priority()], next)
		p.start(f)
		return
	}
	if p.Mark != nil && p.MarkDeparting {
		left := at - int64(p.Latency)
		f.push(event{at: left, kind: departs, pipe: p, host: next.host, pkt: next.pkt, next: next.kind,
			after: at + extra - left})
		return
	}
	next.at = at + extra
	f.push(next)
}

// bufferRoom returns how long an egress queue may be now: if the ports share a buffer, a fraction
// of the free part (Choudhury and Hahne, 1998), so that one congested port does not starve the
// others.
func (f *Fabric) bufferRoom() int {
	if f.cfg.BufferBytes == 0 {
		return int(^uint(0) >> 1)
	}
	used := 0
	for _, h := range f.order {
		used += h.down.queued(f.now)
	}
	return int(f.cfg.BufferShare * float64(max(f.cfg.BufferBytes-used, 0)))
}
