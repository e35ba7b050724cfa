package rsocket

import "github.com/goroce/goroce/ib"

// sender is the sending half of the protocol: it decides which messages may be sent and where their
// bytes go.
type sender struct {
	seq     uint16 // messages sent
	limit   uint16 // first message that may not be sent
	reserve uint16 // credits kept for control messages

	grant [grants]sge
	cur   int // grant in use
	next  int // grant that the peer writes next

	room  int // work requests that fit the send queue
	rooms int // the same when it is empty
	buf   sendBuffer
	most  int // the most bytes of a message

	// hold is how many bytes may be staged, if fewer than the send buffer takes; 0 is no limit.
	hold int
	// staged counts the last bytes of the send buffer, which wait for credit or a grant. Later
	// writes wait behind them.
	staged int

	// quiet sums up messages that were sent without a completion of their own: that of a later
	// message covers them. Its messages and bytes are bounded, so that such a completion always
	// comes when a call waits for room.
	quiet tally
}

func (s *sender) init(peer *connData, sendWRs, bufBytes int) {
	*s = sender{
		limit: peer.credits, reserve: min(spareCredits, peer.credits/4),
		next: 1, room: sendWRs, rooms: sendWRs, buf: sendBuffer{size: bufBytes}, most: maxTransfer,
	}
	s.grant[0] = peer.data
}

// credits reports whether one more message may be sent.
func (s *sender) credits() bool { return s.limit-s.seq > s.reserve }

// begins returns how many bytes the first message of a Write should have: few if nothing is on its
// way, so that they travel while the rest is still being copied.
func (s *sender) begins() int {
	if s.buf.used >= startTransfer {
		return s.most
	}
	return min(startTransfer, s.most)
}

// keep records a message of n bytes, of which held are in the send buffer, and reports whether it
// needs no completion of its own.
func (s *sender) keep(n, held int) (quiet bool) {
	q := &s.quiet
	q.messages++
	q.held += held
	q.bytes += n
	return q.messages < s.rooms/4 && q.held < min(s.buf.size/4, quietBytes)
}

// data returns how many bytes the next DATA message can carry, at most want; 0 if it has to wait.
func (s *sender) data(want int) int {
	if !s.credits() {
		return 0
	}
	return int(min(uint32(s.copied(want)), s.grant[s.cur].length))
}

// copied returns how many bytes can go through the send buffer, or inline, at once.
func (s *sender) copied(want int) int {
	switch {
	case s.room == 0:
		return 0
	case want <= inlineBytes:
		return want
	}
	free := s.buf.free()
	if free < min(want, s.buf.low()) {
		return 0
	}
	return min(want, free, s.most)
}

// cramped reports whether only lack of room in the send buffer keeps a message from having want
// bytes.
func (s *sender) cramped(want int) bool {
	want = int(min(uint32(min(want, s.most)), s.grant[s.cur].length))
	return want > inlineBytes && s.staged == 0 && s.credits() && s.room > 0 && s.buf.free() < want
}

// stages reports whether the peer's program must read before data can be sent; meanwhile the send
// buffer takes what is written. It returns false if only the peer's adapter delays data, because
// then an acknowledgement is on its way.
func (s *sender) stages() bool {
	return s.staged > 0 || !s.credits() || s.grant[s.cur].length == 0
}

// stageable returns how many of the wanted bytes the send buffer takes, to be sent later.
func (s *sender) stageable(want int) int {
	free, low := s.buf.free(), s.buf.low()
	if s.hold > 0 {
		free, low = min(free, s.hold-s.staged), min(low, s.hold/4)
	}
	if free < min(want, low) {
		return 0
	}
	return min(want, free, s.most)
}

// stage enters n bytes that were copied to the send buffer, behind its head.
func (s *sender) stage(n int) {
	s.buf.push(n)
	s.staged += n
}

// pourable returns how many of the staged bytes the next message can carry.
func (s *sender) pourable() int {
	if !s.credits() || s.room == 0 {
		return 0
	}
	return int(min(uint32(min(s.staged, s.most)), s.grant[s.cur].length))
}

// pour takes the first n staged bytes, which stay in the send buffer until they are acknowledged.
func (s *sender) pour(n int) (at, n1 int) {
	b := &s.buf
	if at = b.head - s.staged; at < 0 {
		at += b.size
	}
	s.staged -= n
	return at, min(n, b.size-at)
}

// move switches to another send buffer, which begins with the staged bytes.
func (s *sender) move(size int) {
	b := &s.buf
	*b = sendBuffer{size: size, head: s.staged % size, used: s.staged, old: b.old + b.used - s.staged}
}

// take uses up n bytes of the current grant and one credit, and returns where the bytes go.
func (s *sender) take(n int) sge {
	g := &s.grant[s.cur]
	to := sge{g.addr, g.key, uint32(n)}
	g.addr += uint64(n)
	g.length -= uint32(n)
	if g.length == 0 {
		s.cur = (s.cur + 1) % grants
	}
	s.seq++
	s.room--
	return to
}

// update applies an SGL message.
func (s *sender) update(limit uint16, g *sge) {
	s.limit = limit
	if g != nil {
		s.grant[s.next] = *g
		s.next = (s.next + 1) % grants
	}
}

// sendBuffer is a ring of bytes that are kept until they are acknowledged.
type sendBuffer struct {
	size int
	head int // where the next byte goes
	used int
	old  int // bytes in earlier buffers, which are acknowledged first
	// pinned says that the bytes behind head are being written.
	pinned bool
}

func (b *sendBuffer) free() int { return b.size - b.used }

// low returns how much must be free before a part of a larger Write is sent.
func (b *sendBuffer) low() int { return min(max(b.size/4, lowWater), lowWaterMost) }

// push takes n bytes: n1 at head, the rest at the start.
func (b *sendBuffer) push(n int) (at, n1 int) {
	at, n1 = b.head, min(n, b.size-b.head)
	b.used += n
	if b.head += n; b.head >= b.size {
		b.head -= b.size
	}
	return at, n1
}

// pop releases the oldest n bytes. An empty buffer starts over at its beginning, so that a
// connection that sends little uses few pages, and these stay in the cache.
func (b *sendBuffer) pop(n int) {
	k := min(n, b.old)
	b.old -= k
	if b.used -= n - k; b.used == 0 && !b.pinned {
		b.head = 0
	}
}

// bestTransfer returns how many bytes a message should have on a path with the given MTU, at most
// maxTransfer: as many as fill datagrams of the kernel's segmentation. All packets of such a
// datagram have one length, except for the last, which may be shorter. The first packet is longer
// than the others by the RETH, so it ends its datagram together with the second; the last has the
// immediate, which takes room from its payload.
func bestTransfer(mtu int) int {
	const most, headers = 65_000, ib.BTHBytes + ib.RETHBytes + ib.ICRCBytes
	each := max(min(most/(mtu+headers), maxSegments), 1)
	packets := 2 + each*max((maxTransfer/mtu-2)/each, 0)
	return packets*mtu - ib.ImmDtBytes
}

// maxSegments is how many packets a datagram has at most (UDP_MAX_SEGMENTS).
const maxSegments = 64
