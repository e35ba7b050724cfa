package roce

import "sync/atomic"

// joinedPosts are send work requests that the engine has taken and the device has
// not sent yet: messages posted one by one then share datagrams and system
// calls, of which each costs as much as dozens of small packets.
//
// A message is held only if others of its queue pair are on their way, and only
// while the goroutine of an event-driven device is at work, which sends what is
// held on its second turn after the last post, about 2 us later. Sooner than
// that, everything held is sent with whatever else is sent, when it is enough
// to fill a datagram, before a completion queue is found empty, and before the
// goroutine blocks. So a message by itself leaves at once, in the call that
// posts it, and one that is followed by others waits at most as long as its
// acknowledgement would.
type joinedPosts struct {
	// Under Device.mu.
	bytes int

	n    atomic.Uint32 // messages; changed under Device.mu
	seen uint32        // n on the last turn of the goroutine; under Device.rxMu
}

// joins leaves a message that was just posted on qp to be sent later; or it
// returns false. mu is held.
func (d *Device) joins(qp *QP, wr *SendWR) bool {
	h := &d.join
	if d.mode != modeEvent || d.blocked || qp.noDelay || !qp.t.InFlight() {
		return false
	}
	h.bytes += len(wr.Inline)
	for i := range wr.SGList {
		h.bytes += int(wr.SGList[i].Length)
	}
	if h.bytes >= joinBytes || h.n.Load()+1 >= joinMessages {
		return false
	}
	h.n.Add(1)
	return true
}

// sent notes that nothing is held any more. mu is held.
func (h *joinedPosts) sent() {
	h.bytes = 0
	if h.n.Load() != 0 {
		h.n.Store(0)
	}
}

// due reports, on a turn of the goroutine, whether there was no post since the
// last one. rxMu is held.
func (h *joinedPosts) due() bool {
	n := h.n.Load()
	same := n != 0 && n == h.seen
	h.seen = n
	return same
}

// sendJoined sends what is held. mu is held.
func (d *Device) sendJoined(now int64) {
	if d.join.n.Load() != 0 {
		d.flush(now)
	}
}

// endJoin is sendJoined for callers without the lock.
func (d *Device) endJoin() {
	if d.join.n.Load() == 0 {
		return
	}
	d.mu.Lock()
	if !d.shut {
		d.sendJoined(d.link.Now())
	}
	d.mu.Unlock()
}

// SetNoDelay makes PostSend send every message by itself and at once. The
// default is that messages posted one by one, while others of the queue pair
// are on their way, may share a datagram, for which they wait up to a few
// microseconds, but never beyond the next look at an empty completion queue.
func (qp *QP) SetNoDelay(on bool) {
	if qp.d.unmade() {
		return
	}
	qp.d.mu.Lock()
	qp.noDelay = on
	qp.d.mu.Unlock()
}
