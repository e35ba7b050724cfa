package transport

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// price is what a packet takes of a room.
type price struct{ packet, byte int }

func (p price) of(bytes int) int { return p.packet + p.byte*bytes }

// prices returns the price of a single packet and of one in a run. Unless most is 0, it charges
// each single packet at least 1/most of size, and each in a run at least 1/(most*runsCount).
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

// budget bounds what all QPs together have in flight to a receiver, by the receiver's room. A QP
// that finds it used up waits in order: room given back is granted to the first that waits. So
// every QP gets its share, and none overtakes another.
type budget struct {
	size int
	used int // in flight, or granted
	head *QP // the first QP that waits
	tail *QP
	wait bool // a QP has waited since the last look
}

// qpShare is a QP's share of budgets.
type qpShare struct {
	waitsFor   *budget
	next, prev *QP
	need       int // to be granted at once
	from       *budget
	granted    int // granted and not used yet
}

// admits reports whether a QP may send something of this cost. If nothing is in flight it always
// may, or a cost beyond the bound could never be sent.
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

// release gives back n units that are no longer in flight.
func (b *budget) release(n int) {
	b.used -= n
	if b.used > b.size-b.size/8 {
		return // later and several at once, which then leave in one system call
	}
	for b.head != nil {
		qp := b.head
		s := &qp.share
		// If the bound has become small, one QP gets at most a quarter.
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

// enter makes a QP wait until its need is granted.
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

// leave takes a QP off the list on which it waits.
func (s *qpShare) leave(qp *QP) {
	if b := s.waitsFor; b != nil {
		b.leave(qp)
		b.release(0) // for those that it held up
	}
}

// leave takes a QP off the waiting list.
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

// pending reports whether the QP waits for room, or for a turn to use it.
func (s *qpShare) pending() bool { return s.waitsFor != nil || s.from != nil }

// endTurn ends a QP's turn.
func (s *qpShare) endTurn() {
	if s.from != nil {
		s.settle()
	}
}

// settle gives up granted room that the QP has not used, for others.
func (s *qpShare) settle() {
	if b := s.from; b != nil {
		n := s.granted
		s.from, s.granted = nil, 0
		b.release(n)
	}
}

// flight holds what an engine has in flight to one address: unacknowledged requests. The peer's
// room is unknown. The first guess is half of this device's own, because acknowledgements and
// others need some. Loss reduces it, and progress restores it.
type flight struct {
	budget
	to          netip.Addr
	users       int // QPs
	most, least int // bounds of size
	single, run price
	acked       int      // since size last grew
	cutAt       int64    // when it was last reduced
	rttNs       int64    // smoothed; 0 if unknown
	leastNs     int64    // the shortest round trip; 0 if unknown
	keeps       bool     // a QP there knows selective repeat
	_           [64]byte // written per packet, so two engines must not share a cache line
}

// newFlight returns a flight of size units of room, and at most that many single packets, unless
// packets is 0.
func newFlight(r *Room, size, packets int) *flight {
	f := &flight{most: size, least: max(size/leastFlight, 1)}
	f.size = size
	f.single, f.run = prices(r, size, packets)
	return f
}

// join assigns the QP the flight to its peer, when a connection begins.
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

// part removes the QP from its flight.
func (e *Engine) part(qp *QP) {
	sq := &qp.sq
	if f := sq.flight; f != nil {
		if f.users--; f.users == 0 {
			delete(e.flights, f.to)
		}
		sq.flight = nil
	}
}

// onAck restores some room after cost was acknowledged, if a QP waited for it.
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

// onLoss halves the room, once per set of packets in flight.
func (f *flight) onLoss(now int64) {
	if now-f.cutAt < max(f.rttNs, minRepeatNs) {
		return
	}
	f.cutAt, f.acked = now, 0
	f.size = max(f.size/2, f.least)
}

// onRTT takes a measured round trip of a QP with an ACK timeout. One that is longer than the
// shortest by over a quarter of the timeout shows a peer that has fallen behind: more in flight
// would only make it answer too late. The shortest is the way to the peer, on which the room has no
// influence; it excuses at most half of the timeout, since a first round trip may have waited, too.
func (f *flight) onRTT(now, rtt, timeout int64) {
	if f.rttNs == 0 {
		f.rttNs, f.leastNs = rtt, rtt
	} else {
		f.rttNs += (rtt - f.rttNs) / 8
		f.leastNs = min(f.leastNs, rtt)
	}
	if rtt-min(f.leastNs, timeout/2) > timeout/4 {
		f.onLoss(now)
	}
}

// What the requester charges.

// bounded reports whether room bounds anything.
func (e *Engine) bounded() bool { return e.reading != nil }

// bounded reports whether the peer's room bounds the requester. Without an ACK timeout a loss would
// hold room for ever.
func (sq *requester) bounded() bool { return sq.flight != nil && sq.qp.attr.Timeout != 0 }

// priceOf returns what the next packet of w takes of the peer's room: less on a long path, where it
// may still be on its way when the peer has handled those before it. Unless it is the first of a
// turn, it counts as one of a run.
func (sq *requester) priceOf(w *sendWQE, first bool) int {
	bytes := headerRoom
	if op := &sendOps[w.op]; !op.waits {
		bytes += min(int(w.length)-int(sq.curPkt)*sq.qp.mtu, sq.qp.mtu)
	}
	p := &sq.flight.run
	if first {
		p = &sq.flight.single
	}
	return max(p.of(bytes)/int(sq.win.stretch), 1)
}

// reading returns what bounds the responses that the QP requests, which is this device's room, or
// nil.
func (sq *requester) reading() *flight {
	if sq.qp.attr.Timeout == 0 {
		return nil
	}
	return sq.qp.e.reading
}

// readCost returns what a packet of the response to the READ w takes of this device's room: less,
// if the last one came in a run, or on a long path.
func (sq *requester) readCost(w *sendWQE) int {
	bytes := headerRoom + min(int(w.length), sq.qp.mtu)
	p := &sq.qp.e.reading.single
	if sq.inRuns {
		p = &sq.qp.e.reading.run
	}
	return max(p.of(bytes)/int(sq.win.stretch), 1)
}

// hasRoom reports whether there is room for the next packet of w at the peer, or for its response
// here. If not, the QP waits. While it waits for one it is not granted the other, or two QPs with
// one each would wait for each other.
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
		// No packet sent before requests an answer from the peer. This one does, and is let
		// through.
		sq.askNow = true
		return true
	}
	more := min(int(w.npkts-sq.curPkt), txQuantum) - 1
	f.enter(qp, sq.cost+more*f.run.of(headerRoom+qp.mtu)/int(sq.win.stretch))
	return false
}

// hasReadRoom is hasRoom for a READ, whose own request is short.
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

// readRoom returns how many packets of the READ w may be requested now, at least 1.
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

// chargeOut charges a packet that takes cost at the peer.
func (sq *requester) chargeOut(now int64, cost int) {
	sq.flight.charge(sq.qp, cost)
	sq.out += cost
	if sq.retry.left < sq.qp.attr.RetryCnt {
		// The peer has not answered lately. If it is gone, this must not keep others from sending
		// until the timeout: packets do not travel that long.
		sq.qp.setTimer(timerFlight, now+min(max(4*sq.flight.rttNs, minRepeatNs), sq.qp.attr.Timeout.Ns()))
	}
}

// chargeIn charges n requested packets of the response to w.
func (sq *requester) chargeIn(w *sendWQE, n int) {
	if f := sq.reading(); f != nil {
		c := n * sq.readCost(w)
		f.charge(sq.qp, c)
		sq.in += c
	}
}

// discharge gives back n/span of the charges, after n of span packets in flight were acknowledged.
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

// portion returns n/span of a charge.
func portion(of, n, span int) int {
	if n >= span {
		return of
	}
	return int(int64(of) * int64(n) / int64(span))
}

// dischargeAll gives back all charges: the packets in flight are lost, or no longer matter.
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

// leaveRoom ends the QP's use of all budgets.
func (sq *requester) leaveRoom() {
	sq.qp.stopTimer(timerFlight)
	sq.qp.share.leave(sq.qp)
	sq.qp.share.settle()
	sq.dischargeAll()
}

// flightLost reports a loss to the flight.
func (sq *requester) flightLost(now int64) {
	if sq.flight != nil {
		sq.flight.onLoss(now)
	}
}

// readLost reports the loss of a response to a READ.
func (sq *requester) readLost(now int64) {
	if f := sq.qp.e.reading; f != nil {
		f.onLoss(now)
	}
}
