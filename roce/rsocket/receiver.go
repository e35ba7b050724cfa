package rsocket

import "fmt"

// receiver is the receiving half of the protocol: it tracks which bytes of the receive buffers hold
// data, which the peer may write, and when to tell the peer of more room.
//
// The peer writes one stretch after the other. There are as many stretches as entries in its list;
// when one is read, another is granted, in the buffer chosen at that time. So a connection moves to
// a larger buffer, or back, without the peer's involvement.
type receiver struct {
	to     place // the buffer of the next grant
	second bool  // the next grant is its second half

	// out has the stretches that are not fully read, the oldest first, as a ring.
	out     [grants]stretch
	oldest  int
	held    int
	ready   int // unread bytes
	granted int // bytes that the peer may still write

	asked  bool // the answer to a grant is awaited
	before int  // bytes of earlier grants that have not come
	tight  bool // all had come before the last answer

	slot  int // entry of the peer's list for the next grant
	slots int

	seq   uint16 // messages read
	warn  uint16 // tell the peer at this many
	depth uint16 // credits given at a time

	// lens has the lengths of the messages not fully read, as a ring. It grows up to depth.
	lens  []uint32
	first int
	count int
}

// place is a receive buffer of two halves, with the address and key that the peer uses.
type place struct {
	buf  int // its index
	addr uint64
	key  uint32
	half int // bytes
}

// stretch is a half of a receive buffer that was granted.
type stretch struct {
	buf, off, size int
	fill           int // bytes that have arrived
	read           int // bytes that were read
}

// init starts with the first half of a buffer, which the peer learned of when it connected.
func (r *receiver) init(peer *connData, to place, depth uint16) {
	*r = receiver{
		to: to, slot: 1, slots: int(peer.list.length), depth: depth, warn: depth / 2,
	}
	if r.slots == 1 {
		r.slot = 0
	}
	r.grant()
}

// grant adds the next half.
func (r *receiver) grant() (off int) {
	if r.second {
		off = r.to.half
	}
	r.out[(r.oldest+r.held)%grants] = stretch{buf: r.to.buf, off: off, size: r.to.half}
	r.held++
	r.granted += r.to.half
	r.second = !r.second
	return off
}

// arrive enters a DATA message of n bytes.
func (r *receiver) arrive(n uint32) error {
	if r.count == int(r.depth) {
		return &ProtocolError{"more messages than there were credits"}
	}
	if n == 0 { // no known peer sends these
		r.seq++
		return nil
	}
	g := r.filling()
	if g == nil || int64(n) > int64(g.size-g.fill) {
		left := 0
		if g != nil {
			left = g.size - g.fill
		}
		return &ProtocolError{fmt.Sprintf("a message of %d bytes where %d were granted", n, left)}
	}
	g.fill += int(n)
	r.granted -= int(n)
	r.before -= min(r.before, int(n))
	r.ready += int(n)
	if r.count == len(r.lens) {
		r.lengthen()
	}
	r.lens[(r.first+r.count)%len(r.lens)] = n
	r.count++
	return nil
}

// lengthen makes room for more messages.
func (r *receiver) lengthen() {
	lens := make([]uint32, min(max(2*len(r.lens), minQueue), int(r.depth)))
	copy(lens[copy(lens, r.lens[r.first:]):], r.lens[:r.first])
	r.lens, r.first = lens, 0
}

// filling returns the stretch that the peer is writing, or nil.
func (r *receiver) filling() *stretch {
	for i := range r.held {
		if g := &r.out[(r.oldest+i)%grants]; g.fill < g.size {
			return g
		}
	}
	return nil
}

// unread returns where unread bytes are contiguous: the buffer, the offset, and how many.
func (r *receiver) unread(most int) (buf, off, n int) {
	g := &r.out[r.oldest]
	return g.buf, g.off + g.read, min(most, g.fill-g.read)
}

// unreadAt is unread for all unread bytes of stretch i, counted from the oldest.
func (r *receiver) unreadAt(i int) (buf, off, n int) {
	g := &r.out[(r.oldest+i)%grants]
	return g.buf, g.off + g.read, g.fill - g.read
}

// take marks n of the unread bytes as read.
func (r *receiver) take(n int) {
	r.ready -= n
	for left := n; left > 0; {
		g := &r.out[r.oldest]
		k := min(left, g.fill-g.read)
		left -= k
		if g.read += k; g.read == g.size {
			r.oldest = (r.oldest + 1) % grants
			r.held--
		}
	}
	for n > 0 {
		l := &r.lens[r.first]
		if uint32(n) < *l {
			*l -= uint32(n)
			return
		}
		n -= int(*l)
		r.seq++
		r.count--
		if r.first++; r.first == len(r.lens) {
			r.first = 0
		}
	}
}

// roomy reports whether there is a half to grant.
func (r *receiver) roomy() bool { return r.held < grants }

// due reports whether the peer should be told of more room.
func (r *receiver) due() bool { return r.roomy() || int16(r.seq-r.warn) >= 0 }

// update returns what to tell the peer: the first message that it may not send and, if there is
// room, the half that it may fill and the entry of its list to write it to. Without room the length
// of the half is 0. The caller calls answered if asks is true, when the peer's adapter has what it
// was told.
func (r *receiver) update() (limit uint16, half sge, slot int, asks bool) {
	r.warn = r.seq + r.depth/2
	limit = r.seq + r.depth
	if r.roomy() {
		if asks = !r.asked; asks {
			r.asked, r.before = true, r.granted
		}
		slot = r.slot
		half = sge{r.to.addr + uint64(r.grant()), r.to.key, uint32(r.to.half)}
		r.slot = (r.slot + 1) % r.slots
	}
	return limit, half, slot, asks
}

// answered ends the round trip of a grant. If the peer had used all of its earlier grants by then,
// it waited, or almost did, however fast we read.
func (r *receiver) answered() { r.asked, r.tight = false, r.before == 0 }

// hurried reports whether the peer has used most of its grant while we have read a half: with a
// larger grant it could send more.
func (r *receiver) hurried() bool { return r.roomy() && 2*r.granted <= r.to.half }

// uses reports whether a buffer has stretches that are not fully read.
func (r *receiver) uses(buf int) bool {
	for i := range r.held {
		if r.out[(r.oldest+i)%grants].buf == buf {
			return true
		}
	}
	return false
}

// move places further grants in another buffer, which is not in use.
func (r *receiver) move(to place) { r.to, r.second = to, false }

// widen places further grants in the first n bytes of the buffer, twice as many as before: first in
// the new half, because the other has stretches in use.
func (r *receiver) widen(n int) { r.to.half, r.second = n/2, true }
