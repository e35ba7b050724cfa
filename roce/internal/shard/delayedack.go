package shard

import (
	"sync/atomic"
	"time"
)

// delayedAck keeps an acknowledgement back while the application, which has just been
// given what came in, may reply: the reply and the acknowledgement then leave in one
// datagram, with one system call. Sent at once, the acknowledgement would delay
// the reply by the 2 to 4 us that it takes, in both directions.
//
// A delay ends at the next thing that is sent; or, event-driven, when the
// goroutine of the shard runs again after those that it has woken; or, polling,
// at the next poll, and after ackDelay to twice that, when the application has
// gone to do something else. A delay without a reply was in vain; the more of these
// there are in succession, the fewer are tried.
type delayedAck struct {
	on      atomic.Bool // written with the lock held
	skip    uint32      // how many times not to try
	penalty uint32      // skip after the next delay in vain
	count   uint64      // delays so far

	// The timer ends delays of a shard that is polled; nil until there was one.
	timer *time.Timer
	armed bool   // it is running
	seen  uint64 // count when it was armed
}

// begin starts a delay, if only acknowledgements are to be sent.
func (a *delayedAck) begin(onlyAcks bool) bool {
	if !onlyAcks {
		return false
	}
	if a.skip > 0 {
		a.skip--
		return false
	}
	a.count++
	a.on.Store(true)
	return true
}

// delayed reports whether an acknowledgement is kept back.
func (a *delayedAck) delayed() bool { return a.on.Load() }

// answered ends a delay that was worth it.
func (a *delayedAck) answered() {
	if a.on.Load() {
		a.on.Store(false)
		a.penalty = 0
	}
}

// inVain ends a delay that brought nothing. It reports false if there is none.
func (a *delayedAck) inVain() bool {
	if !a.on.Load() {
		return false
	}
	a.on.Store(false)
	a.penalty = min(2*a.penalty+1, maxAckSkip)
	a.skip = a.penalty
	return true
}

// expired says, when the timer goes off, whether the delay of now is as old as the timer.
func (a *delayedAck) expired() bool {
	same := a.seen == a.count
	a.seen = a.count
	return same
}

func (a *delayedAck) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// guardAck sets the timer for a shard that is polled: its application may go away. The
// lock is held.
func (s *Shard) guardAck() {
	a := &s.ack
	if s.mode != Polling || a.armed {
		return
	}
	a.armed, a.seen = true, a.count
	if a.timer == nil {
		a.timer = time.AfterFunc(ackDelay, s.ackTimer)
	} else {
		a.timer.Reset(ackDelay)
	}
}

// ackTimer is the function of the timer. It runs once in ackDelay while there
// is traffic, and not for every message.
func (s *Shard) ackTimer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shut:
	case !s.ack.expired():
		s.ack.timer.Reset(ackDelay)
		return
	default:
		s.releaseAck(s.link.Now())
	}
	s.ack.armed = false
}

// releaseAck ends a delay that brought nothing, and sends. It reports false if there is
// none. The lock is held.
func (s *Shard) releaseAck(now int64) bool {
	if !s.ack.inVain() {
		return false
	}
	s.Flush(now)
	return true
}

// endAckDelay is releaseAck for callers without the lock.
func (s *Shard) endAckDelay() {
	if !s.ack.delayed() {
		return
	}
	s.mu.Lock()
	if !s.shut {
		s.releaseAck(s.link.Now())
	}
	s.mu.Unlock()
}
