package shard

// horizon is the time up to which timers may run. A timer means that no answer has come, and we
// know that only after handling everything that had come when the timer was due. Under steady
// traffic the link may never be empty, so we do not wait for that: we wait until we have received
// as much as can have been in the link then. So answers that are there always come first, and
// timers always get their turn.
type horizon struct {
	set bool  // a timer was found due
	at  int64 // when
}

// timersDue reports whether a timer is due. rxMu is held.
func (s *Shard) timersDue(now int64) bool {
	due := now >= s.nextTimer.Load()
	if !due {
		s.horizon.set = false // what came meanwhile has stopped it
	}
	return due
}

// tryTimers is called when a timer is due, and after Recv has returned n packets
// and these were handled. It runs the timers, or notes that they must wait for
// packets. rxMu and the lock are held.
func (s *Shard) tryTimers(now int64, n int) {
	h := &s.horizon
	if !h.set {
		*h = horizon{set: true, at: now}
		if s.marker != nil {
			s.marker.Mark()
		}
		return
	}
	caughtUp := n == 0
	if s.marker != nil {
		caughtUp = s.marker.CaughtUp()
	}
	if caughtUp {
		h.set = false
		s.runTimers(now, h.at)
	}
}

// runTimers runs the timers of the engine and of the service that were due at horizon, before which
// nothing has come that was not handled. The lock is held.
func (s *Shard) runTimers(now, horizon int64) {
	if at, ok := s.eng.NextTimeout(); ok && at <= horizon {
		s.eng.HandleTimeoutUntil(now, horizon)
	}
	if s.service != nil && s.service.NextTimeout() <= horizon {
		s.service.Expire(now, horizon)
	}
}
