package shard

import (
	"context"
	"runtime"
	"sync/atomic"
)

// seat is what a shard has for the goroutine that receives while it waits: see lease.
type seat struct {
	taken  atomic.Bool   // somebody is in sit
	asleep atomic.Bool   // in link.Wait, or about to
	turns  atomic.Uint32 // looks at the link, by sleep or call, so far: what renews a lease
	rests  atomic.Bool   // the timer of the keeper: the goroutine that gets up sets it again
	procs  int           // GOMAXPROCS, when the shard was made

	// The context whose end rouses the goroutine, under rxMu.
	watched <-chan struct{}
	rouses  *Signal
	unwatch func()
}

// Lent reports whether a goroutine that waits receives for itself, and the keeper does not.
func (s *Shard) Lent() bool { return s.lease.lent() }

// rouse ends the sleep of the goroutine in the seat. Whoever calls it has given the reason before.
func (s *Shard) rouse() {
	if s.seat.asleep.Load() && s.seat.asleep.CompareAndSwap(true, false) {
		s.link.Wake()
	}
}

// sit receives until the signal is set, the context ends or the shard is closed. It returns false if it is not for this
// goroutine to receive, or not any more.
func (s *Shard) sit(ctx context.Context, sig *Signal) (bool, error) {
	for tries := 0; ; tries++ {
		if !s.lease.is(sig) || s.Background() || s.seat.taken.Load() || tries == 3 {
			return false, nil
		}
		if s.rxMu.TryLock() {
			break
		}
		runtime.Gosched() // the keeper is about to leave
	}
	defer s.rxMu.Unlock()
	s.seat.taken.Store(true)
	sig.seat.Store(s)
	defer s.getUp(sig)
	s.watch(ctx, sig)
	s.endAckDelay()
	now := s.link.Now()
	s.pace.begin(now)
	look := s.pace.looks(now, s.spinNs, s.spinGrows)
	for s.lease.is(sig) && !s.Background() {
		switch {
		case sig.take():
			return true, nil
		case s.Closed():
			return true, s.ClosedErr()
		}
		if err := ctx.Err(); err != nil {
			return true, err
		}
		if !look {
			if err := s.sleep(ctx, sig, now); err != nil {
				s.fail(err)
				return true, s.ClosedErr()
			}
			s.pace.woke(s.link.Now())
		}
		busy, err := s.progress(s.expectReply)
		if err != nil {
			s.fail(err)
			return true, s.ClosedErr()
		}
		now = s.link.Now()
		look = !s.pace.turn(now, busy, s.spinNs, s.spinGrows)
		s.crowd.woken.Store(0) // nobody would send what it holds
		if s.leaseOver {
			s.takeOver()
		}
		if sig.isSet() {
			continue
		}
		if look && !busy {
			s.GiveWay()
		} else if busy || s.seat.procs == 1 {
			runtime.Gosched() // others were woken: whoever blocks keeps its processor from them for a while
		}
		s.endAckDelay()
	}
	return false, nil
}

// sleep blocks, unless there is a reason not to.
func (s *Shard) sleep(ctx context.Context, sig *Signal, now int64) error {
	s.seat.asleep.Store(true)
	defer s.seat.asleep.Store(false)
	if sig.isSet() || s.Background() || !s.lease.is(sig) || s.Closed() || ctx.Err() != nil {
		return nil
	}
	return s.block(now)
}

// getUp is the end of sit.
func (s *Shard) getUp(sig *Signal) {
	sig.seat.Store(nil)
	s.seat.taken.Store(false)
	if s.seat.rests.Load() && s.seat.rests.CompareAndSwap(true, false) {
		s.lookAgain()
	}
}

// watch has the end of a context rouse the goroutine in the seat. That of the last call goes on, so that calls with
// one context cost nothing. rxMu is held.
func (s *Shard) watch(ctx context.Context, sig *Signal) {
	v, done := &s.seat, ctx.Done()
	if done == v.watched && sig == v.rouses {
		return
	}
	s.forgetWatch()
	if done != nil {
		v.watched, v.rouses = done, sig
		quit := make(chan struct{})
		v.unwatch = func() { close(quit) }
		go func() { // context.AfterFunc asks the context for more than the caller of a wait may have it say later
			select {
			case <-done:
				sig.rouse()
			case <-quit:
			}
		}()
	}
}

// forgetWatch ends it. rxMu is held.
func (s *Shard) forgetWatch() {
	v := &s.seat
	if v.unwatch != nil {
		v.unwatch()
	}
	v.watched, v.rouses, v.unwatch = nil, nil, nil
}
