package sim

import "slices"

// PFC is priority flow control (IEEE 802.1Qbb) by all switches: none of them drops what it has
// no room for. A switch that holds more than XOFFBytes of one priority of what came over one
// cable tells the sender at its other end, a host or a switch, to stop sending that priority,
// and to go on when it holds no more than XONBytes. Cables without a rate have no queue, and
// are never paused. With PFC Pipe.QueueBytes and Config.BufferBytes have no effect.
//
// The priority of a packet is the upper three bits of its DSCP, as by default in most switches.
// A cable sends those that are not paused in turn.
type PFC struct {
	XOFFBytes int // 0 is no PFC
	XONBytes  int
	// HeadroomBytes is the room beyond XOFFBytes for what is on the way until the sender has
	// stopped: twice the delay of the cable at its rate, and a packet for each of its ends.
	// What does not fit is dropped.
	HeadroomBytes int
}

const (
	priorities = 8
	pauseBytes = 64 + ethernetBytes - 18 // a pause frame, which has no IP packet
)

// pauses is what a pipe has if its sender can be paused.
type pauses struct {
	queues [priorities][]event // of what waits at the sender: what happens when it arrives, after its delay
	paused [priorities]bool
	last   int  // the priority that was sent last
	busy   bool // a packet is being sent
	bytes  int  // that wait, with that packet

	// At the switch that the pipe leads to:
	held [priorities]int // bytes that came this way and are still there
	told [priorities]bool
}

func (p *packet) priority() int { return int(p.tclass >> 5) }

// canPause makes a pipe one that can be paused, if there is PFC.
func (p *pipeState) canPause(f *Fabric) bool {
	if f.cfg.PFC.XOFFBytes == 0 || p.BitsPerSecond == 0 {
		return false
	}
	if p.pauses == nil {
		p.pauses = &pauses{}
	}
	return true
}

// admit is enter for a pipe that can be paused. A packet that came to this switch by another
// one counts there.
func (p *pipeState) admit(f *Fabric, n int, pkt *packet) bool {
	prio, cfg := pkt.priority(), &f.cfg.PFC
	if from := pkt.from; from != nil {
		s := from.pauses
		held, fits := s.held[prio]+n, s.held[prio]+n <= cfg.XOFFBytes+cfg.HeadroomBytes
		if fits {
			s.held[prio] = held
		}
		if held > cfg.XOFFBytes && s.held[prio] > 0 && !s.told[prio] {
			from.tell(f, prio, true)
		}
		if !fits {
			p.seen.Dropped++
			return false
		}
	}
	if !p.MarkDeparting {
		p.mark(f, p.pauses.bytes, pkt)
	}
	p.pauses.bytes += n
	p.peak = max(p.peak, p.pauses.bytes)
	p.seen.PeakBytes = max(p.seen.PeakBytes, p.pauses.bytes)
	p.seen.Packets++
	p.seen.Bytes += uint64(n)
	return true
}

// tell sends a pause frame, or one that ends the pause, back to the sender of a pipe.
func (p *pipeState) tell(f *Fabric, prio int, pause bool) {
	p.pauses.told[prio] = pause
	if pause {
		f.stats.Pauses++
	}
	f.push(event{at: f.now + p.serial(pauseBytes) + int64(p.Latency), kind: callback, fn: func() {
		f.lock()
		defer f.mu.Unlock()
		p.pauses.paused[prio] = pause
		p.start(f)
	}})
}

// serial is how long n bytes take at the rate of the pipe, ns.
func (p *pipeState) serial(n int) int64 { return int64(float64(n) * 8e9 / float64(p.BitsPerSecond)) }

// start sends the next packet that may go.
func (p *pipeState) start(f *Fabric) {
	s := p.pauses
	for i := 1; i <= priorities && !s.busy; i++ {
		prio := (s.last + i) % priorities
		if s.paused[prio] || len(s.queues[prio]) == 0 {
			continue
		}
		e := s.queues[prio][0]
		s.queues[prio] = slices.Delete(s.queues[prio], 0, 1)
		s.busy, s.last = true, prio
		e.next, e.kind, e.pipe, e.at = e.kind, leaves, p, f.now+p.serial(e.pkt.wireBytes())
		f.push(e)
	}
}

// left is for a packet whose last bit is on the cable: its room in the switch is free.
func (p *pipeState) left(f *Fabric, e *event) {
	p.observe(f.now)
	n, prio := e.pkt.wireBytes(), e.pkt.priority()
	p.pauses.busy = false
	p.pauses.bytes -= n
	if p.MarkDeparting {
		p.mark(f, p.pauses.bytes, e.pkt)
	}
	if from := e.pkt.from; from != nil {
		from.pauses.held[prio] -= n
		if from.pauses.told[prio] && from.pauses.held[prio] <= f.cfg.PFC.XONBytes {
			from.tell(f, prio, false)
		}
	}
	e.pkt.from = p
	f.push(event{at: f.now + int64(p.Latency) + e.after, kind: e.next, host: e.host, pkt: e.pkt})
	p.start(f)
}
