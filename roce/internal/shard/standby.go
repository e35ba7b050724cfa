package shard

import (
	"runtime"
	"sync/atomic"
	"time"
)

// standby is a goroutine that looks after a shard which is polled by [Shard.Progress]: every 50 us at first,
// and then ever more rarely, while the program goes on polling. It takes what waits if the program does not, as when that
// looks at memory now, which only the device can write. When it has nothing more to do, the timer of the keeper is enough.
//
// While it is awake, messages that are posted in quick succession may wait for each other: they leave with the next
// Progress, or it sends them.
type standby struct {
	on    atomic.Bool   // the goroutine exists
	given atomic.Uint32 // times that the goroutine of the shard gave way
	awake atomic.Bool   // and looks every standbyNs
	holds atomic.Uint64 // messages that were held, so far
	asked atomic.Uint64 // times that it was to be awake, so far
}

// hold decides which messages wait, that are posted while nobody but the poster and standby would send
// them: those that follow another one closely. A wait that nobody ended but standby was in
// vain, and the more of these there are in succession, the fewer are tried. It is used with the lock held.
type hold struct {
	posted  int64 // when the last message was posted
	skip    uint32
	penalty uint32
	quick   uint32 // messages in quick succession, while standby was not awake
}

// waits reports whether a message that is posted now is to wait for others.
func (h *hold) waits(now int64) bool {
	close := now-h.posted <= holdGapNs
	h.posted = now
	if !close {
		h.quick = 0
		return false
	}
	if h.skip > 0 {
		h.skip--
		return false
	}
	h.quick++
	return true
}

// inVain notes that standby has ended a wait.
func (h *hold) inVain() {
	h.penalty = min(2*h.penalty+1, maxHoldSkip)
	h.skip = h.penalty
}

// worth notes that something else has.
func (h *hold) worth() { h.penalty = 0 }

// standBy starts the goroutine, if there is none. The caller may hold the lock of the shard.
func (s *Shard) standBy() {
	if !s.standby.on.CompareAndSwap(false, true) {
		return
	}
	go func() {
		k := &s.keeper
		k.mu.Lock()
		if k.over {
			k.mu.Unlock()
			return
		}
		k.running.Add(1)
		k.mu.Unlock()
		defer k.running.Done()
		given := s.standby.given.Load()
		s.lookAfter()
		s.standby.awake.Store(false)
		s.sendHeld()
		s.standby.on.Store(false)
		if s.standby.given.Load() != given {
			s.standBy() // it was asked for meanwhile
		}
	}()
}

// lookAfter is that goroutine.
func (s *Shard) lookAfter() {
	k, b := &s.keeper, &s.standby
	polls, holds, asked := k.polls.Load(), b.holds.Load(), b.asked.Load()
	pause, idle := time.Duration(standbyNs), time.Duration(0)
	for {
		b.awake.Store(pause == standbyNs)
		nap(pause)
		if s.Closed() || s.Background() || k.off.Load() {
			return
		}
		if b.holds.Load() == holds {
			s.sendHeld() // what waits since the last look has waited long enough
		}
		if now := k.polls.Load(); now != polls {
			polls, idle = now, 0
		} else if idle += pause; s.receiveForNobody() {
			k.attention.missed()
			s.takeOver()
			return
		} else if idle >= patience {
			s.takeOver() // it sleeps until something comes
			return
		}
		if h, a := b.holds.Load(), b.asked.Load(); h != holds || a != asked {
			holds, asked, pause = h, a, standbyNs
			continue
		}
		if pause *= 2; pause > patience {
			if idle == 0 {
				k.attention.kept()
			}
			return // the timer of the keeper goes on
		}
	}
}

// receiveForNobody looks at the link for a program that does not, and reports whether there was something.
func (s *Shard) receiveForNobody() bool {
	if !s.rxMu.TryLock() {
		return false // it does, after all
	}
	defer s.rxMu.Unlock()
	s.received = 0
	_, err := s.progress(Never)
	return err != nil || s.received > 0 // who takes over meets the error again
}

// sendHeld sends messages that wait, in vain.
func (s *Shard) sendHeld() {
	if !s.posts.waiting() {
		return
	}
	s.mu.Lock()
	if !s.shut && !s.Background() && s.posts.waiting() {
		s.hold.inVain()
		s.Flush(s.link.Now())
	}
	s.mu.Unlock()
}

// ServeForeign tells that a program in another language uses the shard, which looks at memory without a call.
func (s *Shard) ServeForeign() {
	if s.mode != Driven {
		s.foreign.Store(true)
	}
}

// Progress is Poll for such a program, when it has found nothing.
func (s *Shard) Progress() {
	k, now := &s.keeper, s.link.Now()
	starved := s.starved.looks(now)
	if starved {
		k.attention.starved()
		if s.Polled() {
			s.takeOver()
		}
	}
	if s.Polled() {
		if s.posts.waiting() {
			s.sendInTime()
		}
		s.Poll(Always)
		if runtime.NumCPU() == 1 {
			s.GiveWay()
		}
		return
	}
	if !starved {
		s.SendPosted()
	}
	if s.mode == Driven {
		return
	}
	if (k.attention.called(now) || s.mode == Polling && k.attention.proof.Load() == 0) && k.wanted.CompareAndSwap(false, true) {
		s.link.Wake()
	}
}

// sendInTime is SendPosted for a program that has come back by itself.
func (s *Shard) sendInTime() {
	s.mu.Lock()
	if !s.shut && s.posts.waiting() {
		s.hold.worth()
		s.Flush(s.link.Now())
	}
	s.mu.Unlock()
}

// defers reports whether somebody would send a message later that is posted now, behind others. The lock is held.
func (s *Shard) defers(now int64) bool {
	if s.Background() {
		return !s.blocked
	}
	if !s.foreign.Load() || !s.hold.waits(now) {
		return false
	}
	if !s.standby.awake.Load() {
		if s.hold.quick >= holdBegins {
			s.hold.quick = 0
			s.standby.asked.Add(1)
			s.standBy()
		}
		return false
	}
	s.standby.holds.Add(1)
	return true
}
