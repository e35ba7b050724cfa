package sockio

import "github.com/goroce/goroce/transport/wire"

// This file is for batches of packets of many paths, whose packets are worth sorting: a
// datagram holds segments of one size, and those of different queue pairs may share it
// if they go to the same device by the same flow. It takes two steps.
//
//   - Place, for each packet in order, chooses the datagram; Take puts the packet there. The
//     ICRC is made in between, because it depends on the place.
//   - Build makes the messages out of what was taken. An ACK by itself becomes the end of a datagram
//     before or after it: a reply and the ACK of another connection's are one datagram.
//
// The packets of one path stay in order: a packet is never put in a datagram before
// that of an earlier one of its path.

// Several reports whether packets are of more than one path.
func Several(batch []wire.TxPacket) bool {
	for i := 1; i < len(batch); i++ {
		if batch[i].Path != batch[0].Path {
			return true
		}
	}
	return false
}

// run is a datagram in the making.
type run[P comparable] struct {
	path    P
	slot    uint8 // of the receiving device
	size    int   // so far, bytes
	segment int   // size of the packets but the last, bytes
	payload int   // of those
	packets int
	iovs    int // at most
	segs    int // most packets
	limit   int // most bytes
	short   bool
	head    int16 // packets, as indexes of placed
	tail    int16
}

// placed is a packet that was taken.
type placed struct {
	p    *wire.TxPacket
	icrc uint32
	size int32
	next int16 // of its run
}

// openSlots is how many runs are looked at for a packet: a direct-mapped table, power of
// two. A run that is thrown out takes no more packets.
const openSlots = 64

// runs is the state of the first step.
type runs[P comparable] struct {
	runs    []run[P]
	packets []placed
	open    [openSlots]int16 // run+1, by flow, size and receiving slot
	batch   uint32           // number of the batch: tells whether Path.LinkMark is of this one
}

// slotOf returns the part of the queue pair numbers that a packet is for, as package slots
// divides them: a datagram with packets for several goes whole to one of the devices,
// which has to hand the others on. Queue pair 1 is none's.
func slotOf(p *wire.TxPacket) uint8 {
	if p.Header[5]|p.Header[6] == 0 && p.Header[7] <= 1 {
		return noSlot
	}
	return p.Header[5] >> 2
}

// noSlot is more than any slot.
const noSlot = 0xFF

// Place returns the number of the datagram that a packet of size bytes joins, and its index
// there. hash is of the path. A datagram takes at most segs packets and limit bytes.
//
// The last packet of a message, whose payload is shorter than that of the one before, ends that
// one's datagram. One that is shorter otherwise does not: there are more of its size, of other
// queue pairs, as there are of MIDDLE packets behind a FIRST with its longer headers, and of ACKs.
func (t *Batch[P]) Place(path P, hash uint32, p *wire.TxPacket, size, segs, limit int) (k, index int) {
	r := &t.sorted
	last := -1
	if m := p.Path.LinkMark; m>>markShift == r.batch && int(uint8(m)) < len(r.runs) {
		last = int(uint8(m))
		if n := int(p.PayloadLen); n != 0 && n < r.runs[last].payload && r.fits(last, path, p, size) {
			return last, r.runs[last].packets
		}
	}
	slot := slotOf(p)
	at := &r.open[(hash^uint32(size)^uint32(slot)<<3)%openSlots]
	if k = int(*at) - 1; k >= last && k >= 0 && size == r.runs[k].segment && r.fits(k, path, p, size) {
		return k, r.runs[k].packets
	}
	r.runs = append(r.runs, run[P]{
		path: path, slot: slot, segment: size, payload: int(p.PayloadLen), segs: segs, limit: limit, head: -1,
	})
	*at = int16(len(r.runs))
	return len(r.runs) - 1, 0
}

// markShift is the bits of Path.LinkMark for the number of a run, of which there are
// BatchPackets at most.
const markShift = 8

// fits reports whether a packet can be the next segment of run k.
func (r *runs[P]) fits(k int, path P, p *wire.TxPacket, size int) bool {
	m := &r.runs[k]
	return m.path == path && !m.short && m.slot == slotOf(p) &&
		size <= m.segment && m.packets < m.segs && m.size+size <= m.limit &&
		m.iovs+2+int(p.NumFrags) <= maxIovs-1
}

// ends reports whether run j, which is beside run k, is one packet without payload that may be the
// last of run k.
func (r *runs[P]) ends(k, j int) bool {
	if min(k, j) < 0 || max(k, j) >= len(r.runs) || r.runs[k].head < 0 || r.runs[j].packets != 1 {
		return false
	}
	q := &r.packets[r.runs[j].head]
	if q.p.PayloadLen != 0 || !r.fits(k, r.runs[j].path, q.p, int(q.size)) {
		return false
	}
	if j > k {
		return true
	}
	for i := r.runs[k].head; i >= 0; i = r.packets[i].next {
		if r.packets[i].p.Path == q.p.Path {
			return false // those come after it
		}
	}
	return true
}

// Take puts a packet in the datagram that Place returned.
func (t *Batch[P]) Take(k int, p *wire.TxPacket, size int, icrc uint32) {
	r := &t.sorted
	m := &r.runs[k]
	i := int16(len(r.packets))
	r.packets = append(r.packets, placed{p: p, icrc: icrc, size: int32(size), next: -1})
	if m.head < 0 {
		m.head = i
	} else {
		r.packets[m.tail].next = i
	}
	m.tail = i
	m.packets++
	m.size += size
	m.short = size < m.segment
	m.iovs += 2 + int(p.NumFrags)
	p.Path.LinkMark = r.batch<<markShift | uint32(k)
}

// Build makes the messages. begin is called for each, with the size of its first packet, and
// calls Begin. icrc is that of a packet with another index in its datagram than Place has said.
func (t *Batch[P]) Build(begin func(path P, size int) *Message[P], icrc func(path P, p *wire.TxPacket, index int) uint32) {
	r := &t.sorted
	waits := false // the run before, for this one
	for k := range r.runs {
		run := &r.runs[k]
		if waits = !waits && r.ends(k+1, k); waits || run.packets == 0 {
			continue // in the next one; or its packet was not there
		}
		m := begin(run.path, run.segment)
		for i := run.head; i >= 0; i = r.packets[i].next {
			q := &r.packets[i]
			t.Add(m, q.p, int(q.size), q.icrc)
		}
		for _, j := range [...]int{k - 1, k + 1} {
			if r.ends(k, j) {
				q := &r.packets[r.runs[j].head]
				t.Add(m, q.p, int(q.size), icrc(run.path, q.p, run.packets))
				run.short, r.runs[j].packets = true, 0
			}
		}
	}
	t.forget()
}

// forget ends the first step.
func (t *Batch[P]) forget() {
	r := &t.sorted
	if len(r.runs) == 0 {
		return
	}
	clear(r.packets) // they may refer to paths that go
	r.runs, r.packets = r.runs[:0], r.packets[:0]
	clear(r.open[:])
	r.batch = max((r.batch+1)&(1<<(32-markShift)-1), 1)
}
