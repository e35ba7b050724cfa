package sim

import "net/netip"

// Trunk is a cable between two switches, in one direction, with the queue of the port before it:
// packets of a route pass it in addition to the pipes of their hosts. Without routes a fabric is
// one switch.
//
// A trunk has its own queue, which does not use Config.BufferBytes.
type Trunk struct {
	f    *Fabric
	pipe pipeState
}

// NewTrunk makes a trunk. Several routes may share it. A Latency of 0 is no delay.
func (f *Fabric) NewTrunk(p Pipe) *Trunk {
	f.lock()
	defer f.mu.Unlock()
	return &Trunk{f: f, pipe: pipeState{Pipe: p, since: f.now}}
}

// Route sends the packets from one address to another over trunks, in this order, before the pipe
// to their host; without trunks it removes the route.
func (f *Fabric) Route(from, to netip.Addr, trunks ...*Trunk) {
	f.lock()
	defer f.mu.Unlock()
	f.routes[[2]netip.Addr{from, to}] = trunks
}

// Change makes the trunk what p says, from now on. Packets that wait leave at the new rate; those
// on the cable arrive when they would have. Both rates must be set, and there must be no PFC.
func (t *Trunk) Change(p Pipe) {
	f, q := t.f, &t.pipe
	f.lock()
	defer f.mu.Unlock()
	q.observe(f.now)
	slower := float64(q.BitsPerSecond) / float64(p.BitsPerSecond)
	scale := func(at int64) int64 { return f.now + int64(float64(at-f.now)*slower) }
	for i := range f.events {
		e := &f.events[i]
		switch left := e.at - int64(q.Latency); {
		case e.pipe != &t.pipe:
		case e.kind == departs:
			e.at, e.after = scale(e.at), int64(p.Latency)
		case left > f.now:
			e.at = scale(left) + int64(p.Latency)
		}
	}
	f.events.order()
	q.freeAt = scale(max(q.freeAt, f.now))
	q.Pipe = p
}

// QueueStats returns what the queue of the trunk has seen.
func (t *Trunk) QueueStats() QueueStats {
	t.f.lock()
	defer t.f.mu.Unlock()
	return t.pipe.stats(t.f.now)
}

// ResetQueue starts the observation of the queue over.
func (t *Trunk) ResetQueue() {
	t.f.lock()
	defer t.f.mu.Unlock()
	t.pipe.reset(t.f.now)
}

// toTrunk puts a packet into the next trunk, which ends at a switch.
func (f *Fabric) toTrunk(t *Trunk, p *packet) {
	at, ok := t.pipe.enter(f, p.wireBytes(), p)
	if !ok {
		f.stats.Overflowed++
		f.recycle(p)
		return
	}
	p.hops++
	t.pipe.pass(f, at, 0, event{kind: atSwitch, pkt: p, pipe: &t.pipe})
}
