package shard

import "context"

// seat tracks the goroutine that receives while it waits: see lease. It is plain state: the caller
// of a method holds seatMu, which comes after all other locks, and then acts on the answer.
type seat struct {
	heir    *Signal // of the goroutine that may sit; nil: the keeper or a poll receives
	taken   bool    // the goroutine sits
	asleep  bool    // it sleeps in the link, or is about to
	resting bool    // the timer is not set: getUp asks for it
	seen    uint32  // looks at the link when the timer was set
}

// tick says what to do with the timer after it has fired.
type tick uint8

const (
	tickAgain tick = iota
	tickRests
	tickTakeOver // nobody receives, so the keeper has to
)

// lend hands the seat to heir when the keeper leaves. The caller sets the timer.
func (v *seat) lend(heir *Signal, looks uint32) { *v = seat{heir: heir, taken: v.taken, seen: looks} }

// revoke takes the seat back, so that the goroutine in it leaves. It reports whether to wake the
// link.
func (v *seat) revoke() bool {
	v.heir = nil
	return v.rouse()
}

// sitDown takes a lent seat for the goroutine that waits for sig, unless another sits there. It
// reports whether that goroutine may receive.
func (v *seat) sitDown(sig *Signal) bool {
	if sig == nil || v.heir == nil || v.sleeper() != nil || v.taken {
		return false
	}
	v.heir, v.taken = sig, true
	return true
}

// sleep announces a sleep in the link. The goroutine then looks for reasons to stay awake; anyone
// who gives it one rouses it afterwards, so none is missed. sleep returns false if the seat is no
// longer lent.
func (v *seat) sleep() bool {
	v.asleep = v.heir != nil
	return v.asleep
}

// rouse ends the sleep, and reports whether to wake the link.
func (v *seat) rouse() bool {
	was := v.asleep
	v.asleep = false
	return was
}

// getUp frees the seat, and reports whether to set the timer.
func (v *seat) getUp(looks uint32) bool {
	set := v.resting && v.heir != nil
	v.taken, v.asleep, v.resting = false, false, false
	if set {
		v.seen = looks
	}
	return set
}

// fired says what the timer is to do, from the number of looks at the link so far, whoever made
// them.
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

// Lent reports whether the seat is lent: a goroutine that waits receives for itself, and the keeper
// does not.
func (s *Shard) Lent() bool { return s.heir.Load() != nil }

// rouse ends the sleep of the goroutine in the seat. The caller has already set the reason.
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
	s.heir.Swap(nil).forget(s)
	s.seatMu.Unlock()
	if wake {
		s.link.Wake()
	}
}

// sit receives until the signal is set, the context ends or the shard is closed. It returns false
// if this goroutine may not receive, or no longer.
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
	s.pace.lent = true
	s.pace.begin(now)
	look := s.pace.looks(s.spin) || s.pace.shares(s.spin) && s.shareCPU()
	for s.lentTo(sig) {
		switch {
		case sig.take():
			return true, nil
		case s.Closed():
			return true, s.ClosedErr()
		case ctx.Err() != nil:
			return true, ctx.Err()
		}
		now = s.letRun(now) // goroutines that the caller or packets have woken
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
		if s.leaseOver {
			s.takeOver()
		}
		if sig.isSet() {
			s.pace.looked(now, busy, s.received, s.spin)
			continue
		}
		look = s.lookAgain(now, busy)
		s.endAckDelay()
	}
	return false, nil
}

// lentTo reports whether the goroutine that waits for a signal has the seat.
func (s *Shard) lentTo(sig *Signal) bool { return sig != nil && s.heir.Load() == sig }

// sleep blocks in the link unless there is a reason to stay awake.
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

// getUp leaves the seat at the end of sit.
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

// watch makes the end of a context rouse the goroutine in the seat. The previous watch stays in
// place for the same context, so repeated calls cost nothing. rxMu is held.
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
	go func() { // context.AfterFunc would use more of the context than Done
		select {
		case <-w.done:
			s.machine.Resumed()
			s.rouse()
		case <-w.quit:
		}
	}()
}

// forgetWatch ends the watch. rxMu is held.
func (s *Shard) forgetWatch() {
	if s.watched.quit != nil {
		close(s.watched.quit)
	}
	s.watched = watched{}
}
