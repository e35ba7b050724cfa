package shard

import "sync/atomic"

// hold decides which messages of a program in another language wait, that are posted while the
// goroutine of the shard is not at work, which would send them soon: those that follow another one
// closely, and the first of a burst that follows such a burst. They leave with the next call of
// Progress, when there are enough of them, or by the sender. A wait that nobody ended but the
// sender was in vain, and the more of these there are in succession, the fewer are tried. It is
// used with the lock held.
type hold struct {
	posted int64  // when the last message was posted
	trial         // of a wait
	burst  uint32 // messages in quick succession, so far
}

// waits reports whether a message that is posted now is to wait for others.
func (h *hold) waits(now int64) bool {
	long := h.burst >= leaseTurns
	if now-h.posted > holdGapNs {
		h.burst = 0
	} else {
		h.burst++
	}
	h.posted = now
	return (h.burst > 0 || long) && h.due()
}

// sender is a goroutine that sends messages which wait for others that do not come, after 0.1 ms.
// It exists from the first message on that might wait, and looks every 50 us while some do. It
// sleeps in a system call, since the program may have all processors of the runtime.
type sender struct {
	exists atomic.Bool
	awake  atomic.Bool // it looks; set with the lock held
	call   bool        // under the lock: to be called when it is given back
	calls  chan struct{}
	holds  atomic.Uint64 // messages that waited, so far
}

// defers reports whether somebody would send a message later that is posted now, behind others. The
// lock is held.
func (s *Shard) defers(now int64) bool {
	if s.Background() && !s.blocked {
		return true
	}
	return s.foreign.Load() && s.hold.waits(now)
}

// holds has the sender look after a message that waits now, if nobody else does. One that waits for
// nothing, since it fills a datagram, is none of these: a sender that looks takes a CPU from two
// programs that spin on the only two. The lock is held.
func (s *Shard) holds() {
	if !s.foreign.Load() || s.Background() && !s.blocked {
		return
	}
	if !s.sender.awake.Load() {
		s.sender.awake.Store(true)
		s.sender.call = true
	}
	s.sender.holds.Add(1)
}

// callSender has the sender look. Nobody holds the lock: who is woken may run in place of the
// waker.
func (s *Shard) callSender() {
	if !s.sender.exists.Swap(true) {
		k := &s.keeper
		k.mu.Lock()
		if !k.over {
			k.running.Go(s.lookForHeld)
		}
		k.mu.Unlock()
	}
	select {
	case s.sender.calls <- struct{}{}:
	default:
	}
}

// lookForHeld is that goroutine.
func (s *Shard) lookForHeld() {
	v := &s.sender
	for {
		select {
		case <-v.calls:
		case <-s.closed:
			return
		}
		s.machine.Resumed()
		for idle, seen := 0, v.holds.Load(); idle < minLooks && !s.Closed(); {
			s.machine.Nap(standbyNs)
			if now := v.holds.Load(); now != seen {
				seen, idle = now, 0
				continue
			}
			s.sendHeld() // what waits since the last look has waited long enough
			idle++
		}
		s.mu.Lock()
		v.awake.Store(false)
		s.mu.Unlock()
		s.sendHeld()
	}
}

// sendHeld sends messages that wait, in vain.
func (s *Shard) sendHeld() {
	if !s.posts.waiting() {
		return
	}
	s.mu.Lock()
	if n := s.posts.n.Load(); !s.shut && n > 0 && (!s.Background() || s.blocked) {
		if n < crowdSize {
			s.hold.inVain() // who has posted more would have been well served by the wait for a whole datagram
		}
		s.Flush(s.link.Now())
	}
	s.mu.Unlock()
}

// sendInTime is SendPosted for a program that has come back by itself.
func (s *Shard) sendInTime() {
	if !s.posts.waiting() {
		return
	}
	s.mu.Lock()
	if !s.shut && s.posts.waiting() {
		s.hold.paid()
		s.Flush(s.link.Now())
	}
	s.mu.Unlock()
}
