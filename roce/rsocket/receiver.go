package rsocket

import "fmt"

// receiver is the receiving half of the protocol: which bytes of the receive
// buffers hold data, which the peer may write, and when it is told more.
//
// The peer writes stretches one after the other. There are as many of them as its list has
// entries; when one is read, another one is granted, in the buffer that is chosen then. So
// a connection moves to a larger buffer, or back, without the peer's doing.
type receiver struct {
	to     place // where the next stretch is granted
	second bool  // and in which half of it

	// out are the stretches that are not read to the end, the oldest first, a ring.
	out     [grants]stretch
	oldest  int
	held    int
	ready   int // unread bytes
	granted int // bytes that the peer may still write

	slot  int // entry of the peer's list for the next grant
	slots int

	seq   uint16 // messages read
	warn  uint16 // at this many the peer is told
	depth uint16 // credits given at a time

	// lens are the lengths of the messages not wholly read, a ring. It grows up to depth.
	lens  []uint32
	first int
	count int
}

// place is a receive buffer of two halves, as the peer names it.
type place struct {
	buf  int // which one
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

// init begins with the first half of a buffer, which the peer was told of when it connected.
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
	if n == 0 { // nobody sends such
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

// filling is the stretch that the peer writes, nil if there is none.
func (r *receiver) filling() *stretch {
	for i := range r.held {
		if g := &r.out[(r.oldest+i)%grants]; g.fill < g.size {
			return g
		}
	}
	return nil
}

// unread returns where unread bytes lie in a row: the buffer, the offset, and how many.
func (r *receiver) unread(most int) (buf, off, n int) {
	g := &r.out[r.oldest]
	return g.buf, g.off + g.read, min(most, g.fill-g.read)
}

// unreadAt is unread for all that is unread of a stretch, counted from the oldest.
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

// update returns what to tell the peer: the first message that it may not
// send, and, if there is room, the half that it may fill, and the entry of its
// list to say so in; without room the length of the half is 0.
func (r *receiver) update() (limit uint16, half sge, slot int) {
	r.warn = r.seq + r.depth/2
	limit = r.seq + r.depth
	if r.roomy() {
		slot = r.slot
		half = sge{r.to.addr + uint64(r.grant()), r.to.key, uint32(r.to.half)}
		r.slot = (r.slot + 1) % r.slots
	}
	return limit, half, slot
}

// hurried reports whether the peer has used up most of what it was granted while we
// have read a half: it could send more if it were granted more.
func (r *receiver) hurried() bool { return r.roomy() && 2*r.granted <= r.to.half }

// uses reports whether a buffer has stretches that are not read to the end.
func (r *receiver) uses(buf int) bool {
	for i := range r.held {
		if r.out[(r.oldest+i)%grants].buf == buf {
			return true
		}
	}
	return false
}

// move has further grants be made in another buffer, of which nothing is in use.
func (r *receiver) move(to place) { r.to, r.second = to, false }

// widen has further grants be halves of the first n bytes of the buffer, twice as many as before:
// first the new half, since the other one has stretches that are in use.
func (r *receiver) widen(n int) { r.to.half, r.second = n/2, true }
