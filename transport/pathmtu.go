package transport

import "github.com/goroce/goroce/ib"

// The path MTU of a connection is fixed, because both sides count packets by it. The way to the
// peer may shrink: an interface gets a smaller MTU, or a new route has a router with one. Then
// packets of the path MTU are all lost, while shorter ones pass.

// VendorPathMTU is set in WC.VendorErr if packets of the path MTU do not pass. With WCLocalLenErr
// the link knows it; with WCRetryExcErr it is a guess, since one of them was not acknowledged.
const VendorPathMTU uint32 = 1 << 16

// SetMTU sets the MTU of the port, which bounds the path MTU of new connections and UD messages. It
// never exceeds Config.MTU.
func (e *Engine) SetMTU(m ib.MTU) {
	if m.Valid() {
		e.mtu = min(m, e.cfg.MTU)
	}
}

// failTooLong fails the request at head if its packets were too long for the link to send on the
// path. Others in flight may still pass, so it is called only after a packet was not acknowledged.
func (sq *requester) failTooLong(now int64) bool {
	if sq.qp.path.TooLong == sq.retry.tooLong || sq.unackedBytes() <= ib.MTU256.Bytes() {
		return false
	}
	sq.failHead(now, WCLocalLenErr, VendorPathMTU)
	return true
}

// suspectMTU returns VendorPathMTU if the unacknowledged packet, a request or the response to a
// READ, is as long as the path MTU.
func (sq *requester) suspectMTU() uint32 {
	if n := sq.unackedBytes(); n == sq.qp.mtu && n > ib.MTU256.Bytes() || sq.awaitsLong() {
		return VendorPathMTU
	}
	return 0
}

// unackedBytes returns the payload length of the oldest unacknowledged packet.
func (sq *requester) unackedBytes() int {
	w := sq.unacked()
	if w == nil || sendOps[w.op].waits {
		return 0
	}
	return sq.packetBytes(w)
}

// awaitsLong reports whether that packet is the response to a READ and as long as the path MTU.
func (sq *requester) awaitsLong() bool {
	w := sq.unacked()
	return w != nil && w.op == WRRead && sq.packetBytes(w) == sq.qp.mtu && sq.qp.mtu > ib.MTU256.Bytes()
}

// unacked returns the request that contains una, or nil.
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

// packetBytes returns the payload length of the packet at una, which belongs to w.
func (sq *requester) packetBytes(w *sendWQE) int {
	off := uint64(span(w.psn, sq.una)) * uint64(sq.qp.mtu)
	if off >= uint64(w.length) {
		return 0
	}
	return int(min(uint64(w.length)-off, uint64(sq.qp.mtu)))
}

// cannotAnswer ends a READ that the peer requests again, at seq, if responses to it were too long
// for the path. Sending them again would be useless.
func (r *responder) cannotAnswer(now int64, s *replay, seq uint64) bool {
	if r.qp.path.TooLong == r.tooLong || s.length <= uint32(ib.MTU256.Bytes()) {
		return false
	}
	r.out.reset()
	r.fail(now, ib.NAKRemoteOperation, seq, EventQPFatal, false)
	return true
}
