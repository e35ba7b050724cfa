package transport

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// price is what packets take of a room.
type price struct{ packet, byte int }

func (p price) of(bytes int) int { return p.packet + p.byte*bytes }

// prices returns the price of a packet by itself and of one in a run. At least a
// room of so many packets is charged for each.
func prices(r *Room, size, most int) (single, run price) {
	single = price{r.PerPacket, r.PerByte}
	run = price{r.RunPerPacket, r.RunPerByte}
	if run == (price{}) {
		run = single
	}
	if most > 0 {
		single.packet = max(single.packet, size/most)
		run.packet = max(run.packet, size/(most*runsCount))
	}
	return single, run
}

// budget bounds what is on its way to a receiver, from all QPs together, by the
// room of the receiver. Who finds it used up waits for a turn, in order: what is
// given back is granted to the first that waits, so that every QP gets its share,
// and one that comes later does not overtake.
type budget struct {
	size int
	used int // on its way, or granted
	head *QP // the first that waits
	tail *QP
	wait bool // somebody has waited since this was looked at last
}

// qpShare is the share of a QP in budgets.
type qpShare struct {
	waitsFor   *budget
	next, prev *QP
	need       int // to be granted at once
	from       *budget
	granted    int // and not used yet
}

// admits reports whether a QP may send what takes cost. If there is nothing on its
// way anything may be sent: otherwise what exceeds the bound could never be.
func (b *budget) admits(qp *QP, cost int) bool {
	if s := &qp.share; s.from == b && s.granted > 0 {
		return true
	}
	return b.head == nil && (b.used == 0 || b.used+cost <= b.size)
}

// charge notes what a QP has sent.
func (b *budget) charge(qp *QP, cost int) {
	if s := &qp.share; s.from == b && s.granted > 0 {
		paid := min(s.granted, cost)
		s.granted -= paid
		cost -= paid
	}
	b.used += cost
}

// release gives back what is not on its way any more.
func (b *budget) release(n int) {
	b.used -= n
	if b.used > b.size-b.size/8 {
		return // a little later, several at a time: they then leave in one system call
	}
	for b.head != nil {
		qp := b.head
		s := &qp.share
		// Of a bound that has become small a QP does not get most.
		need := min(s.need, max(b.size/4, 1))
		if b.used > 0 && b.used+need > b.size {
			return
		}
		b.leave(qp)
		s.from, s.granted = b, need
		b.used += need
		qp.markReady()
	}
}

// enter lets a QP wait until it is granted what it needs.
func (b *budget) enter(qp *QP, need int) {
	s := &qp.share
	b.wait = true
	s.need = need
	if s.waitsFor == b {
		return
	}
	s.leave(qp)
	s.waitsFor, s.prev, s.next = b, b.tail, nil
	if b.tail != nil {
		b.tail.share.next = qp
	} else {
		b.head = qp
	}
	b.tail = qp
}

// leave takes a QP out of those that wait.
func (s *qpShare) leave(qp *QP) {
	if b := s.waitsFor; b != nil {
		b.leave(qp)
		b.release(0) // to whom it stood in the way
	}
}

// leave takes a QP out.
func (b *budget) leave(qp *QP) {
	s := &qp.share
	if s.prev != nil {
		s.prev.share.next = s.next
	} else {
		b.head = s.next
	}
	if s.next != nil {
		s.next.share.prev = s.prev
	} else {
		b.tail = s.prev
	}
	s.waitsFor, s.next, s.prev = nil, nil, nil
}

// pending reports whether the QP waits for room, or for the turn in which to use it.
func (s *qpShare) pending() bool { return s.waitsFor != nil || s.from != nil }

// endTurn ends a turn of a QP.
func (s *qpShare) endTurn() {
	if s.from != nil {
		s.settle()
	}
}

// settle gives up what the QP was granted and has not used: it is others'.
func (s *qpShare) settle() {
	if b := s.from; b != nil {
		n := s.granted
		s.from, s.granted = nil, 0
		b.release(n)
	}
}

// flight is what an engine has on its way to one address: requests that were not
// acknowledged. The room there is not known. A device's own is the first guess,
// half of it, because acknowledgements and others need some; loss makes it less,
// and progress makes it that again.
type flight struct {
	budget
	to          netip.Addr
	users       int // QPs
	most, least int // of size
	single, run price
	acked       int      // since size has grown
	cutAt       int64    // when it was made smaller
	rttNs       int64    // smoothed; 0 if unknown
	keeps       bool     // a QP there knows selective repeat
	_           [64]byte // written for each packet: those of two engines share no cache line
}

// newFlight returns a flight of size units of a room, and no more than so many
// packets by themselves, unless that is 0.
func newFlight(r *Room, size, packets int) *flight {
	f := &flight{most: size, least: max(size/leastFlight, 1)}
	f.size = size
	f.single, f.run = prices(r, size, packets)
	return f
}

// join gives the QP, at the begin of a connection, the flight to its peer.
func (e *Engine) join(qp *QP) {
	if e.cfg.Room.Size <= 0 || qp.typ != ib.RC || qp.sq.flight != nil {
		return
	}
	to := qp.path.Dst
	f := e.flights[to]
	if f == nil {
		f = newFlight(&e.cfg.Room, e.cfg.Room.Size/2, maxFlight)
		f.to = to
		e.flights[to] = f
	}
	f.users++
	qp.sq.flight = f
}

// part takes the QP out of its flight.
func (e *Engine) part(qp *QP) {
	sq := &qp.sq
	if f := sq.flight; f != nil {
		if f.users--; f.users == 0 {
			delete(e.flights, f.to)
		}
		sq.flight = nil
	}
}

// onAck makes room after cost was acknowledged, if somebody waited for it.
func (f *flight) onAck(cost int) {
	if f.size >= f.most {
		return
	}
	if f.acked += cost; f.acked >= f.size {
		f.acked = 0
		if f.wait {
			f.wait = false
			f.size = min(f.size+max(f.size/8, 1), f.most)
		}
	}
}

// onLoss makes the room smaller, once for what was on its way at a time.
func (f *flight) onLoss(now int64) {
	if now-f.cutAt < max(f.rttNs, minRepeatNs) {
		return
	}
	f.cutAt, f.acked = now, 0
	f.size = max(f.size/2, f.least)
}

// onRTT takes a measured round trip of a QP with an ACK timeout. One that takes
// a good part of the timeout is that of a peer that is behind: more on the way
// would only make it answer too late.
func (f *flight) onRTT(now, rtt, timeout int64) {
	if f.rttNs == 0 {
		f.rttNs = rtt
	} else {
		f.rttNs += (rtt - f.rttNs) / 8
	}
	if rtt > timeout/4 {
		f.onLoss(now)
	}
}

// Charges of the requester.

// bounded reports whether room bounds anything.
func (e *Engine) bounded() bool { return e.reading != nil }

// bounded reports whether the peer's room bounds the requester. Without an ACK
// timeout a loss would hold room for ever.
func (sq *requester) bounded() bool { return sq.flight != nil && sq.qp.attr.Timeout != 0 }

// priceOf returns what the next packet of w takes of the peer's room. Behind others
// of the same turn it is one of a run.
func (sq *requester) priceOf(w *sendWQE, first bool) int {
	bytes := headerRoom
	if op := &sendOps[w.op]; !op.waits {
		bytes += min(int(w.length)-int(sq.curPkt)*sq.qp.mtu, sq.qp.mtu)
	}
	if first {
		return sq.flight.single.of(bytes)
	}
	return sq.flight.run.of(bytes)
}

// reading returns what bounds the responses that the QP asks for: the room of this
// device; nil if nothing does.
func (sq *requester) reading() *flight {
	if sq.qp.attr.Timeout == 0 {
		return nil
	}
	return sq.qp.e.reading
}

// readCost returns what a packet of the response to the READ w takes of this
// device's room: less, if the last ones came in runs.
func (sq *requester) readCost(w *sendWQE) int {
	bytes := headerRoom + min(int(w.length), sq.qp.mtu)
	if sq.inRuns {
		return sq.qp.e.reading.run.of(bytes)
	}
	return sq.qp.e.reading.single.of(bytes)
}

// hasRoom reports whether there is room for the next packet of w at the peer, or for
// what it asks for here; the QP waits if not. A QP that waits for one is not granted
// the other: two that have one each would wait for each other.
func (sq *requester) hasRoom(w *sendWQE, first bool) bool {
	sq.cost, sq.askNow = 0, false
	if w.op == WRRead {
		return sq.hasReadRoom(w)
	}
	if !sq.bounded() {
		return true
	}
	qp, f := sq.qp, sq.flight
	sq.cost = sq.priceOf(w, first)
	if f.admits(qp, sq.cost) {
		return true
	}
	if sq.sinceAck > 0 {
		// Nobody has asked the peer for an answer to what was sent before. This packet
		// does, and is let through for that.
		sq.askNow = true
		return true
	}
	more := min(int(w.npkts-sq.curPkt), txQuantum) - 1
	f.enter(qp, sq.cost+more*f.run.of(headerRoom+qp.mtu))
	return false
}

// hasReadRoom is hasRoom for a READ. Its request is short.
func (sq *requester) hasReadRoom(w *sendWQE) bool {
	f := sq.reading()
	if f == nil {
		return true
	}
	n := min(int(w.npkts-sq.curPkt), max(sq.room(w), 1), readQuantum)
	if again := sq.psn != sq.end; again {
		n = int(sq.readPart(w)) // as many as the first time
	}
	c := n * sq.readCost(w)
	if f.admits(sq.qp, c) {
		return true
	}
	f.enter(sq.qp, c)
	return false
}

// readRoom returns how many packets of the READ w may be asked for now, at least 1.
func (sq *requester) readRoom(w *sendWQE) int {
	f := sq.reading()
	if f == nil {
		return maxReadPackets
	}
	free := f.size - f.used
	if s := &sq.qp.share; s.from == &f.budget {
		free += s.granted
	}
	return max(free/sq.readCost(w), 1)
}

// chargeOut notes a packet that takes cost at the peer.
func (sq *requester) chargeOut(now int64, cost int) {
	sq.flight.charge(sq.qp, cost)
	sq.out += cost
	if sq.retry.left < sq.qp.attr.RetryCnt {
		// The peer has not answered the last time. If it is gone, this must not keep
		// others from sending until the timeout: packets do not travel for so long.
		sq.qp.setTimer(timerFlight, now+min(max(4*sq.flight.rttNs, minRepeatNs), sq.qp.attr.Timeout.Ns()))
	}
}

// chargeIn notes n packets of the response to w that were asked for.
func (sq *requester) chargeIn(w *sendWQE, n int) {
	if f := sq.reading(); f != nil {
		c := n * sq.readCost(w)
		f.charge(sq.qp, c)
		sq.in += c
	}
}

// discharge gives back the part of n of the span packets that were on their way
// before: n were acknowledged.
func (sq *requester) discharge(n, span int) {
	if sq.out > 0 {
		c := portion(sq.out, n, span)
		sq.out -= c
		sq.flight.onAck(c)
		sq.flight.release(c)
	}
	if sq.in > 0 {
		c := portion(sq.in, n, span)
		sq.in -= c
		sq.qp.e.reading.onAck(c)
		sq.qp.e.reading.release(c)
	}
}

// portion returns n/span of what was charged.
func portion(of, n, span int) int {
	if n >= span {
		return of
	}
	return int(int64(of) * int64(n) / int64(span))
}

// dischargeAll gives everything back: what was on its way is lost, or does not
// matter any more.
func (sq *requester) dischargeAll() {
	if n := sq.out; n > 0 {
		sq.out = 0
		sq.flight.release(n)
	}
	if n := sq.in; n > 0 {
		sq.in = 0
		sq.qp.e.reading.release(n)
	}
}

// leaveRoom ends all that the QP has to do with budgets.
func (sq *requester) leaveRoom() {
	sq.qp.stopTimer(timerFlight)
	sq.qp.share.leave(sq.qp)
	sq.qp.share.settle()
	sq.dischargeAll()
}

// flightLost tells the flight of a loss.
func (sq *requester) flightLost(now int64) {
	if sq.flight != nil {
		sq.flight.onLoss(now)
	}
}

// readLost notes that a response to a READ was lost.
func (sq *requester) readLost(now int64) {
	if f := sq.qp.e.reading; f != nil {
		f.onLoss(now)
	}
}
