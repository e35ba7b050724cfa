package shard

import (
	"context"
	"runtime"
	"sync/atomic"
)

// leader is the goroutine that waits for something and receives meanwhile; see solo. The goroutine of the shard has
// ended then, and the timer of the keeper looks after the shard: if the leader has returned to its program and does not come
// back soon, the goroutine takes over.
type leader struct {
	leading atomic.Bool // somebody is in lead
	asleep  atomic.Bool // in link.Wait, or about to
	rests   atomic.Bool // the timer of the keeper: whoever leaves sets it again

	procs    int           // GOMAXPROCS
	posted   atomic.Uint32 // messages, so far; written with the lock of the shard held
	others   Trial         // to let others run; under rxMu
	soloOver bool          // under rxMu: the goroutine of the shard is to receive again

	// The context whose end sets a signal, under rxMu.
	watched <-chan struct{}
	sets    *Signal
	unwatch func() bool
}

// Led reports whether a goroutine that waits is to receive for itself.
func (s *Shard) Led() bool { return s.solo.sig.Load() != nil }

// rouse ends the sleep of the leader.
func (s *Shard) rouse() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.link.Wake()
	}
}

// lead receives until the signal is set, the context ends, or somebody else is to receive: then it returns false.
func (s *Shard) lead(ctx context.Context, sig *Signal) (led bool, err error) {
	if s.Background() || !s.rxMu.TryLock() {
		return false, nil
	}
	defer s.rxMu.Unlock()
	s.leading.Store(true)
	sig.leads.Store(s)
	defer s.leave(sig)
	s.keeper.polls.Add(1)
	s.watch(ctx, sig)
	now := s.link.Now()
	s.endLateDelay(now)
	s.pace.begin(now)
	look := !s.pace.pauses(now) // a sleep finds what is there
	for s.solo.is(sig) && !s.Background() {
		switch {
		case sig.take():
			return true, nil
		case s.Closed():
			return true, s.ClosedErr()
		}
		if err := ctx.Err(); err != nil {
			return true, err
		}
		busy := false
		if look {
			if busy, err = s.progress(s.expectReply); err != nil {
				s.fail(err)
				return true, s.ClosedErr()
			}
			if sig.isSet() {
				continue
			}
		}
		look = true
		if s.soloOver {
			s.takeOver()
		}
		s.letOthersRun()
		if sig.isSet() {
			continue
		}
		now = s.link.Now()
		s.endLateDelay(now)
		if s.pace.turn(now, busy, s.spinNs) {
			if err := s.sleep(ctx, sig, now); err != nil {
				s.fail(err)
				return true, s.ClosedErr()
			}
			s.pace.begin(s.link.Now())
		}
	}
	return false, nil
}

// sleep blocks, unless there is a reason not to: who gives one rouses the leader.
func (s *Shard) sleep(ctx context.Context, sig *Signal, now int64) error {
	s.asleep.Store(true)
	defer s.asleep.Store(false)
	if sig.isSet() || s.Background() || !s.solo.is(sig) || s.Closed() || ctx.Err() != nil {
		return nil
	}
	return s.block(now)
}

// proveSolo has the goroutine of the shard end if another one is to receive for itself, or notes that this is to end. rxMu and the lock are held.
func (s *Shard) proveSolo() {
	s.soloOver = s.solo.over()
	if s.solo.proven() && s.mode == EventDriven && s.Background() && !s.foreign.Load() && !s.keeper.off.Load() {
		s.alone = s.solo.last
	}
}

// letOthersRun does that before the leader goes on or blocks: one that blocks keeps its processor from them, until another one has
// nothing to do, or the runtime notices. Where there are several processors that also wakes a thread, which mostly finds nothing, so
// there it is done as long as something is posted meanwhile: the answer of somebody whom the leader has told.
func (s *Shard) letOthersRun() {
	if s.procs == 1 {
		runtime.Gosched()
		return
	}
	if !s.others.Due() {
		return
	}
	before := s.posted.Load()
	runtime.Gosched()
	if s.posted.Load() != before {
		s.others.Paid()
	} else {
		s.others.InVain()
	}
}

// leave is the end of lead.
func (s *Shard) leave(sig *Signal) {
	sig.leads.Store(nil)
	s.leading.Store(false)
	if s.rests.Load() && s.rests.CompareAndSwap(true, false) {
		s.lookAgain()
	}
}

// watch has the end of a context set the signal. That of the last call goes on, so that calls with one context cost nothing. rxMu is held.
func (s *Shard) watch(ctx context.Context, sig *Signal) {
	done := ctx.Done()
	if done == s.watched && sig == s.sets {
		return
	}
	s.forgetWatch()
	if done != nil {
		s.watched, s.sets = done, sig
		s.unwatch = context.AfterFunc(ctx, sig.Rouse)
	}
}

// forgetWatch ends it. rxMu is held.
func (s *Shard) forgetWatch() {
	if s.unwatch != nil {
		s.unwatch()
	}
	s.watched, s.sets, s.unwatch = nil, nil, nil
}
