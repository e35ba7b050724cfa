package rsocket

// sender is the sending half of the protocol: which messages may be sent and
// where their bytes go.
type sender struct {
	seq     uint16 // messages sent
	limit   uint16 // first message that may not be sent
	reserve uint16 // credits left for control messages

	grant [grants]sge
	cur   int // grant in use
	next  int // grant that the peer writes next

	room  int // work requests that fit the send queue
	rooms int // when it is empty
	buf   sendBuffer
}

func (s *sender) init(peer *connData, sendWRs, bufBytes int) {
	*s = sender{
		limit: peer.credits, reserve: min(spareCredits, peer.credits/4),
		next: 1, room: sendWRs, rooms: sendWRs, buf: sendBuffer{size: bufBytes},
	}
	s.grant[0] = peer.data
}

// credits reports whether one more message may be sent.
func (s *sender) credits() bool { return s.limit-s.seq > s.reserve }

// data returns how many bytes the next DATA message can carry: at most want; 0
// if it has to wait.
func (s *sender) data(want int) int {
	if !s.credits() {
		return 0
	}
	return int(min(uint32(s.copied(want)), s.grant[s.cur].length))
}

// copied is how many bytes can go through the send buffer, or inline, at once.
func (s *sender) copied(want int) int {
	switch {
	case s.room == 0:
		return 0
	case want <= inlineBytes:
		return want
	}
	free := s.buf.free()
	if free < min(want, lowWater) {
		return 0
	}
	return min(want, free, maxTransfer)
}

// take uses up n bytes of the current grant and one credit, and returns where
// the bytes go.
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

// update takes over what an SGL message says.
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
}

func (b *sendBuffer) free() int { return b.size - b.used }

// push takes n bytes: n1 at head, the rest at the start.
func (b *sendBuffer) push(n int) (at, n1 int) {
	at, n1 = b.head, min(n, b.size-b.head)
	b.used += n
	if b.head += n; b.head >= b.size {
		b.head -= b.size
	}
	return at, n1
}

// pop gives back the oldest n bytes.
func (b *sendBuffer) pop(n int) { b.used -= n }
