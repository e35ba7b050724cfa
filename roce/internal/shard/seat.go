package shard

import "context"

// seat is where the goroutine sits that receives while it waits: see lease. It is plain state. Who
// calls a method holds seatMu, which comes after all other locks, and then does what the method
// answers.
type seat struct {
	heir    *Signal // of the goroutine that may sit; nil: the keeper receives, or who polls
	taken   bool    // the goroutine sits
	asleep  bool    // it sleeps in the link, or is about to
	resting bool    // the timer is not set: getUp asks for it
	seen    uint32  // looks at the link when the timer was set
}

// tick is what becomes of the timer when it has fired.
type tick uint8

const (
	tickAgain tick = iota
	tickRests
	tickTakeOver // nobody receives, so the keeper has to
)

// lend is for a keeper that leaves. It sets the timer.
func (v *seat) lend(heir *Signal, looks uint32) { *v = seat{heir: heir, taken: v.taken, seen: looks} }

// revoke takes the seat back: who sits leaves. It reports whether to wake the link.
func (v *seat) revoke() bool {
	v.heir = nil
	return v.rouse()
}

// sitDown reports whether the goroutine that waits for a signal may receive: it takes over a lent
// seat in which nobody sits.
func (v *seat) sitDown(sig *Signal) bool {
	if sig == nil || v.heir == nil || v.taken {
		return false
	}
	v.heir, v.taken = sig, true
	return true
}

// sleep comes before a sleep in the link. After it the goroutine looks for reasons to stay awake;
// whoever gives it one rouses it afterwards. So none is missed. It returns false if the seat is not
// lent any more.
func (v *seat) sleep() bool {
	v.asleep = v.heir != nil
	return v.asleep
}

// rouse ends the sleep, and reports whether to wake the link for that.
func (v *seat) rouse() bool {
	was := v.asleep
	v.asleep = false
	return was
}

// getUp reports whether to set the timer.
func (v *seat) getUp(looks uint32) bool {
	set := v.resting && v.heir != nil
	v.taken, v.asleep, v.resting = false, false, false
	if set {
		v.seen = looks
	}
	return set
}

// fired is for the timer. It takes the looks at the link so far: by whom does not matter.
func (v *seat) fired(looks uint32) tick {
	switch {
	case looks != v.seen:
		v.seen = looks
		return tickAgain
	case v.taken:
		v.resting = true
		return tickRests
	}
	return tickTakeOver
}

// Lent reports whether a goroutine that waits receives for itself, and the keeper does not.
func (s *Shard) Lent() bool { return s.heir.Load() != nil }

// rouse ends the sleep of the goroutine in the seat. The caller has given the reason before.
func (s *Shard) rouse() {
	s.seatMu.Lock()
	wake := s.seat.rouse()
	s.seatMu.Unlock()
	if wake {
		s.link.Wake()
	}
}

// revoke takes the seat back from the goroutine that has it.
func (s *Shard) revoke() {
	s.seatMu.Lock()
	wake := s.seat.revoke()
	s.heir.Store(nil)
	s.seatMu.Unlock()
	if wake {
		s.link.Wake()
	}
}

// sit receives until the signal is set, the context ends or the shard is closed. It returns false
// if it is not for this goroutine to receive, or not any more.
func (s *Shard) sit(ctx context.Context, sig *Signal) (bool, error) {
	s.seatMu.Lock()
	ok := s.seat.sitDown(sig)
	if ok {
		s.heir.Store(sig)
	}
	s.seatMu.Unlock()
	if !ok {
		return false, nil
	}
	sig.seat.Store(s)
	defer s.getUp(sig)
	for tries := 0; !s.rxMu.TryLock(); tries++ {
		if tries == 3 || !s.lentTo(sig) {
			return false, nil
		}
		s.machine.Gosched() // the keeper is about to leave
	}
	defer s.rxMu.Unlock()
	s.watch(ctx)
	s.endAckDelay()
	now := s.link.Now()
	s.pace.begin(now)
	look, woke := s.pace.looks(s.spin) || s.pace.shares(s.spin) && s.shareCPU(), false
	for s.lentTo(sig) {
		switch {
		case sig.take():
			return true, nil
		case s.Closed():
			return true, s.ClosedErr()
		case ctx.Err() != nil:
			return true, ctx.Err()
		}
		now, woke = s.letRun(now, woke), false // what the caller has woken, or packets have
		if sig.isSet() {
			continue
		}
		if !look {
			if err := s.sleep(ctx, sig, now); err != nil {
				s.fail(err)
				return true, s.ClosedErr()
			}
			s.pace.woke(s.link.Now())
		}
		s.keeper.polls.Add(1)
		busy, err := s.progress(s.expectReply)
		if err != nil {
			s.fail(err)
			return true, s.ClosedErr()
		}
		now = s.link.Now()
		look = !s.pace.turn(now, busy, s.received, s.spin)
		woke = s.crowd.woken.Swap(0) > 0 // no crowd: nobody would send what it holds
		if s.leaseOver {
			s.takeOver()
		}
		if sig.isSet() {
			continue
		}
		if !busy && !s.shareCPU() {
			look = false
		}
		s.endAckDelay()
	}
	return false, nil
}

// lentTo reports whether the goroutine that waits for a signal has the seat.
func (s *Shard) lentTo(sig *Signal) bool { return sig != nil && s.heir.Load() == sig }

// sleep blocks, unless there is a reason not to.
func (s *Shard) sleep(ctx context.Context, sig *Signal, now int64) error {
	s.seatMu.Lock()
	ok := s.seat.sleep()
	s.seatMu.Unlock()
	if ok && !sig.isSet() && !s.Closed() && ctx.Err() == nil {
		err := s.block(now)
		s.seatMu.Lock()
		s.seat.asleep = false
		s.seatMu.Unlock()
		return err
	}
	return nil
}

// getUp is the end of sit.
func (s *Shard) getUp(sig *Signal) {
	sig.seat.Store(nil)
	k := &s.keeper
	s.seatMu.Lock()
	set := s.seat.getUp(k.polls.Load())
	s.seatMu.Unlock()
	if !set {
		return
	}
	k.mu.Lock()
	if !k.over && !s.Background() {
		k.timer.Reset(s.patience())
	}
	k.mu.Unlock()
}

// watched is a context whose end rouses the goroutine in the seat.
type watched struct {
	done <-chan struct{}
	quit chan struct{}
}

// watch has the end of a context rouse the goroutine in the seat. That of the last call goes on, so
// that calls with one context cost nothing. rxMu is held.
func (s *Shard) watch(ctx context.Context) {
	w := watched{done: ctx.Done()}
	if w.done == s.watched.done {
		return
	}
	s.forgetWatch()
	if w.done == nil {
		return
	}
	w.quit = make(chan struct{})
	s.watched = w
	go func() { // context.AfterFunc asks the context for more than the caller of a wait may have it say later
		select {
		case <-w.done:
			s.machine.Resumed()
			s.rouse()
		case <-w.quit:
		}
	}()
}

// forgetWatch ends it. rxMu is held.
func (s *Shard) forgetWatch() {
	if s.watched.quit != nil {
		close(s.watched.quit)
	}
	s.watched = watched{}
}
