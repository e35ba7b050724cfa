package roce

// horizon is the time up to which timers may run. A timer stands for "no answer
// has come", and that is known only when all has been handled that had come by
// the time the timer was due. While more keeps coming that is not the time at
// which nothing is left, but the time at which as much has been received as can
// have been in the link then. So answers that are there always come first, and
// timers always get their turn.
type horizon struct {
	set  bool  // a timer was found due
	at   int64 // when
	left int   // packets that may have come before and were not handled; without Marker
}

// timersDue reports whether a timer is due. rxMu is held.
func (d *Device) timersDue(now int64) bool {
	due := now >= d.nextTimer.Load()
	if !due {
		d.horizon.set = false // what came meanwhile has stopped it
	}
	return due
}

// tryTimers is called when a timer is due, and after Recv has returned n packets
// and these were handled. It runs the timers, or notes that they must wait for
// packets. rxMu and mu are held.
func (d *Device) tryTimers(now int64, n int) {
	h := &d.horizon
	if !h.set {
		*h = horizon{set: true, at: now, left: maxUnread}
		if d.marker != nil {
			d.marker.Mark()
		}
		return
	}
	h.left -= n
	caughtUp := n == 0 || h.left <= 0
	if d.marker != nil {
		caughtUp = d.marker.CaughtUp()
	}
	if caughtUp {
		h.set = false
		d.runTimers(now, h.at)
	}
}

// runTimers runs the timers of the engine and of the communication manager that
// were due at horizon, before which nothing has come that was not handled. mu is
// held.
func (d *Device) runTimers(now, horizon int64) {
	if at, ok := d.eng.NextTimeout(); ok && at <= horizon {
		d.eng.HandleTimeoutUntil(now, horizon)
	}
	if d.cm != nil && d.cm.next <= horizon {
		d.cm.expire(now, horizon)
	}
}
