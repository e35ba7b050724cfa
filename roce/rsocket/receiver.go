package rsocket

import "fmt"

// receiver is the receiving half of the protocol: which bytes of the receive
// buffer hold data, which the peer may write, and when it is told more.
type receiver struct {
	size, half int

	read  int // offset of the first unread byte
	ready int // unread bytes
	// free bytes are neither granted nor unread. At every moment
	// ready + granted + free = size.
	free    int
	granted int
	fill    int // bytes of the half being filled that are filled
	offer   int // offset of the half to grant next
	slot    int // entry of the peer's list for it
	slots   int

	seq   uint16 // messages read
	warn  uint16 // at this many the peer is told
	depth uint16 // credits given at a time

	// lens are the lengths of the messages not wholly read, a ring.
	lens  []uint32
	first int
	count int
}

func (r *receiver) init(peer *connData, bufBytes int, depth uint16) {
	half := bufBytes / 2
	*r = receiver{
		size: 2 * half, half: half, free: half, granted: half, offer: half,
		slot: 1, slots: int(peer.list.length), depth: depth, warn: depth / 2,
		lens: make([]uint32, depth),
	}
	if r.slots == 1 {
		r.slot = 0
	}
}

// arrive enters a DATA message of n bytes.
func (r *receiver) arrive(n uint32) error {
	if r.count == len(r.lens) {
		return &ProtocolError{"more messages than there were credits"}
	}
	if int64(n) > int64(min(r.granted, r.half-r.fill)) {
		return &ProtocolError{fmt.Sprintf("a message of %d bytes where %d were granted", n, min(r.granted, r.half-r.fill))}
	}
	if n == 0 { // nobody sends such
		r.seq++
		return nil
	}
	r.granted -= int(n)
	r.ready += int(n)
	if r.fill += int(n); r.fill == r.half {
		r.fill = 0
	}
	r.lens[(r.first+r.count)%len(r.lens)] = n
	r.count++
	return nil
}

// unread returns the offset of unread bytes that lie in a row, and how many.
func (r *receiver) unread(most int) (off, n int) {
	return r.read, min(most, r.ready, r.size-r.read)
}

// take marks n of the unread bytes as read.
func (r *receiver) take(n int) {
	if r.read += n; r.read >= r.size {
		r.read -= r.size
	}
	r.ready -= n
	r.free += n
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

// due reports whether the peer should be told of more room.
func (r *receiver) due() bool { return r.free >= r.half || int16(r.seq-r.warn) >= 0 }

// update returns what to tell the peer: the first message that it may not
// send, and, if there is room, which half of the buffer it may fill (off) and
// the entry of its list to say so in; off is -1 if there is not.
func (r *receiver) update() (limit uint16, off, slot int) {
	r.warn = r.seq + r.depth/2
	limit, off = r.seq+r.depth, -1
	if r.free >= r.half {
		off, slot = r.offer, r.slot
		r.free -= r.half
		r.granted += r.half
		r.offer = r.half - r.offer
		r.slot = (r.slot + 1) % r.slots
	}
	return limit, off, slot
}
