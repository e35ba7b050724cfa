package shard

import "sync/atomic"

// hold delays a C program's posts while no goroutine runs that would batch them. A message waits if
// it follows another one closely, or begins a burst that follows a long burst. Waiting messages
// leave with the next call of Progress, when there are enough of them, or when the sender goroutine
// sends them. A wait that only the sender ended did not pay, unless crowdSize messages shared it;
// the more of these there are in succession, the fewer messages wait. hold is used with the lock
// held.
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

// sender is a goroutine that sends messages after 0.1 ms of waiting for others that do not come. It
// starts with the first message that may wait, and looks every 50 us while some do. It sleeps in a
// system call, since the program may have all processors of the runtime.
type sender struct {
	exists atomic.Bool
	awake  atomic.Bool // it looks; set with the lock held
	call   bool        // under the lock: to be called when it is given back
	calls  chan struct{}
	holds  atomic.Uint64 // messages that waited, so far
}

// defers reports whether a message posted now, behind others, may wait because something will send
// it later. The lock is held.
func (s *Shard) defers(now int64) bool {
	if s.Background() && !s.blocked {
		return true
	}
	return s.foreign.Load() && s.hold.waits(now)
}

// holds has the sender look after a message that waits now, if nobody else does. A message that
// fills a datagram does not wait and needs no sender: a looking sender takes a CPU from two
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

// callSender has the sender look. The caller does not hold the lock: the woken thread may preempt
// us, and would block on the lock we hold.
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

// lookForHeld is the sender's goroutine.
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

// sendHeld sends messages for which the wait brought too few others.
func (s *Shard) sendHeld() {
	if !s.posts.waiting() {
		return
	}
	s.mu.Lock()
	if n := s.posts.n.Load(); !s.shut && n > 0 && (!s.Background() || s.blocked) {
		if n < crowdSize {
			s.hold.inVain() // with more, waiting for a whole datagram would have paid
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
