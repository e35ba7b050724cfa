package transport

import "github.com/goroce/goroce/ib"

// The path MTU of a connection is fixed: both sides count packets by it. What
// the way to the peer carries may become less: an interface gets a smaller MTU, a
// router on a new route has one. Packets of the path MTU are lost then, all of
// them, and shorter ones are not.

// VendorPathMTU is set in WC.VendorErr if packets of the path MTU do not pass: with
// WCLocalLenErr the link knows it, with WCRetryExcErr it may be, since one of them
// was not acknowledged.
const VendorPathMTU uint32 = 1 << 16

// SetMTU tells the MTU of the port, which bounds the path MTU of new connections and UD
// messages. It is never more than Config.MTU.
func (e *Engine) SetMTU(m ib.MTU) {
	if m.Valid() {
		e.mtu = min(m, e.cfg.MTU)
	}
}

// failTooLong fails the request at head if the link could not send its packets, since
// they are too long for the path. Others may be on their way that do pass, so
// that this is asked only when a packet was not acknowledged.
func (sq *requester) failTooLong(now int64) bool {
	if sq.qp.path.TooLong == sq.retry.tooLong || sq.unackedBytes() <= ib.MTU256.Bytes() {
		return false
	}
	sq.failHead(now, WCLocalLenErr, VendorPathMTU)
	return true
}

// suspectMTU returns VendorPathMTU if the packet that was not acknowledged is as long as
// they get, be it a request or the response to a READ.
func (sq *requester) suspectMTU() uint32 {
	if n := sq.unackedBytes(); n == sq.qp.mtu && n > ib.MTU256.Bytes() || sq.awaitsLong() {
		return VendorPathMTU
	}
	return 0
}

// unackedBytes returns the payload of the oldest packet that was not acknowledged.
func (sq *requester) unackedBytes() int {
	w := sq.unacked()
	if w == nil || sendOps[w.op].waits {
		return 0
	}
	return sq.packetBytes(w)
}

// awaitsLong reports whether that packet is the response to a READ, of the path MTU.
func (sq *requester) awaitsLong() bool {
	w := sq.unacked()
	return w != nil && w.op == WRRead && sq.packetBytes(w) == sq.qp.mtu && sq.qp.mtu > ib.MTU256.Bytes()
}

// unacked returns the request that una belongs to, nil if there is none.
func (sq *requester) unacked() *sendWQE {
	q := &sq.q
	if q.head == q.tail || sq.una == sq.end {
		return nil
	}
	if w := q.at(q.head); w.state == wqeBegun {
		return w
	}
	return nil
}

// packetBytes returns the payload of the packet at una, of w.
func (sq *requester) packetBytes(w *sendWQE) int {
	off := uint64(span(w.psn, sq.una)) * uint64(sq.qp.mtu)
	if off >= uint64(w.length) {
		return 0
	}
	return int(min(uint64(w.length)-off, uint64(sq.qp.mtu)))
}

// cannotAnswer ends a READ that the peer asks for again, at seq, because responses to it
// were too long for the path. To send them again is of no use.
func (r *responder) cannotAnswer(now int64, s *replay, seq uint64) bool {
	if r.qp.path.TooLong == r.tooLong || s.length <= uint32(ib.MTU256.Bytes()) {
		return false
	}
	r.out.reset()
	r.fail(now, ib.NAKRemoteOperation, seq, EventQPFatal, false)
	return true
}
