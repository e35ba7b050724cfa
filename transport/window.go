package transport

import "github.com/goroce/goroce/ib"

// window bounds the packets sent, or requested by READs, and not acknowledged, because a datagram
// receiver has a socket buffer and no back pressure. A loss halves it, and each acknowledged window
// adds a packet, or a quarter of the window while round trips show that the path is not full. A
// connection begins with a few packets, because nothing is known of the path, and doubles them in
// each round trip until a loss: a whole window would overflow a small queue before the first answer
// comes. After a timeout it begins anew.
//
// What is on a long way does not wait at the receiver. So to a peer that knows selective repeat the
// window may become several times as large there (stretch), as many as a path of 1.6 Gb/s holds. It
// does not double up to that, but grows by quarters while the path is not full: what a doubling
// sends too much would be thousands of packets.
type window struct {
	size     int // packets of long messages; short ones have the same, up to max>>long
	max      int
	near     int  // max on a short path; the beginning doubles up to this
	ackEvery int  // packets between two AckReqs, at most
	acked    int  // packets acknowledged since the last growth
	used     int  // most packets that were unacknowledged at a time; the window grows to twice that
	goal     int  // each round trip doubles the window up to this size; 0 if it does not
	before   int  // size before losses that may not mean lack of room; 0 if not needed
	begins   bool // the first of these ended the doubling
	// A window of long messages is up to 1<<long times as large as others: bytes keep both ends
	// busy, and a path with a small MTU has more packets for the same bytes. This holds only if the
	// packets travel as large datagrams; a receiver that gets each by itself has as many packets to
	// handle.
	long  uint8
	idle  bool       // no loss since, and the last round trip was so short that nothing was queued
	cut   *windowCut // nil before the first loss for want of room
	ruled bool       // control by delay sets the window, and losses do not change it
	// stretch is max in times of near, except that maps of the peer have fewer bits.
	stretch uint8
}

// bound returns how many packets may be unacknowledged or requested when one of r is sent.
func (w *window) bound(r *sendWQE) int {
	if r.length >= longBytes {
		return w.size
	}
	return max(min(w.size, w.max>>w.long), min(minWindow, w.max))
}

// interval returns the most packets between two AckReqs of r.
func (w *window) interval(r *sendWQE) int {
	if r.length >= longBytes {
		return w.ackEvery << w.long
	}
	return w.ackEvery
}

// newWindow returns the window of a connection that begins.
func newWindow(qp *QP) window {
	w := window{stretch: 1}
	w.limit(qp)
	if w.size = w.max; !qp.explicitWindow() {
		w.size, w.goal = min(startWindow<<w.long, w.near), w.near
	}
	return w
}

// explicitWindow reports whether the application chose the window, which it then has at once.
func (qp *QP) explicitWindow() bool {
	return qp.attr.MaxUnackedPackets > 0 || qp.e.cfg.Tuning.MaxUnackedPackets > 0
}

// limit applies the bound from attribute, tuning or default.
func (w *window) limit(qp *QP) {
	if w.ruled {
		return
	}
	t := &qp.e.cfg.Tuning
	w.long = 0
	switch {
	case qp.attr.MaxUnackedPackets > 0:
		w.max = qp.attr.MaxUnackedPackets
	case t.MaxUnackedPackets > 0:
		w.max = t.MaxUnackedPackets
	default:
		w.max = DefaultMaxUnackedPackets
		for qp.e.cfg.GSO && w.long < maxLong && qp.mtu<<w.long < ib.MTU4096.Bytes() {
			w.long++
		}
	}
	w.near = w.max << w.long
	if w.max = w.near; w.stretch > 1 && !qp.explicitWindow() {
		w.max = max(w.near, min(w.near*int(w.stretch), 8*qp.mtu))
	}
	w.size, w.goal = min(max(w.size, 1), w.max), min(w.goal, w.near)
	if w.ackEvery = t.AckReqInterval; w.ackEvery == 0 {
		w.ackEvery = DefaultAckReqInterval
	}
}

// onAck opens the window after n packets were acknowledged.
func (w *window) onAck(n int) {
	if w.size == w.max || w.size >= 2*w.used {
		return
	}
	if w.goal != 0 {
		if w.size = min(w.size+n, w.goal); w.size == w.goal {
			w.goal = 0
		}
		return
	}
	more, step := w.growth()
	if w.acked += n; w.acked >= step {
		w.acked = 0
		w.size = min(w.size+more, w.max)
		w.idle = w.idle && w.size <= w.near // the next sample shows whether more fits
	}
}

// growth returns by how many packets the window grows once step packets were acknowledged: by one
// in a round trip. A large one adds those of a run at once. So it loses a few when the queue is
// full, or a TCP flow beside it, whose bursts are larger, would be the one to lose every time.
func (w *window) growth() (more, step int) {
	if w.idle && (w.size > w.near || w.cut.mayHold(w.size)) {
		return max(w.size/4, 1), w.size
	}
	if more = min(max(w.size>>growShift, 1), 1<<w.long); w.cut.rivals() {
		more = 1
	}
	return more, w.size * more
}

// rule sets the window to n packets, and lets nothing else change it until release.
func (w *window) rule(n int) {
	w.size, w.max, w.near, w.long, w.ruled, w.goal, w.begins = n, n, n, 0, true, 0, false
	w.ackEvery = max(n>>farShift, 1)
}

// release restores the full window of a short path.
func (w *window) release(qp *QP) {
	w.ruled = false
	w.limit(qp)
	w.size = w.near
}

// onRun does what n calls of onAck(1) do.
func (w *window) onRun(n int) {
	for n > 0 && w.size != w.max && w.size < 2*w.used {
		_, step := w.growth()
		if w.goal != 0 {
			step = w.acked + min(w.goal, 2*w.used) - w.size
		}
		k := min(n, max(step-w.acked, 1))
		w.onAck(k)
		n -= k
	}
}

// onLoss reduces the window after packets were lost: to half, or by a concession to firm rivals. If
// it always took 3/10, as TCP cubic does, a cubic flow beside it would get a sixth: it loses more
// often in the same full queue (docs/loss.md). A large window fills a long path, whose queue is the
// smaller part: without it the path holds as much less as the shortest round trip is shorter than
// the last one. That much stays, up to 7/10.
func (w *window) onLoss(e *rttEstimate) {
	from, to, firm := w.size, w.size/2, w.cut.stay(e)
	if firm {
		to = w.size - concession(w.size)
	}
	if w.size > w.near && e.last != 0 {
		to = max(to, int(min(int64(w.size)*e.least/e.last, int64(w.size)*7/10)))
	}
	w.shrink(to, minWindow)
	if !w.ruled {
		w.cut = w.cut.anew(e, firm, from, w.size)
	}
}

// onTimeout begins anew after no answer came at all, and doubles up to half of what it was, as TCP
// does: after a pause of the path it is soon back. What was doubling from the beginning doubles on,
// as nothing was learned of the path.
func (w *window) onTimeout() {
	goal, least := min(w.size/2, w.near), max(startWindow, minWindow<<w.long)
	switch {
	case w.starting() || w.begins:
		goal = w.near
	case w.size <= least: // nothing has come since the last one
		goal = w.goal
	}
	w.convict()
	w.shrink(1, least)
	if goal > w.size && !w.ruled {
		w.goal = goal
	}
}

// starting reports whether the window doubles since the connection began.
func (w *window) starting() bool { return w.goal == w.near }

// suspect notes, before a loss reduces the window, that it may not be due to lack of room.
func (w *window) suspect() {
	w.before = max(w.before, w.size)
	w.begins = w.begins || w.starting()
}

// acquit undoes the reductions for losses that were not.
func (w *window) acquit() {
	w.reopen(w.before)
	if w.begins {
		w.goal = w.near
	}
	w.before, w.begins = 0, false
}

// convict keeps them.
func (w *window) convict() { w.before, w.begins = 0, false }

// reopen restores an earlier size.
func (w *window) reopen(size int) { w.size = max(w.size, min(size, w.max)) }

// shrink reduces the window to a size, or to least if that is more: after a silence, which shows no
// full queue.
func (w *window) shrink(to, least int) {
	if w.ruled {
		return
	}
	w.goal, w.idle = 0, false
	w.size = max(to, min(least, w.size))
	w.acked = 0
}

// creditState is end-to-end flow control (IBTA 9.7.7.2): the responder's ACKs say how many receive
// requests it has.
type creditState struct {
	sent  ib.MSN // messages sent, counted as the responder counts
	limit ib.MSN // number of the first message without a credit
	used  bool   // the responder gives credits
}

// update takes the credits of an ACK.
func (c *creditState) update(h ib.AETH) {
	n := h.Syndrome.CreditCode().Credits()
	c.used = n >= 0
	if c.used {
		c.limit = (h.MSN + ib.MSN(n)) & ib.PSNMask
	}
}

// lacks reports whether message n has no credit. It may then be sent only if nothing else is
// outstanding: its ACK or RNR NAK brings news.
func (c *creditState) lacks(n ib.MSN) bool {
	return c.used && (n&ib.PSNMask).Diff(c.limit) >= 0
}
