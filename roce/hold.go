package roce

import (
	"sync/atomic"
	"time"
)

// ackHold keeps an acknowledgement back while the application, which has just been
// given what came in, may answer: the answer and the acknowledgement then leave in one
// datagram, with one system call. Sent at once, the acknowledgement would delay
// the answer by the 2 to 4 us that it takes, in both directions.
//
// A hold ends at the next thing that is sent; or, event-driven, when the
// goroutine of the device runs again after those that it has woken; or, polling,
// at the next poll, and after holdNs at the latest, when the application has
// gone to do something else. A hold that did not end with an answer was in
// vain; the more of these there are in succession, the fewer are tried.
type ackHold struct {
	held    atomic.Bool // written with the lock of the device held
	woke    bool        // a waiter was woken by the packets being handled
	skip    uint32      // how many times not to try
	penalty uint32      // skip after the next hold in vain

	// guard ends holds of a polling device; nil until there was one.
	guard *time.Timer
	armed bool   // it is running
	count uint64 // holds so far
	seen  uint64 // count when it was armed
}

// tryHold keeps back what there is to send, if that is only acknowledgements
// and the application is likely to answer. What the engine has to say has been
// dispatched. mu is held.
func (d *Device) tryHold() bool {
	h := &d.hold
	if !d.eng.OnlyAcks() {
		return false
	}
	if h.skip > 0 {
		h.skip--
		return false
	}
	h.count++
	h.held.Store(true)
	if d.mode == modePolling && !h.armed {
		h.armed, h.seen = true, h.count
		if h.guard == nil {
			h.guard = time.AfterFunc(holdNs, d.guardHold)
		} else {
			h.guard.Reset(holdNs)
		}
	}
	return true
}

// releaseHold ends a hold that brought nothing. mu is held.
func (d *Device) releaseHold(now int64) {
	h := &d.hold
	if !h.held.Load() {
		return
	}
	h.held.Store(false) // or flush would take it for a success
	h.penalty = min(2*h.penalty+1, maxHoldSkip)
	h.skip = h.penalty
	d.flush(now)
}

// endHold is releaseHold for callers without the lock.
func (d *Device) endHold() {
	if !d.hold.held.Load() {
		return
	}
	d.mu.Lock()
	if !d.shut {
		d.releaseHold(d.link.Now())
	}
	d.mu.Unlock()
}

// guardHold is the function of the timer. It runs once in holdNs while there
// is traffic, and not for every message.
func (d *Device) guardHold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := &d.hold
	switch {
	case d.shut:
	case h.seen != h.count:
		h.seen = h.count
		h.guard.Reset(holdNs)
		return
	default:
		d.releaseHold(d.link.Now())
	}
	h.armed = false
}
