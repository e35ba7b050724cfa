package transport

import "github.com/goroce/goroce/ib"

// window bounds the packets that are sent, or asked for by a READ, and not
// acknowledged. The bound is there because a datagram receiver has a socket
// buffer and no back pressure. Loss halves it, a timeout quarters it, and each
// window that is acknowledged adds a packet.
type window struct {
	size     int // packets
	max      int
	ackEvery int // packets between two AckReqs, at most
	acked    int // packets acknowledged since the last growth
	before   int // size before losses of which nothing said that there was no room; 0 if it need not be known
	// For packets of long messages the bound is size<<long, since what keeps both ends at work is
	// bytes then, and a path with a small MTU has more packets. Only where these
	// travel as large datagrams: to a receiver that takes each by itself they are as many packets.
	long uint8
	// Control by delay: the window doubles in each round trip, at the beginning of a connection; or
	// it is what control says, and losses change nothing.
	doubling, ruled bool
}

// bound returns how many packets may be unacknowledged, or asked for, when one of r is sent.
func (w *window) bound(r *sendWQE) int {
	if r.length >= longBytes {
		return w.size << w.long
	}
	return w.size
}

// interval returns how many packets there are between two AckReqs of r, at most.
func (w *window) interval(r *sendWQE) int {
	if r.length >= longBytes {
		return w.ackEvery << w.long
	}
	return w.ackEvery
}

// newWindow returns the full window of a QP.
func newWindow(qp *QP) window {
	var w window
	w.limit(qp)
	w.size = w.max
	if qp.delayed {
		w.size, w.doubling = min(startWindow, w.max), true
	}
	return w
}

// ruledAsks is how many answers are asked for in a window that control by delay rules.
const ruledAsks = 8

// limit takes over the bound that attribute, tuning or default set.
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
	w.size = min(max(w.size, 1), w.max)
	if w.ackEvery = t.AckReqInterval; w.ackEvery == 0 {
		w.ackEvery = DefaultAckReqInterval
	}
}

// onAck opens the window after n packets were acknowledged.
func (w *window) onAck(n int) {
	if w.size == w.max {
		return
	}
	if w.doubling {
		if w.size = min(w.size+max(n>>w.long, 1), w.max); w.size == w.max {
			w.doubling = false
		}
		return
	}
	if w.acked += n; w.acked >= w.size {
		w.acked = 0
		w.size++
	}
}

// rule makes the window n packets, and lets nothing else change it until release.
func (w *window) rule(n int) {
	w.size, w.max, w.long, w.ruled, w.doubling = n, n, 0, true, false
	w.ackEvery = max(n/ruledAsks, 1)
}

// release makes it the full window again.
func (w *window) release(qp *QP) {
	w.ruled = false
	w.limit(qp)
	w.size = w.max
}

// onRun is onAck for n packets, one at a time.
func (w *window) onRun(n int) {
	for n > 0 && w.size != w.max {
		k := min(n, max(w.size-w.acked, 1))
		w.onAck(k)
		n -= k
	}
}

// onLoss closes the window after a packet was lost.
func (w *window) onLoss() { w.shrink(2) }

// onLossOfFew closes it for single packets that were lost, which are sent again by themselves.
func (w *window) onLossOfFew() {
	if w.ruled {
		return
	}
	w.doubling = false
	w.size = max(w.size-w.size*3/10, min(minWindow, w.max))
	w.acked = 0
}

// onTimeout closes it further after nothing came back at all.
func (w *window) onTimeout() {
	w.before = 0
	w.shrink(4)
}

// reopen undoes what was done for losses that were not for want of room.
func (w *window) reopen(size int) { w.size = max(w.size, min(size, w.max)) }

func (w *window) shrink(by int) {
	if w.ruled {
		return
	}
	w.doubling = false
	w.size = max(w.size/by, min(minWindow, w.max))
	w.acked = 0
}

// creditState is end-to-end flow control (IBTA 9.7.7.2): the responder tells
// in its ACKs how many receive requests it has.
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

// lacks reports whether message n has no credit. It may then be sent only if
// nothing else is outstanding: its ACK, or RNR NAK, tells more.
func (c *creditState) lacks(n ib.MSN) bool {
	return c.used && (n&ib.PSNMask).Diff(c.limit) >= 0
}
