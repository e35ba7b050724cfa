package sockio

import "github.com/goroce/goroce/transport/edge"

// This file is for batches of packets of many paths, which are worth sorting: a datagram holds
// segments of one size, and packets of different queue pairs may share it if they go to the same
// device by the same flow. It takes two steps.
//
//   - Place, for each packet in order, chooses the datagram; Take puts the packet there. The ICRC
//     is made in between, because it depends on the place.
//   - Build makes messages of the packets taken. A single ACK becomes the end of the datagram
//     before or after it: a reply and the ACK of another connection's are one datagram.
//
// The packets of one path stay in order: a packet is never put in a datagram before that of an
// earlier one of its path.

// Several reports whether packets are of more than one path.
func Several(batch []edge.TxPacket) bool {
	for i := 1; i < len(batch); i++ {
		if batch[i].Path != batch[0].Path {
			return true
		}
	}
	return false
}

// run is a datagram under construction.
type run[P comparable] struct {
	path    P
	slot    uint8 // of the receiving device
	size    int   // so far, bytes
	segment int   // size of the packets except the last, bytes
	payload int   // payload of those
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
	p    *edge.TxPacket
	icrc uint32
	size int32
	next int16 // of its run
}

// openSlots is how many runs are candidates for a packet: a direct-mapped table, power of two. An
// evicted run takes no more packets.
const openSlots = 64

// runs is the state of the first step.
type runs[P comparable] struct {
	runs    []run[P]
	packets []placed
	open    [openSlots]int16 // run+1, by flow, size and receiving slot
	batch   uint32           // number of the batch: tells whether a Path.LinkMark belongs to it
}

// slotOf returns the slot, as in package slots, of a packet's destination: a datagram with packets
// for several slots goes whole to one of the devices, which must hand the others on. Queue pair 1
// has no slot.
func slotOf(p *edge.TxPacket) uint8 {
	if p.Header[5]|p.Header[6] == 0 && p.Header[7] <= 1 {
		return noSlot
	}
	return p.Header[5] >> 2
}

// noSlot is larger than any slot.
const noSlot = 0xFF

// Place returns the number of the datagram that a packet of size bytes joins, and its index there.
// hash is that of the path. A datagram takes at most segs packets and limit bytes.
//
// The last packet of a message, if its payload is shorter than that of the previous packet, ends
// that packet's datagram. Other shorter packets do not: more packets of their size will come from
// other queue pairs, such as MIDDLE packets after a FIRST with its longer headers, and ACKs.
func (t *Batch[P]) Place(path P, hash uint32, p *edge.TxPacket, size, segs, limit int) (k, index int) {
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

// markShift is the number of bits of Path.LinkMark for the number of a run, of which there are at
// most BatchPackets.
const markShift = 8

// fits reports whether a packet can be the next segment of run k.
func (r *runs[P]) fits(k int, path P, p *edge.TxPacket, size int) bool {
	m := &r.runs[k]
	return m.path == path && !m.short && m.slot == slotOf(p) &&
		size <= m.segment && m.packets < m.segs && m.size+size <= m.limit &&
		m.iovs+2+int(p.NumFrags) <= maxIovs-1
}

// ends reports whether run j, which is adjacent to run k, is a single packet without payload that
// may end run k.
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
func (t *Batch[P]) Take(k int, p *edge.TxPacket, size int, icrc uint32) {
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

// Build makes the messages. It calls begin for each, with the size of its first packet, which calls
// Begin. icrc returns the ICRC of a packet whose index in its datagram differs from that of Place.
func (t *Batch[P]) Build(begin func(path P, size int) *Message[P],
	icrc func(path P, p *edge.TxPacket, index int) uint32) {
	r := &t.sorted
	waits := false // the previous run joins this one
	for k := range r.runs {
		run := &r.runs[k]
		if waits = !waits && r.ends(k+1, k); waits || run.packets == 0 {
			continue // it joins the next one, or its packet was gone
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
	clear(r.packets) // they may refer to paths that go away
	r.runs, r.packets = r.runs[:0], r.packets[:0]
	clear(r.open[:])
	r.batch = max((r.batch+1)&(1<<(32-markShift)-1), 1)
}
